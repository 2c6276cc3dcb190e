"""Which files are source code, and in what language: by the end of their name."""

from __future__ import annotations

from pathlib import PurePath

_SUFFIXES = {
    "Python": (".py", ".pyi", ".pyx", ".ipy"),
    "C and C++": (
        ".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx", ".inl", ".cu", ".cuh",
    ),
    "Objective-C": (".m", ".mm"),
    "Java": (".java",),
    "Kotlin": (".kt", ".kts"),
    "Scala": (".scala",),
    "Groovy": (".groovy", ".gradle"),
    "C#": (".cs",),
    "F#": (".fs",),
    "Visual Basic": (".vb",),
    "JavaScript": (".js", ".jsx", ".mjs", ".cjs"),
    "TypeScript": (".ts", ".tsx", ".mts", ".cts"),
    "Vue": (".vue",),
    "Svelte": (".svelte",),
    "Go": (".go",),
    "Rust": (".rs",),
    "Ruby": (".rb",),
    "PHP": (".php",),
    "Perl": (".pl", ".pm"),
    "Lua": (".lua",),
    "Swift": (".swift",),
    "Dart": (".dart",),
    "R": (".r",),
    "Julia": (".jl",),
    "Haskell": (".hs",),
    "OCaml": (".ml", ".mli"),
    "Elm": (".elm",),
    "Clojure": (".clj", ".cljs"),
    "Elixir": (".ex", ".exs"),
    "Erlang": (".erl", ".hrl"),
    "Lisp": (".lisp", ".el", ".scm"),
    "Nim": (".nim",),
    "Zig": (".zig",),
    "Verilog and VHDL": (".v", ".sv", ".vhd"),
    "Fortran": (".f90", ".f"),
    "shell": (".sh", ".bash", ".zsh", ".fish", ".ps1", ".bat"),
    "SQL": (".sql",),
    "HTML": (".html", ".htm"),
    "CSS": (".css", ".scss", ".sass", ".less"),
    "GraphQL": (".graphql",),
    "interfaces": (".proto", ".thrift"),
    "build files": (".cmake", ".mk"),
    "Terraform": (".tf",),
    "Nix": (".nix",),
    "TOML": (".toml",),
    "YAML": (".yaml", ".yml"),
}  # fmt: skip
_NAMES = {
    "build files": ("makefile", "dockerfile", "rakefile", "gemfile", "jenkinsfile", "cmakelists.txt"),
}
_LANGUAGE = {
    ending: name for table in (_SUFFIXES, _NAMES) for name, endings in table.items() for ending in endings
}


def language(path: PurePath) -> str | None:
    """The language of the file at ``path`` by its name, None for what is no source code."""
    return _LANGUAGE.get(path.name.lower()) or _LANGUAGE.get(path.suffix.lower())
