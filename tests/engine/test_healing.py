"""Half a word at the prompt's end: the text begins with what was typed, and guessing changes nothing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import decoders, models, pre_tokenizers, trainers

from engine import Engine, SamplingParams, load
from engine.cost_model import StepTimes
from engine.healing import Healing, TokenIndex
from engine.sampling import Row, Sampler
from engine.stages import coupled
from engine.tree import ROOT, TokenTree
from tests.engine.tiny_models import linear_logits, load_tiny, write_model

WORDS = "return retry returns reset é漢字 été 漢漢\t\t\t\treturn    return\n"
typed = st.text(st.sampled_from("return sé漢\t😀"), min_size=1, max_size=6)
byte_texts = st.dictionaries(st.integers(0, 99), st.binary(max_size=4), max_size=30)


@given(byte_texts, st.binary(min_size=1, max_size=5))
def test_allowed_is_what_begins_with_the_rest_or_is_a_beginning_of_it(texts, rest):
    tokens, covered = TokenIndex(texts).allowed(rest)
    expected = {
        t: text for t, text in texts.items() if text and (text.startswith(rest) or rest.startswith(text))
    }
    assert list(tokens) == sorted(expected)
    assert list(covered) == [min(len(expected[token]), len(rest)) for token in tokens]


# The rule


def choose(logits: list[float], texts: dict[int, bytes], begins_with: str, **sampling: float) -> int:
    sampler = Sampler(**sampling)
    rule = Healing(coupled(sampler), sampler, TokenIndex(texts), begins_with)
    token, acceptable = rule(TokenTree(0), ROOT, Row(np.array(logits, dtype=np.float32)), 7)
    assert acceptable
    return token


TEXTS = {0: b"x", 1: b"re", 2: b"return", 3: b"", 4: b"ret", 5: b"rest"}


def test_the_likeliest_of_the_allowed_is_chosen():
    assert choose([9, 1, 3, 8, 2, 7], TEXTS, "retu") == 2
    assert choose([9, 4, 3, 8, 2, 7], TEXTS, "retu") == 1


def test_of_equals_the_first_is_chosen():
    assert choose([9, 3, 3, 8, 3, 7], TEXTS, "retu") == 1


def test_what_no_token_can_write_is_forgotten():
    assert choose([1, 1, 3, 8, 2, 7], TEXTS, "q") == 3


def test_draws_follow_the_law_of_the_allowed():
    logits = [9.0, 1.0, 2.0, 8.0, 0.0, 7.0]
    seeds = 3000
    drawn = Counter(choose(logits, TEXTS, "retu", temperature=1.0, seed=seed) for seed in range(seeds))
    weights = {token: np.exp(logits[token]) for token in (1, 2, 4)}
    assert drawn.keys() == weights.keys()
    for token, weight in weights.items():
        p = weight / sum(weights.values())
        assert abs(drawn[token] - seeds * p) < 5 * np.sqrt(seeds * p * (1 - p))


def test_a_filter_leaves_something_of_the_allowed():
    assert choose([9, 1, 3, 8, 2, 7], TEXTS, "retu", temperature=1.0, top_k=1) == 2


def test_a_draw_that_is_allowed_anyway_stays_the_same():
    logits = [0.5, 1.0, 2.0, 1.5, 0.0, 0.7]
    for seed in range(50):
        sampler = Sampler(1.0, seed=seed)
        free = sampler.choose(Row(np.array(logits, dtype=np.float32)), 7)
        if free in (1, 2, 4):
            assert choose(logits, TEXTS, "retu", temperature=1.0, seed=seed) == free


# The engine


def write_merging_tokenizer(path: Path) -> None:
    """Every byte, and some words and parts of them."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator([WORDS] * 3, trainer)
    tokenizer.add_special_tokens(["<|endoftext|>"])
    tokenizer.save(str(path))


@pytest.fixture(scope="module", params=["bytes", "merges"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = write_model(tmp_path_factory.mktemp("models") / "tiny", vocab_size=320)
    if request.param == "merges":
        write_merging_tokenizer(path / "tokenizer.json")
    return path


@pytest.fixture(scope="module")
def engine(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    draft = write_model(tmp_path_factory.mktemp("drafts") / "draft", vocab_size=320)
    (draft / "tokenizer.json").write_bytes((model / "tokenizer.json").read_bytes())
    engine = load(model, draft, weights="fp32")
    engine._oracle.times = StepTimes((1, 32), (1.0, 1.0))  # every guess seems to pay
    return engine


def ids(engine: Engine, prompt: str, begins_with: str, **params: object) -> list[int]:
    cycles = engine.generate(
        engine.tokenizer.encode(prompt), SamplingParams(24, **params), begins_with=begins_with
    )
    return [token for cycle in cycles for token in cycle.tokens]


def written(engine: Engine, tokens: list[int]) -> bytes:
    texts = engine.tokenizer.token_bytes()
    return b"".join(texts.get(token, b"") for token in tokens)


@settings(max_examples=12, deadline=None)
@given(typed, st.sampled_from([{}, {"temperature": 0.8, "seed": 3}, {"temperature": 1.2, "top_k": 5}]))
def test_the_text_begins_so_in_every_mode_and_staged_is_plain(engine, begins_with, sampling):
    plain = ids(engine, "x = ", begins_with, mode="plain", **sampling)
    assert written(engine, plain).startswith(begins_with.encode())
    assert ids(engine, "x = ", begins_with, mode="staged", **sampling) == plain
    standard = ids(engine, "x = ", begins_with, mode="standard", approximation="draft", **sampling)
    assert written(engine, standard).startswith(begins_with.encode())
    if not sampling:
        assert standard == plain


def test_greedy_takes_the_likeliest_allowed_token_and_is_free_afterwards(engine, model):
    texts = engine.tokenizer.token_bytes()
    rest, text = b"retu", engine.tokenizer.encode("x = ")
    transformer = load_tiny(model)
    expected = []
    for _ in range(12):
        logits = linear_logits(transformer, text + expected, transformer.new_cache(64))[-1]
        allowed = [t for t, b in texts.items() if b.startswith(rest) or (b and rest.startswith(b))]
        token = max(allowed, key=lambda t: float(logits[t])) if rest else int(logits.argmax())
        expected.append(token)
        rest = rest[len(texts[token]) :] if rest else rest
    assert ids(engine, "x = ", "retu", mode="plain")[:12] == expected


def test_nothing_typed_changes_nothing(engine):
    free = [t for c in engine.generate(engine.tokenizer.encode("x = "), SamplingParams(24)) for t in c.tokens]
    assert ids(engine, "x = ", "") == free


def test_a_guess_may_be_accepted_while_characters_are_still_to_come(engine):
    prompt = engine.tokenizer.encode("return x\n" * 4)
    cycles = list(engine.generate(prompt, SamplingParams(8), begins_with="return x"))
    origins = [origin for cycle in cycles for origin in cycle.origins]
    assert set(origins[:3]) != {"oracle"} or len(cycles) < len(origins)
