"""What sharing one engine costs and saves: ``python -m tests.benchmarks.host [--kills N] [--only-socket]``.

Real servers and the real default model, in a scratch home that borrows the user's model; the last part, what
the socket adds to a request, with a scripted engine here and in a host, and prompts as long as real ones.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import psutil

from engine.host.place import Place
from engine.request import SamplingParams
from model_setup import store
from model_setup.command_line import draftline_version
from tests.engine.host.hosts import Desk, ended
from tests.engine.host.scripted_host import HostedScript
from tests.lsp_server.session import Session, session

SERVER = ["-m", "lsp_server.cli", "--stdio"]
PATIENT = {"time_limit": 60_000}
TEXT = "def area(width, height):\n    "
TOKENS, PROMPT = 1, 1400
RELOADS, SETTLED = 5, 10  # seconds after which the host that waits has PyTorch
NUMBERS = itertools.count()
MB = 1_000_000


def memory(pid: int) -> str:
    """Resident, and of that what is not shared with other processes."""
    info = psutil.Process(pid).memory_full_info()
    return f"{info.rss / MB:.0f} MB resident, {info.uss / MB:.0f} MB of its own"


async def suggestion(it: Session, text: str = TEXT) -> float:
    """Type on until one comes; gives the seconds that took."""
    began = time.monotonic()
    for number in NUMBERS:  # another text each time, lest the server know what to suggest already
        it.open(f"# {number}\n{text}")
        if await it.inline(2, 4):
            return time.monotonic() - began
        await asyncio.sleep(0.1)
    raise TimeoutError


async def windows(home: Path, desk: Desk, kills: int) -> None:
    began = time.monotonic()
    async with session(home, command=SERVER, options=PATIENT) as first:
        print(f"first window ready after {time.monotonic() - began:.1f} s")
        await suggestion(first)
        print(f"  its server: {memory(first.process.pid)}")
        print(f"  the host: {memory(desk.process or 0)}")
        began = time.monotonic()
        async with session(home, command=SERVER, options=PATIENT) as second:
            print(f"second window ready after {time.monotonic() - began:.1f} s")
            await suggestion(second)
            print(f"  its server: {memory(second.process.pid)}")
            print(f"  the host: {memory(desk.process or 0)}")
        times, unanswered = [], 0
        for _ in range(kills):
            desk.place.forget("starts")  # or no more than three in a minute are started
            asked = asyncio.ensure_future(first.inline(2, 4))
            await asyncio.sleep(0.05)
            desk.kill()
            killed = time.monotonic()
            try:
                await asyncio.wait_for(asked, 10)
            except asyncio.TimeoutError:
                unanswered += 1
            await suggestion(first)
            times.append(time.monotonic() - killed)
        if times:
            print(f"killed {kills} times: {unanswered} requests without an answer, next suggestion after")
            print(f"  median {statistics.median(times):.1f} s, most {max(times):.1f} s")
            print(f"  the user was told: {first.messages}")
    options = {**PATIENT, "idle_minutes": 0.1}
    async with session(home, command=SERVER, options=options) as it:
        await suggestion(it)
        host = desk.process
        times = []
        for _ in range(RELOADS):
            while (waiting := desk.process) in (None, host):
                await asyncio.sleep(0.1)
            await asyncio.sleep(SETTLED)
            if not times:
                print(f"unloaded: the host that waits {memory(waiting or 0)}")
                print(f"  the server {memory(it.process.pid)}")
            began = time.monotonic()
            await it.inline(2, 4)
            await it.ready()
            times.append(time.monotonic() - began)
            host = waiting
        print(f"loaded again after {statistics.median(times):.1f} s (median), {max(times):.1f} s at most")


def socket(desk: Desk) -> None:
    model = desk.model(answers={"a": "x"})
    there, here = desk.open(model), HostedScript(model, "cpu")
    prompt = there.tokenizer.encode("a" * PROMPT)
    params = SamplingParams(TOKENS)
    seconds = []
    for engine in (here, there):
        times = []
        for _ in range(500):
            began = time.perf_counter()
            cycles = sum(1 for _ in engine.generate(prompt, params, context_ids=prompt))
            times.append(time.perf_counter() - began)
        seconds.append((statistics.median(times), min(times)))
        print(f"{cycles} cycles {'here' if engine is here else 'there'}: median, least", *seconds[-1])
    added = [(there - here) * 1e3 for here, there in zip(*seconds, strict=True)]
    print(f"the socket adds {added[0]:.2f} ms to the median request, {added[1]:.2f} to the quickest")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--only-socket", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        desk = scratch_desk(Path(folder) / "home")
        if not args.only_socket:
            with ended(desk):
                asyncio.run(windows(desk.home, desk, args.kills))
        with ended(Desk(Path(folder))) as scripted:
            socket(scripted)


def scratch_desk(home: Path) -> Desk:
    """A new home that borrows the user's models, for this process and those that it starts."""
    users = store.home()
    home.mkdir()
    (home / "models").symlink_to(users / "models")
    (home / "trigrams").mkdir()
    (home / "trigrams" / "general").symlink_to(users / "trigrams" / "general")
    if (users / "step_times.json").exists():
        shutil.copy(users / "step_times.json", home)
    os.environ["DRAFTLINE_HOME"] = str(home)
    desk = Desk(home)
    desk.place = Place.of(home, draftline_version())
    return desk


if __name__ == "__main__":
    main()
