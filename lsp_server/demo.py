"""`draftline demo`: three suggestions in the repository at hand, and how each came about."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.text import Text

from engine.tokenizer import Tokenizer
from lsp_server.completer import MAX_TOKENS
from lsp_server.demo_places import KINDS, DemoPlace, find_places
from lsp_server.demo_session import DemoSession
from lsp_server.documents import Document
from lsp_server.settings import Settings
from model_setup import store
from model_setup.presets import default_preset
from model_setup.progress import console

_COLOURS = {"draft2": "bold green", "draft": "bold cyan", "oracle": "bold magenta"}
_ROUND_CURSOR = 5  # lines of code shown above and below


@dataclass(frozen=True)
class Shown:
    """One cursor: file relative to the repository, line from 1, column in characters left of the cursor.

    suggestion was made in staged mode, plain from the same prompt without any guessing;
    tokens are the texts of all that the model wrote up to the suggestion's end, origins their stages.
    """

    file: str
    line: int
    column: int
    suggestion: str
    plain: str
    equal: bool
    tokens: list[str]
    origins: list[str]
    tokens_per_second: float
    plain_tokens_per_second: float
    tokens_per_cycle: float


def demo(folder: Path, settings: Settings, as_json: bool) -> int:
    """Set up what is missing, ask, and print.

    Raises:
        DraftlineError: the model cannot be had, or the repository has nothing to ask about.
    """
    repository = store.repository_root(folder)
    places = find_places(repository)
    model = _set_up(repository, settings)
    # A process of its own: what other windows do with a shared one would be in the figures.
    command = ["-m", "lsp_server.cli", "--stdio", "--in-process"]
    command += ["--weights", settings.weights, "--model", str(model)]
    status, shown = asyncio.run(ask_all(command, repository, places))
    if as_json:
        facts = {"model": status.model, "device": status.device, "weights": status.weights}
        cursors = [asdict(one) for _, one in shown]
        print(json.dumps({**facts, "load_seconds": status.loadSeconds, "cursors": cursors}, indent=2))
    else:
        _print(status, shown)
    return 0


def _set_up(repository: Path, settings: Settings) -> Path:
    """The model, fetched if it is the default and missing; the repository's trigram is built if missing."""
    from model_setup.repository import build_trigram, set_up_repository

    if settings.model is None and store.installed_model(default_preset().name) is None:
        return set_up_repository(repository)[0]
    model = store.resolve_model(settings.model)
    tokenizer = model / "tokenizer.json"
    if tokenizer.exists() and not store.trigram_path(repository, Tokenizer(tokenizer).fingerprint).exists():
        build_trigram(repository, model)
    return model


async def ask_all(
    command: Sequence[str], repository: Path, places: dict[str, list[DemoPlace]]
) -> tuple[Any, list[tuple[DemoPlace, Shown]]]:
    """Start the server with ``command`` and ask it once for each kind of place; gives its status too.

    Of a kind's places the first is taken for which the model has something to suggest, in a file that
    was not asked about before if there is one.
    """
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("Loading the model", total=100)
        session = DemoSession(lambda percentage: bar.update(task, completed=percentage))
        try:
            status = await session.start(command, repository)
            shown: list[tuple[DemoPlace, Shown]] = []
            for kind in KINDS:
                bar.update(task, description=f"Asking {kind}")
                asked = {place.path for place, _ in shown}
                choice = [place for place in places[kind] if place.path not in asked] or places[kind]
                for place in choice:
                    answer = await _ask(session, repository, place)
                    if answer.suggestion or place is choice[-1]:
                        shown.append((place, answer))
                        break
        finally:
            await session.leave()
    return status, shown


async def _ask(session: DemoSession, repository: Path, place: DemoPlace) -> Shown:
    """Ask staged and plain. Both times the prompt is in the KV cache, so that only decoding is compared."""
    uri = (repository / place.path).as_uri()
    session.open(uri, place)
    await session.complete(uri, place.cursor, "plain", max_tokens=1)
    staged = await session.complete(uri, place.cursor, "staged", MAX_TOKENS)
    plain = await session.complete(uri, place.cursor, "plain", MAX_TOKENS)
    session.close(uri)
    return Shown(
        file=place.path.as_posix(),
        line=place.cursor.line + 1,
        column=place.cursor.character,
        suggestion=staged.text,
        plain=plain.text,
        equal=staged.text == plain.text and list(staged.tokens) == list(plain.tokens),
        tokens=list(staged.tokens),
        origins=list(staged.origins),
        tokens_per_second=staged.tokensPerSecond,
        plain_tokens_per_second=plain.tokensPerSecond,
        tokens_per_cycle=staged.tokensPerCycle,
    )


def _print(status: Any, shown: list[tuple[DemoPlace, Shown]]) -> None:
    out = Console(highlight=False, soft_wrap=True)
    out.print(
        f"{status.model} on {status.device}, weights {status.weights}, loaded in {status.loadSeconds:.1f} s",
        markup=False,
    )
    legend = [Text("each token's colour tells which stage proposed it:")]
    legend += [Text(stage, style=colour) for stage, colour in _COLOURS.items()]
    out.print(Text("  ").join(legend))
    for place, one in shown:
        out.rule(f"{one.file}:{one.line}:{one.column}, {place.kind}", align="left")
        out.print(_code(place, one))
        out.print(
            f"{len(one.tokens)} tokens ({_counted(one.origins)}), {one.tokens_per_cycle:.1f} per cycle; "
            f"staged {one.tokens_per_second:.1f} tok/s, plain {one.plain_tokens_per_second:.1f} tok/s, "
            f"{'the same text' if one.equal else 'NOT the same text'}"
        )
    out.print("Both were timed with the prompt already read.", style="dim")


def _counted(origins: Sequence[str]) -> str:
    return ", ".join(f"{origins.count(stage)} {stage}" for stage in _COLOURS if stage in origins)


def _code(place: DemoPlace, one: Shown) -> Text:
    """The lines round the cursor, with the suggestion in colours."""
    document, cursor, end = Document(place.text, encoding="utf-32"), place.cursor, place.end
    document.edit((cursor.line, cursor.character), (end.line, end.character), "")
    lines = document.lines
    above = "".join(lines[max(0, cursor.line - _ROUND_CURSOR) : cursor.line])
    below = "".join(lines[cursor.line + 1 : cursor.line + 1 + _ROUND_CURSOR])
    line = lines[cursor.line]
    code = Text(above + line[: cursor.character], style="dim")
    for text, origin in _shown_tokens(one):
        code.append(text, style=_COLOURS[origin])
    if not one.suggestion:
        code.append("(no suggestion)", style="italic")
    return code.append((line[cursor.character :] + below).rstrip("\r\n"))


def _shown_tokens(one: Shown) -> Iterator[tuple[str, str]]:
    """The tokens that made it into the suggestion, the last of them perhaps cut."""
    left = len(one.suggestion.replace("\r\n", "\n"))
    for text, origin in zip(one.tokens, one.origins, strict=True):
        yield text[:left], origin
        left -= len(text[:left])
