"""From an import to the file of the repository that it means."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.documents import split_lines
from lsp_server.imports import Import, imports_of, module_files


@pytest.mark.parametrize(
    ("text", "imports"),
    [
        ("import a", [Import("a")]),
        ("import a.b as c, d  # why\n", [Import("a.b"), Import("d")]),
        ("from a.b import c as d, e", [Import("a.b", ("c", "e"))]),
        ("from a import (\r\n    b,  # first, of two\r\n    c,\r\n)\r\n", [Import("a", ("b", "c"))]),
        ("from . import x", [Import(".", ("x",))]),
        ("from ..y import *", [Import("..y")]),
        ("if TYPE_CHECKING:\n    from a import B", [Import("a", ("B",))]),
        ("x = 'import a'\n# from a import b", []),
        ("from a import (b,", [Import("a")]),
    ],
)
def test_python_imports(text, imports):
    assert list(imports_of(split_lines(text), ".py")) == imports


@pytest.mark.parametrize(
    ("text", "modules"),
    [
        ("import a, { b } from './x';", ["./x"]),
        ("import {\n  a,\n} from '../lib/y.js'", ["../lib/y.js"]),
        ("import './style'", ["./style"]),
        ('export * from "./z"', ["./z"]),
        ("const q = require('./q')\nawait import('./r')", ["./q", "./r"]),
        ("import react from 'react'", []),
    ],
)
def test_script_imports(text, modules):
    assert [found.module for found in imports_of(split_lines(text), ".ts")] == modules


def test_other_languages_have_none():
    assert imports_of(["import a\n"], ".go") == ()


@given(st.text(st.sampled_from("from import(.,)\n'\"#aé")))
def test_any_text_is_read(text):
    for suffix in (".py", ".ts"):
        imports_of(split_lines(text), suffix)


def test_a_long_text_costs_no_more():
    lines = ["import a\n", "x" * 2_000_000 + "\n", *["y = 1\n"] * 16_000, "import b\n"]
    assert imports_of(lines, ".py") == (Import("a"),)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in (
        *("main.py", "helpers.py", "shop/__init__.py", "shop/orders.py", "shop/db/models.py"),
        *("src/core/base.py", "web/app.ts", "web/api.ts", "web/view.tsx", "web/old.js", "web/ui/index.ts"),
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path


@pytest.mark.parametrize(
    ("importer", "text", "files"),
    [
        ("main.py", "import helpers, os\n", ["helpers.py"]),
        ("main.py", "from shop import orders\n", ["shop/orders.py"]),
        ("main.py", "from shop import Order\n", ["shop/__init__.py"]),
        ("main.py", "from shop import orders, Order\n", ["shop/orders.py", "shop/__init__.py"]),
        ("main.py", "import shop.orders\nfrom shop.orders import a\n", ["shop/orders.py"]),
        ("main.py", "from core.base import Base\n", ["src/core/base.py"]),
        ("shop/orders.py", "from .db.models import Row\n", ["shop/db/models.py"]),
        ("shop/orders.py", "from . import db\n", ["shop/__init__.py"]),
        ("shop/db/models.py", "from ..orders import a\n", ["shop/orders.py"]),
        ("shop/db/models.py", "import helpers\n", ["helpers.py"]),
        ("shop/orders.py", "import orders\n", []),
        ("main.py", "from " + "." * 40 + " import x\n", []),
        ("web/app.ts", "import './api'; import './view.js'", ["web/api.ts", "web/view.tsx"]),
        ("web/app.ts", "import './ui'", ["web/ui/index.ts"]),
        ("web/app.ts", "import './old'; import './none'; import '.'; import '../../../x'", ["web/old.js"]),
        ("main.py", f"import {'a' * 300}\nimport helpers\n", ["helpers.py"]),  # longer than a name can be
        ("web/app.ts", f"import './{'a' * 290}'; import './api'", ["web/api.ts"]),
    ],
)  # fmt: skip
def test_the_files_that_imports_mean(root, importer, text, files):
    path = root / importer
    found = module_files(imports_of([text], path.suffix), path, root)
    assert [file.relative_to(root).as_posix() for file in found] == files


def test_nothing_above_the_repository_is_looked_for(root):
    web = root / "web"
    text = "import '../main.py'; import './api'"
    assert module_files(imports_of([text], ".ts"), web / "app.ts", web) == [web / "api.ts"]
    shop = root / "shop"
    assert module_files(imports_of(["from .. import helpers\n"], ".py"), shop / "orders.py", shop) == []
