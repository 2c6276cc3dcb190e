"""Which files of its repository a Python, JavaScript or TypeScript text imports.

By the text of the imports and the names of files alone: no interpreter, no package's own configuration.
What lies outside the repository (the standard library, installed packages) is not found, on purpose.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_LINES = 200  # imports stand at the top
_CHARACTERS = 20_000

_PYTHON_SUFFIXES = (".py", ".pyi", ".pyx")
_SCRIPT_SUFFIXES = (".ts", ".tsx", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs", ".vue", ".svelte")
_RESOLUTION = (".ts", ".tsx", ".d.ts", ".js", ".jsx", ".mts", ".mjs", ".cts", ".cjs", ".vue", ".svelte")
# TypeScript writes the name that the compiled file will have.
_WRITTEN_FOR = {".js": (".ts", ".tsx"), ".jsx": (".tsx",), ".mjs": (".mts",), ".cjs": (".cts",)}

_FROM = re.compile(
    r"^[ \t]*from[ \t]+(\.*[\w.]*)[ \t]+import[ \t]+(?:\(([^)]*)\)|([^\r\n#]*))"
    r"|^[ \t]*import[ \t]+([^\r\n#]*)",
    re.MULTILINE,
)
_SCRIPT = re.compile(r"""\b(?:from|import|require)\s{0,9}\(?\s{0,9}["'](\.[^"'\r\n]{0,300})["']""")


@dataclass(frozen=True)
class Import:
    """module: as it is written, dots in front included. names: what is taken from it, if that is said."""

    module: str
    names: tuple[str, ...] = ()


def imports_of(lines: Sequence[str], suffix: str) -> tuple[Import, ...]:
    """The imports at the top of a text whose file name ends in ``suffix``; none in other languages."""
    if suffix not in _PYTHON_SUFFIXES + _SCRIPT_SUFFIXES:
        return ()
    text = "".join(line[:_CHARACTERS] for line in lines[:_LINES])[:_CHARACTERS]
    if suffix in _SCRIPT_SUFFIXES:
        return tuple(Import(found[1]) for found in _SCRIPT.finditer(text))
    return tuple(_python(text))


def _python(text: str) -> Iterator[Import]:
    for module, in_parentheses, on_the_line, plain in _FROM.findall(text):
        if plain:
            yield from (Import(name) for name in _first_words(plain))
        else:
            yield Import(module, tuple(_first_words(in_parentheses or on_the_line)))


def _first_words(text: str) -> Iterator[str]:
    """``a`` and ``b.c`` of ``a as x, b.c  # why``, over lines."""
    without_comments = re.sub(r"#[^\r\n]*", "", text)
    for part in without_comments.split(","):
        if word := re.match(r"\s*([\w.]+)", part):
            yield word[1]


def module_files(imports: Sequence[Import], importer: Path, root: Path) -> list[Path]:
    """The files below ``root`` that ``importer``'s imports mean, in their order, each once.

    Both paths are absolute. Looks whether files exist, and opens none.
    """
    script = importer.suffix in _SCRIPT_SUFFIXES
    found: dict[Path, None] = {}
    for wanted in imports:
        paths = _script_files(wanted, importer) if script else _python_files(wanted, importer, root)
        found.update((path, None) for path in paths if path.is_relative_to(root) and path != importer)
    return list(found)


def _script_files(wanted: Import, importer: Path) -> Iterator[Path]:
    base = Path(os.path.normpath(importer.parent / wanted.module))
    renamed = (base.with_suffix(suffix) for suffix in _WRITTEN_FOR.get(base.suffix, ()))
    completed = (base.with_name(base.name + suffix) for suffix in _RESOLUTION if base.name)
    indexes = (base / f"index{suffix}" for suffix in _RESOLUTION)
    for candidate in (base, *renamed, *completed, *indexes):
        if os.path.isfile(candidate):  # noqa: PTH113, Path's raises where we may not look
            yield candidate
            return


def _python_files(wanted: Import, importer: Path, root: Path) -> Iterator[Path]:
    parts = [part for part in wanted.module.split(".") if part]
    dots = len(wanted.module) - len(wanted.module.lstrip("."))
    if dots:
        bases = [importer.parents[dots - 1]] if dots <= len(importer.parents) else []
    else:
        inside = [folder for folder in importer.parents if folder.is_relative_to(root)]
        bases = [root, root / "src", *reversed(inside[:-1])]
    for base in bases:
        module = base.joinpath(*parts)
        submodules = {name: file for name in wanted.names if (file := _python_file(module / name))}
        yield from submodules.values()
        itself = _python_file(module)
        if itself and (len(submodules) < len(wanted.names) or not wanted.names):
            yield itself
        if submodules or itself:
            return


def _python_file(module: Path) -> Path | None:
    candidates = (module.with_name(f"{module.name}.py"), module / "__init__.py") if module.name else ()
    return next((path for path in candidates if os.path.isfile(path)), None)  # noqa: PTH113, as above
