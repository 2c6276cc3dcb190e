"""From keystroke to suggestion, as a client sees it: a real client and the real server with the real model.

    python -m tests.benchmarks.latency [--requests 60] [--model NAME] [--weights KIND] [--only ROW ...]

Prints a table of the figures wanted and measured. Nothing else should run meanwhile. The documents are 400
lines of the standard library's files, and such lines in the middle of a file of 16,000 lines and 1.3 MB. The
server is `observed_server`: the same code, which also tells when its engine worked. *Server time besides the
model* is the client's time from sending to answer, less what of it the engine spent; the server may hold a
request back while characters come quickly, so it is given both for a request sent with its change and for one
a moment later, which is not held back.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import math
import os
import platform
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from engine.errors import DraftlineError
from model_setup.store import home
from tests.benchmarks.editor import MOMENT, Editor, idle, large, library_texts, work
from tests.lsp_server.session import Session, inline_params, session

CHANGES, GAP = 20, 0.05
FILES, WARM_UP = 1000, 100

Row = Callable[[Session, int], Awaitable[str]]


def besides(text: Callable[[str], str], later: bool) -> Row:
    async def measure(it: Session, requests: int) -> str:
        editor = Editor(it, "file:///besides.py", text(library_texts()[0]))
        await idle(it)
        asked = []
        for row, column in editor.places(requests):
            async with editor.cut(row, column):
                if later:
                    await asyncio.sleep(MOMENT)
                asked.append((await editor.ask(row, column)).besides)
        editor.close()
        return middle_and_worst(asked)

    return measure


async def type_through(it: Session, requests: int) -> str:
    editor = Editor(it, "file:///through.py", library_texts()[1])
    asked, hits = [], 0
    for row, column in editor.places(requests):
        async with editor.cut(row, column):
            shown = (await editor.ask(row, column)).text
            if len(shown) < 3 or "\n" in shown[:2]:
                continue
            editor.type(row, column, shown[0])
            typed = await editor.ask(row, column + 1)
            asked.append(typed.seconds)
            hits += typed.text == shown[1:]
    editor.close()
    return f"{middle_and_worst(asked)}; {hits} of {len(asked)} kept what was shown"


async def first_in_a_new_file(it: Session, requests: int) -> str:
    taken, shown = [], 0
    for number, text in enumerate(library_texts()[2 : 2 + max(2, requests // 6)]):
        sent = time.perf_counter()
        editor = Editor(it, f"file:///new{number}.py", text)
        ((row, column),) = editor.places(1)
        async with editor.cut(row, column):
            asked = await editor.ask(row, column, sent)
            taken.append(asked.seconds)
            shown += bool(asked.text)
        editor.close()
    return f"{middle_and_worst(taken)}; {shown} of {len(taken)} showed something"


async def one_more_character(it: Session, requests: int) -> str:
    """Text right of the cursor makes it one line; a character other than the suggestion's needs the model."""
    editor = Editor(it, "file:///warm.py", library_texts()[1])
    taken, engine = [], []
    for row, column in editor.places(requests):
        shown = (await editor.ask(row, column)).text
        await idle(it)
        editor.type(row, column, next(letter for letter in "se" if not shown.startswith(letter)))
        asked = await editor.ask(row, column + 1)
        it.edit((row, column), (row, column + 1), "", editor.uri)
        await idle(it)
        if asked.engine:
            taken.append(asked.seconds)
            engine.append(asked.engine)
    editor.close()
    return f"{middle_and_worst(taken)}, {statistics.median(engine) * 1e3:.0f} ms of it the model's"


async def quick_changes(it: Session, requests: int) -> str:
    editor = Editor(it, "file:///quick.py", library_texts()[0])
    ((row, column),) = editor.places(1)
    async with editor.cut(row, column):
        await idle(it)
        started = time.perf_counter()
        answers = []
        for number, character in enumerate("result = compute(val"[:CHANGES]):
            editor.type(row, column + number, character)
            answers.append(asyncio.ensure_future(it.inline(row, column + number + 1, editor.uri)))
            await asyncio.sleep(GAP)
        await asyncio.gather(*answers, return_exceptions=True)
        answered = time.perf_counter()
        await idle(it)
        done = await work(it, started)
        await asyncio.sleep(1.0)
        busy = (await work(it, started)).processor - done.processor
    editor.close()
    asked = [one for one in done.generations if one.wanted and one.begun < answered]
    whole = sum(not one.cut for one in asked)
    others = len(done.generations) - len(asked)
    return f"{len(asked)} begun, {whole} whole; {others} ahead of requests; then {busy:.1%} busy"


async def cancelled(it: Session, requests: int) -> str:
    editor = Editor(it, "file:///cancelled.py", library_texts()[-1])
    await idle(it)
    taken = []
    for number, (row, column) in enumerate(editor.places(requests)):
        async with editor.cut(row, column):
            started = time.perf_counter()
            request = f"cancelled {number}"
            answer = it.client.protocol.send_request_async(
                types.TEXT_DOCUMENT_INLINE_COMPLETION, inline_params(row, column, editor.uri), request
            )
            waiting = asyncio.ensure_future(answer)
            await asyncio.sleep(0.1 + 0.05 * (number % 12))
            at = time.perf_counter()
            it.client.protocol.notify("$/cancelRequest", types.CancelParams(request))
            with contextlib.suppress(JsonRpcException):
                await waiting
            await idle(it)
            generations = (await work(it, started)).generations
            taken += [one.ended - at for one in generations if one.begun < at < one.ended and one.wanted]
    editor.close()
    return f"{middle_and_worst(taken)} ({len(taken)} ran when they were cancelled)"


async def many_files(it: Session, requests: int) -> str:
    texts = library_texts()

    async def open_and_close(number: int) -> None:
        editor = Editor(it, f"file:///many{number}.py", texts[number % len(texts)])
        editor.close()
        if number % 50 == 0:
            await work(it, time.perf_counter())  # lets the client write what it has sent

    for number in range(WARM_UP):
        await open_and_close(number)
    await idle(it)
    before = (await work(it, time.perf_counter())).memory
    for number in range(WARM_UP, WARM_UP + FILES):
        await open_and_close(number)
    await idle(it)
    after = (await work(it, time.perf_counter())).memory
    return f"{after - before:+.1f} MB ({before:.0f} before)"


ROWS: dict[str, tuple[str, Row]] = {
    "server time besides the model, 400 lines": ("5 ms, p99 15", besides(str, later=True)),
    "the same, asked with the change": ("(with the wait)", besides(str, later=False)),
    "server time besides the model, 16,000 lines": ("5 ms, p99 15", besides(large, later=True)),
    "the same, asked with the change, 16,000 lines": ("(with the wait)", besides(large, later=False)),
    "type-through": ("5 ms", type_through),
    "first suggestion in a newly opened file": ("2000 ms", first_in_a_new_file),
    "after one more character, one line": ("350 ms", one_more_character),
    "20 changes 50 ms apart": ("1 generation, idle", quick_changes),
    "from cancel to idle": ("80 ms", cancelled),
    "1,000 files opened and closed": ("flat", many_files),
}


def middle_and_worst(seconds: Sequence[float]) -> str:
    if not seconds:
        return "nothing to measure"
    rank = math.ceil(0.99 * len(seconds)) - 1  # the nearest-rank percentile
    return f"median {statistics.median(seconds) * 1e3:.1f} ms, p99 {sorted(seconds)[rank] * 1e3:.1f} ms"


async def run(args: argparse.Namespace) -> None:
    command = ["-m", "tests.benchmarks.observed_server", "--weights", args.weights]
    if args.model is not None:
        command += ["--model", str(Path(args.model).absolute()) if Path(args.model).exists() else args.model]
    async with session(home(), command=command) as it:
        status = await it.ready()
        if status["state"] != "ready":
            raise DraftlineError(status["message"])
        print(f"{platform.machine()}, {os.cpu_count()} cores, {status['model']}, {status['weights']}\n")
        print("| | wanted | measured |\n|---|---|---|")
        for name, (wanted, measure) in ROWS.items():
            if not args.only or any(word in name for word in args.only):
                print(f"| {name} | {wanted} | {await measure(it, args.requests)} |", flush=True)
        await it.leave()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=60, help="for each figure")
    parser.add_argument("--only", action="append", help="rows whose name has this text; may be repeated")
    parser.add_argument("--model", help="a preset, directory or file (default: the default preset)")
    parser.add_argument("--weights", default="auto")
    try:
        asyncio.run(run(parser.parse_args()))
    except DraftlineError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
