"""What the model is shown beside the text: useful, allowed, fresh, and the same while the user types."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lsp_server.context import ContextSource
from lsp_server.documents import Cursor, Document
from lsp_server.exclusions import Exclusions
from lsp_server.prompt import PromptFormat
from lsp_server.prompt_budget import HEAD_TOKENS, Budget
from lsp_server.prompt_head import NOWHERE
from tests.lsp_server.scripted_engine import ByteTokenizer

INVOICE = """\
class Invoice:
    def __init__(self, customer, amount):
        self.customer = customer
        self.amount = amount

    def charge(self, gateway):
        return gateway.charge(self.customer, self.amount)
"""
MAIN = """\
import os

def settle(invoice, gateway):
    receipt = gateway.charge(invoice.customer, invoice.amount)
    """
UNLIKE = "def rotate(matrix, angle):\n    return matrix * angle\n"
SPECIAL = {
    name: 300 + i
    for i, name in enumerate(
        ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|repo_name|>", "<|file_sep|>")
    )
}


class Session:
    """Open documents and a repository, whose files are read at once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.choose()

    def choose(self, **choices) -> None:
        """Begin anew, with choices of the user's."""
        self.source = ContextSource(self.root, background=lambda work: work(), **choices)
        self.documents: dict[str, Document] = {}

    def uri(self, name: str) -> str:
        return name if ":" in name else (self.root / name).as_uri()

    def file(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")
        return path

    def open(self, name: str, text: str) -> Document:
        document = Document(text)
        self.documents[name] = document
        self.source.opened(self.uri(name), document)
        return document

    def open_file(self, name: str, text: str) -> Document:
        self.file(name, text)
        return self.open(name, text)

    def type(self, name: str, text: str, at: Cursor | None = None) -> None:
        document = self.documents[name]
        at = at or self.end(name)
        document.edit((at.line, at.character), (at.line, at.character), text)
        self.source.edited(self.uri(name), at.line, at.line, at.line + text.count("\n"))

    def end(self, name: str) -> Cursor:
        lines = self.documents[name].lines
        return Cursor(len(lines) - 1, len(lines[-1]))

    def around(self, name: str, cursor: Cursor | None = None):
        lines = self.documents[name].snapshot()
        return self.source.around(self.uri(name), lines, cursor or self.end(name))

    def paths(self, name: str, cursor: Cursor | None = None) -> list[str]:
        return [snippet.path for snippet in self.around(name, cursor).snippets]

    def texts(self, name: str) -> str:
        return "".join(snippet.text for snippet in self.around(name).snippets)


@pytest.fixture
def session(tmp_path: Path) -> Session:
    root = tmp_path / "shop"
    root.mkdir()
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    (root / ".gitignore").write_text("local_*.py\n", encoding="utf-8")
    return Session(root)


def test_the_repository_and_the_path_are_told(session):
    session.open_file("billing/main.py", MAIN)
    around = session.around("billing/main.py")
    assert (around.repository, around.path, around.snippets) == ("shop", "billing/main.py", ())


def test_another_open_document_that_is_alike_is_shown(session):
    session.open_file("invoice.py", INVOICE)
    session.open_file("unlike.py", UNLIKE)
    session.open_file("main.py", MAIN)
    assert session.paths("main.py") == ["invoice.py"]
    assert "def charge(self, gateway):\n" in session.texts("main.py")


@pytest.mark.parametrize(
    ("name", "text", "statement", "other"),
    [
        ("main.py", MAIN, "from invoice import Invoice\n", "invoice.py"),
        ("src/main.py", MAIN, "from .invoice import Invoice\n", "src/invoice.py"),
        ("web/main.ts", MAIN, "import { Invoice } from './invoice'\n", "web/invoice.ts"),
    ],
)
def test_a_file_that_is_imported_is_shown_though_it_is_not_open(session, name, text, statement, other):
    session.file(other, INVOICE)
    session.open_file(name, statement + text)
    assert session.paths(name) == [other]


def test_an_import_that_is_typed_is_followed(session):
    session.file("invoice.py", INVOICE)
    session.open_file("main.py", MAIN)
    assert session.paths("main.py") == []
    session.type("main.py", "import invoice\n", Cursor(0, 0))
    assert session.paths("main.py") == ["invoice.py"]


def test_a_document_that_was_closed_lately_is_shown_as_it_is_on_disk(session):
    session.open_file("invoice.py", INVOICE)
    session.open_file("main.py", MAIN)
    session.source.closed(session.uri("invoice.py"))
    assert session.paths("main.py") == ["invoice.py"]


def test_the_open_text_counts_and_not_the_one_on_disk(session):
    session.open_file("main.py", "import invoice\n" + MAIN)
    session.file("invoice.py", INVOICE)
    session.open("invoice.py", INVOICE.replace("return gateway", "return await_gateway"))
    assert session.texts("main.py").count("gateway.charge(self.customer, self.amount)") == 1
    assert "await_gateway" in session.texts("main.py")


def test_places_edited_lately_in_the_same_document_are_shown_if_out_of_the_window(session):
    filler = "".join(f"value_{n} = compute_{n}(argument_{n})\n" for n in range(400))
    session.open_file("main.py", INVOICE + "\n\n" + filler + MAIN)
    assert session.paths("main.py") == []
    session.type("main.py", "  # fee", Cursor(5, 30))
    assert session.paths("main.py") == []  # the cursor is where the choice was made
    session.around("main.py", Cursor(200, 0))
    assert session.paths("main.py") == ["main.py"]
    assert "# fee" in session.texts("main.py")
    assert session.paths("main.py", Cursor(8, 0)) == []  # the window shows it


def test_of_a_very_large_document_only_the_places_edited_are_looked_at(session):
    large = INVOICE + "\n\n" + "pass_value = 1\n" * 16_000
    session.open_file("large.py", large)
    session.open_file("main.py", MAIN)
    assert session.paths("main.py") == []
    session.type("large.py", " ", Cursor(5, 30))
    assert session.paths("main.py") == ["large.py"]


@pytest.mark.parametrize("name", ["local_settings.py", ".env", "secrets.py", "../outside.py"])
def test_what_is_secret_ignored_or_outside_is_never_shown(session, name):
    session.open_file(name, INVOICE)
    module = Path(name).stem
    session.open_file("main.py", f"import {module}\n" + MAIN)
    assert session.paths("main.py") == []
    session.source.closed(session.uri(name))
    session.around("main.py", Cursor(0, 0))
    assert session.paths("main.py") == []


def test_a_line_that_looks_like_a_secret_is_left_out(session):
    session.open_file(
        "invoice.py",
        INVOICE.replace("        self.amount", "        password = 'hunter22x'\n        self.amount"),
    )
    session.open_file("main.py", MAIN)
    assert session.paths("main.py") == ["invoice.py"]
    assert "hunter22x" not in session.texts("main.py")


@pytest.mark.parametrize(("dashes", "shown"), [("-----", []), ("", ["keys.py"])])
def test_a_part_of_a_secret_is_left_out_where_its_beginning_is_in_another_block(session, dashes, shown):
    key = "".join(f"invoice+gateway/customer+amount+receipt+{n:02}\n" for n in range(60))
    begin, end = (f"{dashes}{word} RSA PRIVATE KEY{dashes}\n" for word in ("BEGIN", "END"))
    session.open_file("keys.py", begin + key + end)
    session.open_file("main.py", MAIN)
    assert session.paths("main.py") == shown


def test_a_secret_document_gets_nothing(session):
    session.open_file("invoice.py", INVOICE)
    session.open(".env", MAIN)
    assert session.around(".env") == NOWHERE


@pytest.mark.parametrize("pattern", ["invoice.py", "*.py", "billing/", "/billing/**"])
def test_what_the_user_excludes_is_not_shown_open_or_imported(session, pattern):
    session.choose(exclusions=Exclusions(session.root, [pattern]))
    session.file("billing/invoice.py", INVOICE)
    session.open_file("main.pyi", "import billing.invoice\n" + MAIN)
    assert session.paths("main.pyi") == []
    session.open("billing/invoice.py", INVOICE)
    assert session.paths("main.pyi") == []
    assert session.around("billing/invoice.py") == NOWHERE


def test_without_other_files_only_the_document_itself_is_shown(session):
    session.choose(cross_file=False)
    session.file("invoice.py", INVOICE)
    session.open_file("open.py", INVOICE)
    session.open_file("main.py", "import invoice\n" + MAIN)
    around = session.around("main.py")
    assert (around.repository, around.path, around.snippets) == ("shop", "main.py", ())


def test_with_a_smaller_budget_less_is_shown(session):
    for number in range(4):
        session.open_file(f"invoice{number}.py", INVOICE.replace("charge", f"charge{number}"))
    session.open_file("main.py", MAIN)
    shown = len(session.paths("main.py"))
    session.choose(budget=Budget.of(500))
    for number in range(4):
        session.open_file(f"invoice{number}.py", INVOICE.replace("charge", f"charge{number}"))
    session.open_file("main.py", MAIN)
    assert 0 < len(session.paths("main.py")) < shown
    assert session.around("main.py").budget == Budget.of(500)


def test_a_document_that_is_not_open_has_no_surroundings(session):
    assert session.source.around("file:///nowhere.py", ["x"], Cursor(0, 0)) == NOWHERE


def test_untitled_documents_and_cells_of_the_same_notebook_are_shown(session):
    cell = session.uri("book.ipynb").replace("file:", "vscode-notebook-cell:")
    session.open(f"{cell}#W1", INVOICE)
    session.open(f"{cell}#W2", MAIN)
    assert session.paths(f"{cell}#W2") == ["book.ipynb"]
    session.open("untitled:Untitled-1", MAIN)
    assert session.paths("untitled:Untitled-1") == []
    session.open("untitled:Untitled-2", INVOICE)
    assert session.paths("untitled:Untitled-1") == [""]


def test_what_one_cell_of_a_notebook_imports_is_shown_in_the_others(session):
    session.file("invoice.py", INVOICE)
    session.file("unlike.py", UNLIKE)
    cell = session.uri("book.ipynb").replace("file:", "vscode-notebook-cell:")
    session.open(f"{cell}#W1", "import invoice\n")
    session.open(f"{cell}#W2", "import unlike\n")
    session.open(f"{cell}#W3", MAIN)
    assert "invoice.py" in session.paths(f"{cell}#W3")
    session.source.closed(f"{cell}#W2")
    assert "invoice.py" in session.paths(f"{cell}#W3")


@pytest.mark.parametrize("uri", ["git:/shop/invoice.py", "output:x", "file://[bad/x.py", "", "untitled:.env"])
def test_other_kinds_of_documents_are_no_source(session, uri):
    session.source.opened(uri, Document(INVOICE))
    session.open_file("main.py", MAIN)
    assert session.paths("main.py") == []
    session.source.around(uri, [MAIN], Cursor(0, 0))


def test_without_a_folder_nothing_is_read(tmp_path):
    source = ContextSource(None, background=lambda work: work())
    (tmp_path / "invoice.py").write_text(INVOICE, encoding="utf-8")
    uri = (tmp_path / "main.py").as_uri()
    source.opened(uri, Document("import invoice\n" + MAIN))
    around = source.around(uri, [MAIN], Cursor(0, 0))
    assert (around.repository, around.path, around.snippets) == ("", "main.py", ())


def test_a_snippet_of_a_file_that_changed_on_disk_is_dropped(session):
    path = session.file("invoice.py", INVOICE)
    session.open_file("main.py", "import invoice\n" + MAIN)
    assert session.paths("main.py") == ["invoice.py"]
    session.file("invoice.py", INVOICE.replace("charge", "bill"))
    assert "def charge" not in session.texts("main.py")
    assert "def bill" in session.texts("main.py")  # read again meanwhile
    path.unlink()
    assert session.paths("main.py") == []


def test_a_snippet_of_a_document_that_changed_is_out_of_date(session):
    session.open_file("invoice.py", INVOICE)
    session.open_file("main.py", MAIN)
    assert "def charge" in session.texts("main.py")
    session.type("invoice.py", "_all", Cursor(5, 14))
    assert "def charge_all" in session.texts("main.py")
    session.documents["invoice.py"].replace(UNLIKE)
    session.source.replaced(session.uri("invoice.py"))
    assert session.paths("main.py") == []


def beginning(session, name, cursor=None):
    document = session.documents[name]
    around = session.around(name, cursor)
    prompt = PromptFormat(ByteTokenizer(SPECIAL), "model")
    ids = prompt.build(document.snapshot(), cursor or session.end(name), 4000, around).ids
    return ids[: ids.index(SPECIAL["<|fim_prefix|>"])]


def test_thirty_keystrokes_within_a_line_leave_the_beginning_of_the_prompt_unchanged(session):
    session.open_file("invoice.py", INVOICE)
    session.open_file("unlike.py", UNLIKE)
    session.open_file("main.py", MAIN)
    beginnings = set()
    for letter in "matrix = rotate(matrix, angle)":
        session.type("main.py", letter)
        beginnings.add(tuple(beginning(session, "main.py")))
    assert len(beginnings) == 1
    assert b"def charge" in bytes(token for token in beginnings.pop() if token < 256)


def test_while_lines_are_typed_the_beginning_seldom_changes(session):
    for n in range(12):
        names = f"customer_{n} amount_{n} gateway_{n}".split()
        session.open_file(
            f"m{n}.py", "".join(f"def f{k}({', '.join(names)}):\n    pass\n\n\n" for k in range(9))
        )
    session.open_file("main.py", "")
    changes, last = 0, None
    for n in range(120):
        session.type("main.py", f"gateway_{n // 20} = customer_{n // 20}, amount_{n // 20}\n")
        now = beginning(session, "main.py")
        changes += last is not None and now != last
        last = now
    assert 1 <= changes <= 120 // 32


def test_the_head_keeps_to_its_budget(session):
    body = "".join(f"    gateway.charge(invoice.customer, invoice.amount, step_{n})\n" for n in range(200))
    for n in range(6):
        session.open_file(f"m{n}.py", f"def settle_{n}(invoice, gateway):\n{body}")
    session.open_file("main.py", MAIN)
    assert 0 < len(beginning(session, "main.py")) <= HEAD_TOKENS


def test_the_same_session_gives_the_same_surroundings(tmp_path):
    def once(name):
        (tmp_path / name).mkdir()
        root = tmp_path / name / "shop"
        root.mkdir()
        session = Session(root)
        for n in range(8):
            session.open_file(f"m{n}.py", INVOICE.replace("amount", f"amount_{n}"))
        session.open_file("main.py", MAIN)
        return session.around("main.py")

    assert once("one") == once("two")


def test_edits_in_step_with_the_lines_below_them(session):
    session.open_file("main.py", "x = 1\n" * 100)
    session.type("main.py", "y", Cursor(50, 0))
    session.type("main.py", "import a\nimport b\n", Cursor(0, 0))
    document = session.source._open[session.uri("main.py")]
    assert document.edits == [52, 2]


def test_documents_that_were_closed_leave_little_behind(tmp_path):
    session = Session(tmp_path)  # outside git, where asking costs nothing
    for n in range(200):
        session.open_file(f"m{n}.py", f"import m{n - 1}\n{INVOICE}")
        session.around(f"m{n}.py")
        session.source.closed(session.uri(f"m{n}.py"))
    files = session.source._files
    assert len(session.source._open) == 0
    assert len(session.source._closed) <= 8
    assert len(files._files) <= 64
    assert len(files._may_be_used) == len(files._imported) == 0
