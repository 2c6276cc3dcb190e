"""What is sampled: every mode's tokens have exactly the oracle's law, and staged text is plain text.

The law is tested jointly for three tokens against toy models, whose logits after every text are written
down, in the real engine with the real stages; wrong rules, known from other engines, fail the same test.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine import Engine, SamplingParams, load
from engine.checkpoint import Checkpoint
from engine.cost_model import StepTimes
from engine.katz import write_table
from engine.kv_cache import KVCache
from engine.placement import Placement
from engine.request import APPROXIMATIONS
from engine.sampling import Distribution, Logits, Row, Sampler
from engine.stages import Rule
from engine.standard import _GUESS
from engine.tree import TokenTree
from tests.benchmarks.exactness import SAMPLED
from tests.engine.tiny_models import TOKENS, write_model

VOCAB, LENGTH = 5, 3
DRAWS = 20_000
FREE = StepTimes((1, 64), (1.0, 1.0))  # every guess pays
FINGERPRINT = "f" * 64
CONTEXT = [3, 1, 4, 1, 0, 2, 1, 4, 0, 3, 3, 1, 4, 1, 0, 2, 2, 0]  # ends in the prompt

_noise = np.random.default_rng(1)
TEXTS = [text for n in range(LENGTH + 1) for text in itertools.product(range(VOCAB), repeat=n)]
ORACLE = {text: _noise.normal(0, 1.5, VOCAB).astype(np.float32) for text in TEXTS}
DRAFT = {text: (row + _noise.normal(0, 1.0, VOCAB)).astype(np.float32) for text, row in ORACLE.items()}


class Toy:
    """Stands for a Transformer: logits by the tokens after the prompt's one; its keys are the tokens."""

    def __init__(self, laws: dict[tuple[int, ...], Logits]) -> None:
        self.config = SimpleNamespace(max_positions=64)
        self._laws = laws

    def new_cache(self, capacity: int) -> KVCache:
        return KVCache(1, 1, 1, capacity)

    def forward(
        self, tokens: Tensor, positions: Tensor, cache: KVCache, visible: Tensor | None, cancel: object = None
    ) -> Tensor:
        keys, start, rows = cache.keys[0][0, :, 0], cache.length, len(tokens)
        end = start + (rows if visible is None else visible.shape[1])
        keys[end - rows : end] = tokens
        text = keys[:end].tolist()
        seen = [[True]] if visible is None else visible.tolist()
        paths = ((*text[1:start], *itertools.compress(text[start:], row)) for row in seen)
        return torch.from_numpy(np.array([self._law(path, start) for path in paths]))

    def _law(self, path: tuple[float, ...], start: int) -> Logits:
        return self._laws[path[-LENGTH:] if start else path[1:][-LENGTH:]]

    def logits(self, hidden: Tensor) -> Tensor:
        return hidden

    def traffic(self, rows: int, slots: int, head: bool) -> tuple[int, int]:
        return 0, 0


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    tokenizer = SimpleNamespace(vocab_size=VOCAB, fingerprint=FINGERPRINT)
    oracle, draft = (Checkpoint(Toy(laws), tokenizer, (), False) for laws in (ORACLE, DRAFT))
    engine = Engine("toy", oracle, draft, Placement("cpu", "fp32"))
    engine._oracle.times = FREE
    table = tmp_path_factory.mktemp("table") / "table"
    text = np.random.default_rng(2).choice(VOCAB, 300, p=[0.4, 0.3, 0.15, 0.1, 0.05]).astype(np.uint32)
    write_table(table, [text], VOCAB, FINGERPRINT)
    engine.use_table(table)
    return engine


def text_of(engine: Engine, prompt: Sequence[int], params: SamplingParams) -> list[int]:
    cycles = engine.generate(prompt, params, context_ids=[*CONTEXT[:-1], *prompt])
    return [token for cycle in cycles for token in cycle.tokens]


def law(logits: Logits, params: SamplingParams) -> NDArray[np.float64]:
    """[vocab]: temperature, then the top_k likeliest, then the fewest of them that reach top_p."""
    p = np.exp(logits.astype(np.float64) / params.temperature)
    ranked = np.argsort(-p)
    p[ranked[params.top_k or VOCAB :]] = 0
    p /= p.sum()
    reached_before = np.cumsum(p[ranked]) - p[ranked]
    p[ranked[reached_before >= params.top_p]] = 0
    return p / p.sum()


def joint_law(params: SamplingParams) -> NDArray[np.float64]:
    """[vocab, vocab, vocab], of three tokens drawn one after the other."""
    laws = {text: law(row, params) for text, row in ORACLE.items()}
    joint = np.zeros((VOCAB,) * LENGTH)
    for text in itertools.product(range(VOCAB), repeat=LENGTH):
        joint[text] = np.prod([laws[text[:n]][text[n]] for n in range(LENGTH)])
    return joint


def process_once(patch: pytest.MonkeyPatch) -> None:
    """Temperature and filter are applied once to each of the few rows of logits, not at each draw."""
    process = Sampler.distribution
    known: dict[tuple[object, ...], Distribution] = {}

    def distribution(self: Sampler, logits: Logits) -> Distribution:
        key = (logits.tobytes(), self.temperature, self.top_k, self.top_p)
        if key not in known:
            known[key] = process(self, logits)
        return known[key]

    patch.setattr(Sampler, "distribution", distribution)


def excess(engine: Engine, params: SamplingParams, draws: int) -> float:
    """The chi-square of ``draws`` texts against the exact law, over what the right law stays below.

    Rare texts count together. The limit, four deviations, is passed once in some 30,000 times; the draws
    are the same in every run.
    """
    counts = np.zeros((VOCAB,) * LENGTH)
    with pytest.MonkeyPatch.context() as patch:
        process_once(patch)
        for seed in range(draws):
            counts[tuple(text_of(engine, [0], replace(params, seed=seed, max_tokens=LENGTH)))] += 1
    expected = joint_law(params) * draws
    assert counts[expected == 0].sum() == 0
    rare = expected < 5
    bins = [*zip(counts[~rare], expected[~rare], strict=True)]
    if expected[rare].sum() >= 5:
        bins.append((counts[rare].sum(), expected[rare].sum()))
    degrees = len(bins) - 1
    statistic = sum((seen - wanted) ** 2 / wanted for seen, wanted in bins)
    return statistic / (degrees + 4 * (2 * degrees) ** 0.5 + 4)


FILTERS = {
    "no filter": SamplingParams(temperature=1.0),
    "top_k": SamplingParams(temperature=1.0, top_k=3),
    "top_p": SamplingParams(temperature=1.2, top_p=0.8),
}
MODES = {
    "plain": {"mode": "plain"},
    "standard, draft": {"mode": "standard", "approximation": "draft", "gamma": 2},
    "standard, trigram": {"mode": "standard", "approximation": "trigram", "gamma": 2},
    "staged, draft2": {"mode": "staged", "guessers": "draft2"},
    "staged, draft and draft2": {"mode": "staged", "guessers": "all"},
    "standard, bigram": {"mode": "standard", "approximation": "bigram", "gamma": 2},
    "standard, unigram": {"mode": "standard", "approximation": "unigram", "gamma": 2},
    "staged, draft": {"mode": "staged", "guessers": "draft"},
    "staged, draft2, chain": {"mode": "staged", "guessers": "draft2", "shape": "chain"},
}
ONE_FILTER = {  # the others have all: so many draws take about 20 s
    "standard, bigram": "top_k",
    "standard, unigram": "no filter",
    "staged, draft": "top_k",
    "staged, draft2, chain": "top_p",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "kept"),
    [(mode, kept) for mode in MODES for kept in FILTERS if kept == ONE_FILTER.get(mode, kept)],
)
def test_three_tokens_have_jointly_the_law_of_the_oracle(toy: Engine, mode: str, kept: str):
    assert excess(toy, replace(FILTERS[kept], **MODES[mode]), DRAWS) < 1


@pytest.mark.slow
@pytest.mark.parametrize("approximation", ["lookup", "random"])
def test_they_have_it_even_if_the_approximation_is_sure_of_one_token_or_of_none(
    toy: Engine, approximation: str
):
    params = SamplingParams(temperature=1.0, mode="standard", approximation=approximation, gamma=2)
    assert excess(toy, params, DRAWS) < 1


# Rules that are wrong. Fewer draws are enough to show that: the excess grows with their number.
FEW_DRAWS = 3_000


def replace_from_the_whole_law(patch: pytest.MonkeyPatch) -> None:
    """A refused guess is replaced by a draw from p instead of from what the accepted ones leave of it."""
    patch.setattr("engine.standard.residual", lambda law, approximate, lenience: law)


def guess_greedily(patch: pytest.MonkeyPatch) -> None:
    """The likeliest token is the guess, but it is accepted as if it had been drawn (transformers 32867)."""
    draw = Sampler.draw

    def greedy(self: Sampler, law: Distribution, position: int, stream: int = 0) -> int:
        is_guess = stream == _GUESS
        return int(law.ids[law.p.argmax()]) if is_guess else draw(self, law, position, stream)

    patch.setattr(Sampler, "draw", greedy)


def guess_from_another_law(patch: pytest.MonkeyPatch) -> None:
    """The guess is drawn from another law than the one in the ratio (transformers 47932)."""
    draw = Sampler.draw

    def flat(self: Sampler, law: Distribution, position: int, stream: int = 0) -> int:
        if stream == _GUESS:
            law = Distribution(law.ids, np.full(len(law.ids), 1 / len(law.ids)))
        return draw(self, law, position, stream)

    patch.setattr(Sampler, "draw", flat)


def try_each_guess(patch: pytest.MonkeyPatch) -> None:
    """Each guess has a draw of its own to be right (Medusa's nucleus mode, REST)."""

    def coupled(sampler: Sampler) -> Rule:
        def rule(tree: TokenTree, node: int, row: Row, position: int) -> tuple[int, bool]:
            law = sampler.distribution(row.logits)
            for stream, guess in enumerate(tree.children[node], start=10):
                if sampler.draw(law, position, stream) == guess:
                    return guess, True
            return sampler.draw(law, position), True

        return rule

    patch.setattr("engine.engine.coupled", coupled)


def draw_with_one_noise(patch: pytest.MonkeyPatch) -> None:
    """The noise is the same at all positions, so tokens depend on one another more than they may."""
    noise = Sampler.noise
    patch.setattr(Sampler, "noise", lambda self, position, ids, stream=0: noise(self, 0, ids, stream))


@pytest.mark.parametrize(
    ("mode", "wrong"),
    [
        ("standard, draft", replace_from_the_whole_law),
        ("standard, draft", guess_greedily),
        ("standard, trigram", guess_from_another_law),
        ("staged, draft2", try_each_guess),
        ("plain", draw_with_one_noise),
    ],
)
def test_a_wrong_rule_fails_the_test_of_the_law(
    toy: Engine, monkeypatch: pytest.MonkeyPatch, mode: str, wrong: Callable[[pytest.MonkeyPatch], None]
):
    params = replace(FILTERS["no filter"], **MODES[mode])
    assert excess(toy, params, FEW_DRAWS) < 1
    wrong(monkeypatch)
    assert excess(toy, params, FEW_DRAWS) > 2


# The same seed gives the same text


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """A random model with a draft that resembles it and a table counted on what it writes."""
    oracle = write_model(tmp_path_factory.mktemp("models") / "oracle")
    draft = write_model(tmp_path_factory.mktemp("models") / "draft")
    weights = load_file(draft / "model.safetensors")
    noise = torch.Generator().manual_seed(1)
    for name in sorted(weights):
        weights[name] += 0.01 * torch.randn(weights[name].shape, generator=noise)
    save_file(weights, draft / "model.safetensors", {"format": "pt"})
    engine = load(oracle, draft=draft, weights="int8")
    engine._oracle.times = FREE
    texts = [text_of(engine, [token], SamplingParams(40, mode="plain")) for token in range(0, TOKENS, 20)]
    table = tmp_path_factory.mktemp("table") / "table"
    documents = [np.array(text, dtype=np.uint32) for text in texts]
    write_table(table, documents, engine.tokenizer.vocab_size, engine.tokenizer.fingerprint)
    engine.use_table(table)
    return engine


SEEDS, TOKENS_EACH = 200, 6


def setting(params: SamplingParams) -> str:
    return f"temperature {params.temperature}, top_k {params.top_k}, top_p {params.top_p}"


@pytest.mark.slow
@pytest.mark.parametrize("params", SAMPLED, ids=setting)
def test_plain_and_staged_texts_of_each_seed_are_equal(tiny: Engine, params: SamplingParams):
    cycles = 0
    for seed in range(SEEDS):
        prompt = [seed, 3 * seed % 256]
        params = replace(params, seed=seed, max_tokens=TOKENS_EACH)
        staged = list(tiny.generate(prompt, params))
        assert [token for cycle in staged for token in cycle.tokens] == text_of(
            tiny, prompt, replace(params, mode="plain")
        ), f"seed {seed}"
        cycles += len(staged)
    assert cycles < 0.8 * SEEDS * TOKENS_EACH  # else no guess was accepted


@settings(max_examples=30)
@given(st.sampled_from(SAMPLED), st.integers(0, 2**63), st.integers(0, 40))
def test_they_are_equal_whatever_the_seed_and_the_length(
    tiny: Engine, params: SamplingParams, seed: int, length: int
):
    params = replace(params, seed=seed, max_tokens=length)
    staged = text_of(tiny, [5, 6], params)
    assert staged == text_of(tiny, [5, 6], replace(params, mode="plain"))
    assert len(staged) == length


@pytest.mark.parametrize("approximation", APPROXIMATIONS)
@pytest.mark.parametrize("length", [0, 1, 2, 5, 6, 7, 13])
def test_standard_texts_have_exactly_the_length_that_was_asked_for(
    tiny: Engine, approximation: str, length: int
):
    params = SamplingParams(length, 0.8, mode="standard", approximation=approximation)
    assert len(text_of(tiny, [5, 6], params)) == length
