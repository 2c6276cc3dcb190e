"""Hours of use in minutes: ``python -m tests.benchmarks.soak [--requests 5000] [--model PRESET] [--seed N]``.

Three editor windows with real servers share a real host, in a scratch home that borrows the user's models.
Their users do anything at random (see ``restless``). Windows are closed and opened, their servers killed; one
window stays all the time. In the first half the host is killed and stopped as well, the second is one host's.

The exit code is 1 if a request was not answered, a server had another text than its editor, the user was told
an error that was none, no suggestion came for long after a host had ended, a window had no model for longer
than MOST_WITHOUT, more than one host was left in the end, or a process that served for long grew by more than
MOST_GROWTH after its first SETTLED requests.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.benchmarks.editor import library_texts
from tests.benchmarks.host import scratch_desk
from tests.benchmarks.restless import READY, Diary, Restless, Text
from tests.engine.host.hosts import Desk, ended
from tests.lsp_server.session import ROOT, session

WINDOWS, DOCUMENTS = 3, 3
CHARACTERS = 4000  # of each document at first
SETTLED = 100  # requests, after which a process holds what it needs
MOST_GROWTH = 20.0  # MB
BETWEEN_TROUBLES = 20.0  # seconds: a host is started at most four times a minute
MOST_WITHOUT = 45.0  # seconds without a model: loading takes some, and a host may be killed meanwhile
THINKING = 0.05  # seconds on average
TRUE = ("has ended", "while it was loading")  # of hosts that were killed just before
SERVER = ["-m", "tests.benchmarks.text_server"]
HOST = "the host"


@dataclass
class Soak:
    """What all windows share. ended: when the host was killed or stopped. memory: of each process, by its
    part and number: (requests so far, MB of its own)."""

    desk: Desk
    requests: int
    rng: random.Random
    options: dict[str, object]
    diary: Diary = field(default_factory=Diary)
    ended: list[float] = field(default_factory=list)
    memory: dict[tuple[str, int], list[tuple[int, float]]] = field(default_factory=lambda: defaultdict(list))

    @property
    def done(self) -> int:
        return self.diary.counts["requests"]

    def suggested_since(self, end: float) -> bool:
        return bool(self.diary.suggested) and self.diary.suggested[-1] > end

    def measure(self, part: str, process: int | None) -> None:
        with contextlib.suppress(psutil.Error):
            if process is not None:
                held = psutil.Process(process).memory_info()
                # without pages of files, as those of a table, which the system may drop at any time
                own = held.rss - getattr(held, "shared", 0)
                self.memory[part, process].append((self.done, own / 1e6))


async def window(soak: Soak, number: int, folder: Path, texts: Sequence[str]) -> None:
    """One window, closed and opened again and again, or its server killed; the first stays."""
    documents = {}
    for at, text in enumerate(texts):
        path = folder / f"window_{number}_{at}.py"
        path.write_text(text, encoding="utf-8")
        documents[path.as_uri()] = Text(text)
    part = f"server of window {number}"
    while soak.done < soak.requests:
        until = soak.requests if number == 0 else soak.done + soak.rng.randint(100, 600)
        async with session(soak.desk.home, command=SERVER, options=soak.options, folder=folder) as it:
            user = Restless(it, documents, soak.rng, soak.diary)
            while soak.done < min(until, soak.requests):
                await user.act()
                soak.measure(part, it.process.pid)
                if user.state in READY:  # loading is not growing
                    soak.measure(HOST, soak.desk.process)
                await asyncio.sleep(soak.rng.expovariate(1 / THINKING))
            if soak.done < soak.requests and soak.rng.random() < 0.5:
                it.process.kill()
                user.abandon()
                soak.diary.counts["servers killed"] += 1
            else:
                await user.settle()
                if await it.leave() != 0:
                    soak.diary.wrong.append("a server did not leave as it should")
                soak.diary.counts["servers closed"] += 1


async def trouble(soak: Soak) -> None:
    """Kill the host or stop it, now and then, in the first half."""
    while True:
        at = soak.done + soak.rng.randint(50, 300)
        await asyncio.sleep(BETWEEN_TROUBLES)
        # who dies twice while it loads a model is not to try that again, so each is left to load it
        while soak.done < at or (soak.ended and not soak.suggested_since(soak.ended[-1])):
            await asyncio.sleep(0.01)
        if at > soak.requests / 2:
            return
        if soak.desk.process is None:
            continue
        soak.ended.append(time.monotonic())
        if soak.rng.random() < 0.7:
            soak.desk.kill()
            soak.diary.counts["hosts killed"] += 1
        else:
            command = (sys.executable, "-m", "lsp_server.cli", "stop")
            stop = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=asyncio.subprocess.DEVNULL)
            if await stop.wait() != 0:
                soak.diary.wrong.append("`draftline stop` failed")
            soak.diary.counts["hosts stopped"] += 1


async def run(soak: Soak, folder: Path) -> None:
    texts = [text[:CHARACTERS] for text in library_texts()]
    soak.rng.shuffle(texts)
    shares = [texts[at * DOCUMENTS : (at + 1) * DOCUMENTS] for at in range(WINDOWS)]
    troubles = asyncio.create_task(trouble(soak))
    shown = asyncio.create_task(show(soak))
    await asyncio.gather(*(window(soak, number, folder, some) for number, some in enumerate(shares)))
    for task in (troubles, shown):
        task.cancel()
    if (left := len(hosts(soak.desk))) != 1:
        soak.diary.wrong.append(f"{left} hosts are left")


async def show(soak: Soak) -> None:
    while True:
        await asyncio.sleep(30.0)
        print(f"{soak.done} requests", flush=True)


def hosts(desk: Desk) -> list[int]:
    """The processes of hosts in this home."""
    folder = str(desk.place.folder)
    return [one.pid for one in psutil.process_iter(["cmdline"]) if folder in (one.info["cmdline"] or ())]


def untrue(told: Sequence[tuple[float, str]], ended: Sequence[float]) -> list[str]:
    """Of what the user was told, what nothing that was done to the host can explain."""
    return [
        message
        for when, message in told
        if not (any(0 < when - end < 60 for end in ended) and any(words in message for words in TRUE))
    ]


def waited(suggested: Sequence[float], ended: Sequence[float], now: float) -> list[tuple[float, str]]:
    """Seconds without a suggestion after each end of a host, and " and none came" where none has come yet."""
    firsts = [min((then for then in suggested if then > end), default=None) for end in ended]
    return [
        (now - end, " and none came") if first is None else (first - end, "")
        for first, end in zip(firsts, ended, strict=True)
    ]


def growth(samples: Sequence[tuple[int, float]]) -> float | None:
    """MB by which a process grew after its first SETTLED requests; None if it has not lived that long.

    samples: (requests so far, MB).
    """
    later = [memory for done, memory in samples if done >= samples[0][0] + SETTLED]
    if len(later) < 20:
        return None
    return statistics.median(later[-5:]) - statistics.median(later[:5])


def course(samples: Sequence[tuple[int, float]], parts: int = 12) -> str:
    """The memory at so many times, equally far apart."""
    return " ".join(f"{samples[at * (len(samples) - 1) // (parts - 1)][1]:.0f}" for at in range(parts))


def verdict(soak: Soak) -> bool:
    """Print what came of it; gives whether all was well."""
    diary = soak.diary
    for name, count in sorted(diary.counts.items()):
        print(f"{count:6} {name}")
    waits = waited(diary.suggested, soak.ended, time.monotonic())
    print("seconds until there was a suggestion again:", *(f"{seconds:.1f}{why}" for seconds, why in waits))
    if any(why and seconds > MOST_WITHOUT for seconds, why in waits):
        diary.wrong.append("no suggestion came any more")
    longest = max(diary.without)
    print(f"seconds that a window had no model, at most: {longest:.1f}")
    if longest > MOST_WITHOUT:
        diary.wrong.append(f"a window had no model for {longest:.0f} s")
    wrong = [*diary.wrong, *(f"told: {message}" for message in untrue(diary.told, soak.ended))]
    print(f"the user was told {len(diary.told)} times of an error")
    for (part, process), samples in soak.memory.items():
        grown = growth(samples)
        if grown is None:
            continue
        print(
            f"{part} ({process}): {samples[0][1]:.0f} MB at first, {samples[-1][1]:.0f} in the end, "
            f"{grown:+.1f} from its request {SETTLED} to {samples[-1][0] - samples[0][0]}"
        )
        if grown > MOST_GROWTH:
            wrong.append(f"{part} grew by {grown:.1f} MB: {course(samples)}")
    print(*(wrong or ["all was well"]), sep="\n")
    return not wrong


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=5000)
    parser.add_argument("--model", default="smollm2-135m", help="a preset, directory or file")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    args = parser.parse_args()
    print(f"{args.requests} requests to {args.model}, seed {args.seed}")
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "repository"
        folder.mkdir()
        desk = scratch_desk(Path(scratch) / "home")
        options = {"model": args.model, "max_tokens": 24, "context_tokens": 512, "statusNotifications": True}
        soak = Soak(desk, args.requests, random.Random(args.seed), options)
        with ended(desk):
            asyncio.run(run(soak, folder))
        print(f"{time.monotonic() - began:.0f} s")
        return 0 if verdict(soak) else 1


if __name__ == "__main__":
    sys.exit(main())
