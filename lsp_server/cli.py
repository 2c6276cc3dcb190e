"""The command `draftline`."""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, get_args

from engine.errors import DraftlineError
from engine.request import CancelToken, Mode, SamplingParams
from lsp_server.documents import Cursor, split_lines, without_line_end
from lsp_server.prompt_budget import Budget
from lsp_server.prompt_head import NOWHERE
from lsp_server.settings import TABLE, Settings
from lsp_server.settings_sources import Sources
from model_setup.command_line import OneSentenceParser, draftline_version, positive, run_command

_PLACE = re.compile(r"(?P<file>.+):(?P<line>\d{1,18}):(?P<column>\d{1,18})", re.DOTALL)

_SETTINGS = [name for name, setting in TABLE.items() if setting.option]


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _main(arguments))


def _main(arguments: Sequence[str] | None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    given = {name: value for name in _SETTINGS if (value := getattr(options, name)) is not None}
    if options.command == "serve" or options.stdio:
        return serve(given)
    if options.command in ("status", "stop"):
        from lsp_server.host_command import show_status, stop

        return stop() if options.command == "stop" else show_status(options.json)
    merged = Sources(given).merged()
    for sentence in (*merged.wrong, *merged.unknown):
        print(sentence, file=sys.stderr)
    settings = merged.settings
    if options.command == "settings":
        from lsp_server.settings_command import show_settings

        return show_settings(merged)
    if options.command == "complete":
        return complete(options, settings)
    if options.command == "demo":
        from lsp_server.demo import demo

        return demo(Path.cwd(), settings, as_json=options.json)
    parser.error("say what to do: --stdio, serve, complete, demo, settings, status or stop")


def _parser() -> argparse.ArgumentParser:
    model = OneSentenceParser(add_help=False)
    # Given before or after the command, so the value is set only where it is given.
    model.add_argument(
        "--model", default=argparse.SUPPRESS, help="a model's directory or file, or a preset's name"
    )
    model.add_argument(
        "--draft", default=argparse.SUPPRESS, help="a smaller model of the same family that guesses"
    )
    model.add_argument(
        "--weights",
        choices=("auto", "int8", "fp32", "bf16", "fp16"),
        default=argparse.SUPPRESS,
        help="how the weights are held (auto: what is fastest here)",
    )
    stdio = OneSentenceParser(add_help=False)
    stdio.add_argument(
        "--stdio", action="store_true", default=argparse.SUPPRESS, help="talk on stdin and stdout"
    )
    stdio.add_argument(
        "--in-process",
        action="store_true",
        default=argparse.SUPPRESS,
        help="load the model in this process, not in the one that all editor windows share",
    )

    parser = OneSentenceParser(
        prog="draftline",
        description="Code completion by a model on your own machine.",
        parents=[stdio, model],
    )
    parser.set_defaults(**dict.fromkeys(_SETTINGS), stdio=False)
    parser.add_argument("--version", action="version", version=f"draftline {draftline_version()}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=OneSentenceParser)

    commands.add_parser("serve", parents=[stdio, model], help="the language server, on stdin and stdout")
    one = commands.add_parser("complete", parents=[model], help="one completion, printed")
    one.add_argument(
        "place",
        metavar="FILE:LINE:COL",
        help="the cursor: lines count from 1, COL is the number of characters left of it",
    )
    one.add_argument(
        "--json", action="store_true", help="print the tokens, their origins and the figures too"
    )
    one.add_argument("--mode", choices=get_args(Mode), default="staged")
    one.add_argument("--max-tokens", type=positive, metavar="N")
    one.add_argument("--temperature", type=float, metavar="T", help="how freely tokens are drawn (0: greedy)")
    one.add_argument("--seed", type=int, metavar="S", help="the same seed draws the same text")
    shown = commands.add_parser(
        "demo", parents=[model], help="three suggestions in this repository, explained"
    )
    shown.add_argument("--json", action="store_true", help="print the same as data")
    commands.add_parser("settings", parents=[model], help="what is set, and where")
    shared = commands.add_parser("status", help="the models that all editor windows share, and their process")
    shared.add_argument("--json", action="store_true", help="print the same as data")
    commands.add_parser("stop", help="end that process; the next suggestion that is wanted starts it again")
    return parser


def serve(given: Mapping[str, Any]) -> NoReturn:
    from lsp_server import stdio
    from lsp_server.hosted import load_where_set
    from lsp_server.logs import log_to_file
    from lsp_server.machine import step_back
    from lsp_server.server import DraftlineServer

    step_back()
    log_to_file()
    stdio.serve(DraftlineServer(load_where_set, given))


def complete(options: argparse.Namespace, settings: Settings) -> int:
    """Print one suggestion; nothing at all if there is none."""
    wanted = SamplingParams(
        settings.max_tokens if options.max_tokens is None else options.max_tokens,
        settings.temperature if options.temperature is None else options.temperature,
        seed=settings.seed if options.seed is None else options.seed,
        mode=options.mode,
    )
    path, lines, cursor = read_place(options.place)
    from lsp_server.loading import load_completer

    completer = load_completer(dataclasses.replace(settings, repository=str(path.parent)))
    around = dataclasses.replace(NOWHERE, budget=Budget.of(settings.context_tokens))
    suggestion = completer.complete(lines, cursor, CancelToken(), wanted, around)
    if not options.json:
        sys.stdout.write(suggestion.text + "\n" if suggestion.text else "")
        return 0
    writer = completer.writer
    answer = {
        "suggestion": suggestion.text,
        "tokens": suggestion.tokens,
        "origins": suggestion.origins,
        "tokens_per_cycle": suggestion.tokens_per_cycle,
        "tokens_per_second": suggestion.tokens_per_second,
        "mode": options.mode,
        "model": writer.name,
        "device": writer.device,
        "weights": writer.weights,
        "load_seconds": writer.load_seconds,
    }
    print(json.dumps(answer, indent=2))
    return 0


def read_place(place: str) -> tuple[Path, list[str], Cursor]:
    """The file, its lines and the cursor of ``FILE:LINE:COL``.

    Raises:
        DraftlineError: it is not of that form, the file cannot be read as text, or the cursor is outside it.
    """
    match = _PLACE.fullmatch(place)
    if match is None:
        raise DraftlineError(f"{place} is not of the form FILE:LINE:COL; write for example src/main.py:12:8.")
    path, number, column = Path(match["file"]), int(match["line"]), int(match["column"])
    if not path.exists():
        raise DraftlineError(f"There is no file {path}; check the path.")
    try:
        lines = split_lines(path.read_bytes().decode("utf-8"))
    except UnicodeDecodeError as error:
        raise DraftlineError(f"{path} is not UTF-8 text; convert it, or choose another file.") from error
    except OSError as error:
        raise DraftlineError(f"{path} cannot be read ({error.strerror}); choose a file that can.") from error
    if not 1 <= number <= len(lines):
        raise DraftlineError(f"{path} has no line {number}; give a LINE from 1 to {len(lines)}.")
    length = len(without_line_end(lines[number - 1]))
    if column > length:
        raise DraftlineError(
            f"Line {number} of {path} has {length} characters; give a COL from 0 to {length}, "
            "the number of characters left of the cursor."
        )
    return path, lines, Cursor(number - 1, column)


if __name__ == "__main__":
    sys.exit(main())
