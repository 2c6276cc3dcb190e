"""How near the limit, and how far ahead of others: one table, all measured in one run on one machine.

    python -m tests.benchmarks.speed FOLDER [--gguf FILE] [--prompts 8] [--tokens 48] [--quick]

FOLDER holds Python files that the trigram table has not seen. --gguf: a file of the default model, which
both llama.cpp (`pip install '.[bench]'`) and ours run; without it llama.cpp is left out. Nothing else should
run meanwhile. A / B is minimum / median over repetitions, a ratio of texts is one of sums; what is compared
takes turns. Prompts are read before decoding is timed, and all write equally many tokens, greedily. What
"at most" says is what `limits` makes of this machine in the same run.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from engine import Engine, SamplingParams, load
from engine.reader import Reader
from engine.request import CancelToken
from engine.step_times import processor
from engine.trace import Trace
from engine.transformer import Transformer
from model_setup.benchmark_prompts import Prompt, humaneval_prompts
from model_setup.store import general_trigram_path, installed_model, resolve_model, step_times_path
from tests.benchmarks.limits import bytes_a_second, products_a_second, seconds_of_products
from tests.benchmarks.peers import Peer, llama_cpp, transformers_generate
from tests.benchmarks.prompts import decode, fim_prompts

PLAIN, STAGED = SamplingParams(mode="plain"), SamplingParams()
REPEATS = 15
ASSISTANT = "smollm2-135m"  # of transformers' assisted generation, if it is installed

LOADING = """
import time
started = time.perf_counter()
from pathlib import Path
from engine import SamplingParams, load
from model_setup.store import resolve_model, step_times_path
engine = load(resolve_model(None), weights="int8", step_times=step_times_path())
loaded = time.perf_counter() - started
for _ in engine.generate(list(range(100, 1900)), SamplingParams(64)):
    pass
engine.settle()
import psutil
print(loaded, psutil.Process().memory_info().rss / 1e9)
"""


def row(name: str, wanted: str, measured: str) -> None:
    print(f"| {name} | {wanted} | {measured} |", flush=True)


def low_middle(values: Sequence[float]) -> str:
    return f"{min(values):.2f} / {statistics.median(values):.2f}"


class Ours:
    """An engine under the stopwatch."""

    def __init__(self, weights: str, model: Path | None = None) -> None:
        """model: by default the installed one."""
        model = model or resolve_model(None)
        self.engine: Engine = load(model, weights=weights, step_times=step_times_path())
        self.engine.settle()
        self.table = general_trigram_path(self.engine.tokenizer.fingerprint)
        self.engine.use_table(self.table)

    @property
    def model(self) -> Transformer:
        return self.engine._oracle._reader.transformer

    def decode(self, prompt: Prompt, params: SamplingParams, tokens: int) -> Trace:
        trace = Trace()
        asked = SamplingParams(max_tokens=tokens, mode=params.mode)
        for cycle in self.engine.generate(prompt.ids, asked, context_ids=prompt.context):
            trace.add(cycle)
        return trace

    def plain_and_staged(self, prompts: Sequence[Prompt], tokens: int) -> tuple[list[Trace], list[Trace]]:
        traces: tuple[list[Trace], list[Trace]] = ([], [])
        for prompt in prompts:
            self.decode(prompt, PLAIN, 1)
            for params, kept in zip((PLAIN, STAGED), traces, strict=True):
                kept.append(self.decode(prompt, params, tokens))
        return traces

    @torch.inference_mode()
    def passes(self, rows: Sequence[int], text: int) -> dict[int, list[float]]:
        """Seconds of passes of so many rows behind ``text`` tokens; the row counts take turns."""
        reader: Reader = self.engine._oracle._reader
        reader.keep([])
        reader.read(list(range(100, 100 + text)), CancelToken())
        seconds: dict[int, list[float]] = {count: [] for count in rows}
        for _ in range(REPEATS):
            for count in rows:
                visible = torch.ones(count, count, dtype=torch.bool).tril()
                started = time.perf_counter()
                reader.rows([7] * count, range(text, text + count), visible)
                seconds[count].append(time.perf_counter() - started)
        return seconds

    @torch.inference_mode()
    def prefill(self, tokens: int) -> list[float]:
        """Tokens a second of reading a prompt."""
        reader: Reader = self.engine._oracle._reader
        rates = []
        for _ in range(3):
            reader.keep([])
            started = time.perf_counter()
            reader.read(list(range(100, 100 + tokens)), CancelToken())
            rates.append(tokens / (time.perf_counter() - started))
        return rates


def _ratio(plain: Sequence[Trace], staged: Sequence[Trace]) -> str:
    """Of all tokens over all seconds; and what it would be if no guess cost anything."""
    tokens, cycles = (sum(getattr(trace, name) for trace in staged) for name in ("tokens", "cycles"))
    return f"{_rate(staged) / _rate(plain):.2f}, at most {tokens / cycles:.2f}"


def _rate(traces: Sequence[Trace]) -> float:
    return sum(trace.tokens for trace in traces) / sum(trace.seconds for trace in traces)


def int8_rows(ours: Ours, fim: Sequence[Prompt], tokens: int) -> None:
    row("int8 step ms by rows", "", _steps(ours))
    row("plain int8, short context, tok/s", "34", _short_context(ours, tokens=32, times=5))
    for text in (100, 500):
        seconds = ours.passes((1, 8), text)
        row(f"8 rows / 1 row, int8, {text} positions", "1.25", _of_rows(seconds, 8))
    one, eight = (seconds_of_products(ours.model, rows) for rows in (1, 8))
    row("the products alone, 8 rows / 1 row, int8", "", f"{eight / one:.2f} ({_ms(eight)} and {_ms(one)} ms)")
    plain, staged = ours.plain_and_staged(fim, tokens)
    row("FIM, staged / plain, int8", "2.2", f"{_ratio(plain, staged)} ({_rate(staged):.1f} tok/s)")
    rest = [1e3 * (trace.seconds - trace.spent["oracle"].seconds) / trace.cycles for trace in staged]
    row("all but the model's passes, ms a cycle", "1", low_middle(rest))
    measured = low_middle(ours.prefill(512))
    at_most = products_a_second() / (ours.model.traffic(1, 0, head=False)[1] / 2)
    row("prefill of 512 tokens, int8, tok/s", "400", f"{measured}, at most {at_most:.0f}")


def fp32_rows(ours: Ours, fim: Sequence[Prompt], humaneval: Sequence[Prompt], tokens: int) -> None:
    row("fp32 step ms by rows", "", _steps(ours))
    row("plain fp32, short context, tok/s", "7.5", _short_context(ours, tokens=16, times=3))
    seconds = ours.passes((1, 8, 16), 100)
    row("8 rows / 1 row, fp32", "1.0", _of_rows(seconds, 8))
    row("16 rows / 1 row, fp32", "1.3", _of_rows(seconds, 16))
    row("FIM, staged / plain, fp32", "3.16", _ratio(*ours.plain_and_staged(fim, tokens)))
    row("HumanEval, staged / plain, fp32", "2.0", _ratio(*ours.plain_and_staged(humaneval, tokens)))


def _steps(ours: Ours) -> str:
    times = ours.engine.step_times
    return ", ".join(f"{rows}: {1e3 * s:.1f}" for rows, s in zip(times.rows, times.seconds, strict=True))


def _short_context(ours: Ours, tokens: int, times: int) -> str:
    rates = [_rate([ours.decode(_short(ours), PLAIN, tokens)]) for _ in range(times)]
    at_most = bytes_a_second() / ours.model.traffic(1, 0, head=True)[0]
    return f"{statistics.median(rates):.1f} (best {max(rates):.1f}), at most {at_most:.1f}"


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.1f}"


def _short(ours: Ours) -> Prompt:
    return Prompt("short", ours.engine.tokenizer.encode("def main():\n"), [])


def _of_rows(seconds: dict[int, list[float]], rows: int) -> str:
    many, one = seconds[rows], seconds[1]
    return (
        f"{min(many) / min(one):.2f} of minima, {statistics.median(many) / statistics.median(one):.2f} of "
        f"medians ({1e3 * min(many):.1f} and {1e3 * min(one):.1f} ms)"
    )


def llama_cpp_rows(gguf: Path, fim: Sequence[Prompt], tokens: int) -> None:
    ours = Ours("int8", gguf)
    for guesses in (0, 3, 10):
        name = f"llama.cpp, prompt lookup of {guesses}" if guesses else "llama.cpp plain"
        with llama_cpp(gguf, guesses) as peer:
            if not guesses:
                measured = against(peer, ours, [_short(ours)] * 5, 32, PLAIN)
                read = ours.model.traffic(1, 0, head=True)[0] / 1e6
                size = gguf.stat().st_size / 1e6
                sizes = f"; its file has {size:.0f} MB, embeddings included, ours reads {read:.0f} a token"
                row(f"short context, plain int8 / {name}, same GGUF", "1", measured + sizes)
            row(f"FIM, staged int8 / {name}, same GGUF", "1.7", against(peer, ours, fim, tokens))


def transformers_rows(ours: Ours, fim: Sequence[Prompt], tokens: int) -> None:
    peers = {
        "greedy": transformers_generate,
        "prompt lookup of 10": partial(transformers_generate, prompt_lookup_num_tokens=10),
    }
    if assistant := installed_model(ASSISTANT):
        peers[f"assisted by {ASSISTANT}"] = partial(transformers_generate, assistant)
    for name, loaded in peers.items():
        row(f"FIM, staged fp32 / transformers, {name}", "5", against(loaded(), ours, fim, tokens))


def against(
    peer: Peer, ours: Ours, prompts: Sequence[Prompt], tokens: int, params: SamplingParams = STAGED
) -> str:
    """Ours over the peer, the two taking turns; and how many of the texts are the same.

    All that ours does for a request but reading its prompt is timed, and it has yet to learn how good its
    guesses are.
    """
    engine = ours.engine.with_table(ours.table)
    mine, theirs = [], []
    for prompt in prompts:
        decode(engine, prompt, replace(PLAIN, max_tokens=1))
        mine.append(decode(engine, prompt, replace(params, max_tokens=tokens)))
        theirs.append(peer(prompt, tokens))
    our_rate = sum(len(text.tokens) for text in mine) / sum(text.seconds for text in mine)
    their_rate = sum(text.timed for text in theirs) / sum(text.seconds for text in theirs)
    same = sum(a.tokens == b.tokens[:tokens] for a, b in zip(mine, theirs, strict=True))
    return (
        f"{our_rate / their_rate:.2f} ({our_rate:.1f} and {their_rate:.1f} tok/s; "
        f"{same} of {len(prompts)} texts the same)"
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gguf", type=Path)
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--quick", action="store_true", help="leave out fp32 and transformers")
    args = parser.parse_args()
    packages = ["torch", "transformers"]
    if args.gguf is not None:
        packages.append("llama-cpp-python")
        if importlib.util.find_spec("llama_cpp") is None:
            parser.error("llama.cpp is not installed: run `pip install '.[bench]'`")

    print(f"{processor()}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}, ")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    print(f"{versions}, {torch.get_num_threads()} threads\n")
    print("| figure | wanted | measured |\n|---|---|---|")
    done = subprocess.run([sys.executable, "-c", LOADING], capture_output=True, text=True, check=True)
    seconds, gigabytes = map(float, done.stdout.split())
    row("load from disk, int8, process start included, s", "5", f"{seconds:.1f}")
    row("resident memory, 0.5B int8, 1,864 tokens of context used, GB", "1.3", f"{gigabytes:.2f}")

    ours = Ours("int8")
    fim = fim_prompts(args.folder, args.prompts, ours.engine)
    humaneval = humaneval_prompts(ours.engine.tokenizer)[: args.prompts]
    int8_rows(ours, fim, args.tokens)
    if args.gguf is not None:
        llama_cpp_rows(args.gguf, fim, args.tokens)
    if not args.quick:
        ours = Ours("fp32")
        fp32_rows(ours, fim, humaneval, args.tokens)
        transformers_rows(ours, fim, args.tokens)
    return 0


if __name__ == "__main__":
    sys.exit(main())
