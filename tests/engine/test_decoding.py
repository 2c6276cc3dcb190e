"""The loop: whatever is guessed, the text is that of plain decoding, of the length that was asked for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cost_model import StepTimes
from engine.decoding import MOST_GUESSES, decode
from engine.draft2 import Draft2
from engine.katz import write_table
from engine.ngram import NgramTable
from engine.reader import Reader
from engine.request import CancelToken, Cycle, SamplingParams
from engine.sampling import Sampler
from engine.stages import Oracle, Request, Stage, coupled
from engine.transformer import Transformer
from engine.tree import ROOT, TokenTree
from tests.engine.tiny_models import TOKENS, CancelAtLook, greedy, load_tiny, write_model

CAPACITY = 300
FREE = StepTimes((1, 64), (1.0, 1.0))  # every guess pays
USUAL = StepTimes((1, 8, 32), (1.0, 1.3, 3.0))
DEAR = StepTimes((1, 64), (1.0, 64.0))  # none does


@pytest.fixture(scope="module", params=["fp32", "int8"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Transformer:
    return load_tiny(write_model(tmp_path_factory.mktemp("model")), request.param)


GREEDY = coupled(Sampler())


def new_oracle(model: Transformer, times: StepTimes = FREE) -> Oracle:
    return Oracle(Reader(model, CAPACITY), times)


@torch.inference_mode()
def cycles(
    model: Transformer,
    below: Stage,
    prompt: Sequence[int],
    max_tokens: int,
    mode: str = "staged",
    times: StepTimes = FREE,
    stop_ids: tuple[int, ...] = (),
) -> list[Cycle]:
    params = SamplingParams(max_tokens=max_tokens, mode=mode, stop_ids=stop_ids)
    used = None if mode == "plain" else below
    return list(decode(new_oracle(model, times), used, GREEDY, False, Request(prompt, prompt), params))


def text_of(cycles: Sequence[Cycle]) -> list[int]:
    return [token for cycle in cycles for token in cycle.tokens]


class Script:
    """A stage that guesses a given continuation, a chain of up to ``length`` tokens."""

    def __init__(self, continuation: Sequence[int], length: int = MOST_GUESSES) -> None:
        self.rest = list(continuation)
        self.length = length
        self.budgets: list[int] = []

    def begin(self, request: Request) -> bool:
        return True

    def propose(self, tree: TokenTree, budget: int, worth: float) -> None:
        self.budgets.append(budget)
        node = ROOT
        for token in self.rest[: min(budget, self.length)]:
            node = tree.add(node, token, 1.0, "draft2")

    def advance(self, tree: TokenTree, accepted: Sequence[int], tokens: Sequence[int]) -> None:
        assert len(accepted) == len(tokens)
        assert [tree.tokens[node] for node in accepted[1:]] == list(tokens[:-1])
        self.rest = self.rest[len(tokens) :]


PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]


@pytest.mark.parametrize("length", [1, 3, MOST_GUESSES])
def test_right_guesses_are_all_accepted(model, length):
    """So each cycle emits them and a bonus token: nothing is missing from the cache after any length."""
    truth = greedy(model, PROMPT, 100)
    done = cycles(model, Script(truth, length), PROMPT, 100)
    assert text_of(done) == truth
    assert all(cycle.rows == len(cycle.tokens) for cycle in done)
    assert [len(cycle.tokens) for cycle in done[:-1]] == [length + 1] * (len(done) - 1)
    assert all(c.origins == ["draft2"] * (len(c.tokens) - 1) + ["oracle"] for c in done)


def test_wrong_guesses_are_all_refused(model):
    truth = greedy(model, PROMPT, 30)
    wrong = [(token + 1) % TOKENS for token in truth]
    done = cycles(model, Script(wrong), PROMPT, 30)
    assert text_of(done) == truth
    assert [len(cycle.tokens) for cycle in done] == [1] * 30
    assert all(cycle.origins == ["oracle"] for cycle in done)


@pytest.mark.parametrize("wrong_at", [0, 1, 5, 30])
def test_guesses_are_accepted_up_to_the_first_wrong_one(model, wrong_at):
    truth = greedy(model, PROMPT, 60)
    guesses = list(truth)
    guesses[wrong_at] = (guesses[wrong_at] + 1) % TOKENS
    done = cycles(model, Script(guesses), PROMPT, 60)
    assert text_of(done) == truth
    assert len(done[0].tokens) == wrong_at + 1


def test_plain_decoding_is_one_row_and_one_token_a_cycle(model):
    script = Script([])
    done = cycles(model, script, PROMPT, 12, mode="plain")
    assert text_of(done) == greedy(model, PROMPT, 12)
    assert [(c.rows, c.origins) for c in done] == [(1, ["oracle"])] * 12
    assert script.budgets == []


@pytest.mark.parametrize("max_tokens", [0, 1, 2, 31, 32, 33, 64, 65])
@pytest.mark.parametrize("mode", ["plain", "staged"])
def test_exactly_so_many_tokens_come_as_were_asked_for(model, mode, max_tokens):
    truth = greedy(model, PROMPT, max_tokens + 40)
    script = Script(truth)
    done = cycles(model, script, PROMPT, max_tokens, mode)
    assert text_of(done) == truth[:max_tokens]
    assert all(0 <= budget <= MOST_GUESSES for budget in script.budgets)
    assert max((cycle.rows for cycle in done), default=0) <= MOST_GUESSES + 1


@pytest.mark.parametrize("mode", ["plain", "staged"])
@pytest.mark.parametrize("at", [0, 1, 7, 29])
def test_a_stop_id_ends_the_text_even_inside_accepted_guesses(model, mode, at):
    truth = greedy(model, PROMPT, 40)
    end = truth.index(truth[at])  # where that token comes first
    done = cycles(model, Script(truth), PROMPT, 40, mode, stop_ids=(truth[at], TOKENS + 1))
    assert text_of(done) == truth[:end]
    assert all(len(cycle.tokens) == len(cycle.origins) for cycle in done)


def test_where_no_guess_pays_none_is_checked(model):
    truth = greedy(model, PROMPT, 10)
    done = cycles(model, Script(truth), PROMPT, 10, times=DEAR)
    assert [cycle.rows for cycle in done] == [1] * 10
    assert text_of(done) == truth


# draft2 as it is


@pytest.fixture(scope="module")
def table(model: Transformer, tmp_path_factory: pytest.TempPathFactory) -> NgramTable:
    """Counted on what the model writes, and on noise, so that some guesses are right."""
    noise = np.random.default_rng(0)
    documents = [np.array(greedy(model, [token], 60), dtype=np.uint32) for token in range(0, TOKENS, 26)]
    documents += [noise.integers(0, TOKENS, 200, dtype=np.uint32)]
    path = tmp_path_factory.mktemp("table") / "table"
    write_table(path, documents, TOKENS, "f" * 64)
    return NgramTable(path, "f" * 64)


prompts = st.one_of(
    st.lists(st.integers(0, TOKENS - 1), min_size=1, max_size=60),
    st.lists(st.integers(0, 3), min_size=1, max_size=60),
    st.lists(st.integers(0, TOKENS - 1), min_size=1, max_size=12).map(lambda block: block * 6),
)


@settings(max_examples=30)
@given(
    prompt=prompts,
    max_tokens=st.integers(0, 70),
    with_table=st.booleans(),
    times=st.sampled_from([FREE, USUAL, DEAR]),
    stop_ids=st.sampled_from([(), (5,), tuple(range(0, TOKENS, 40))]),
)
def test_staged_text_is_plain_text(model, table, prompt, max_tokens, with_table, times, stop_ids):
    below = Draft2(table if with_table else None)
    plain = cycles(model, below, prompt, max_tokens, "plain", times, stop_ids)
    staged = cycles(model, below, prompt, max_tokens, "staged", times, stop_ids)
    assert text_of(staged) == text_of(plain)
    assert len(text_of(staged)) == max_tokens or stop_ids
    for cycle in staged:
        assert len(cycle.tokens) == len(cycle.origins) <= cycle.rows <= MOST_GUESSES + 1
        assert set(cycle.origins[:-1]) <= {"draft2"}


def test_the_guesses_of_draft2_are_partly_right_and_partly_wrong(model, table):
    """Else the test above would say little."""
    done = [cycle for t in range(10) for cycle in cycles(model, Draft2(table), [t, 2 * t], 60)]
    guesses, accepted = sum(c.rows - 1 for c in done), sum(len(c.tokens) - 1 for c in done)
    assert 10 < accepted < guesses - 10


@torch.inference_mode()
def run(
    oracle: Oracle, below: Stage, prompt: Sequence[int], max_tokens: int, cancel: CancelToken
) -> list[int]:
    params = SamplingParams(max_tokens=max_tokens)
    request = Request(prompt, prompt, cancel=cancel)
    return text_of(list(decode(oracle, below, GREEDY, False, request, params)))


@pytest.mark.parametrize("looks", [0, 1, 2, 3, 4, 9])
def test_a_cancelled_text_is_a_beginning_of_the_whole_and_leaves_no_trace(model, table, looks):
    prompt = [(7 * i * i) % TOKENS for i in range(150)]  # read in two parts
    whole = greedy(model, prompt, 40)
    oracle, below = new_oracle(model), Draft2(table)
    begun = run(oracle, below, prompt, 40, CancelAtLook(looks))
    assert begun == whole[: len(begun)]
    assert len(begun) < 40
    assert run(oracle, below, prompt, 40, CancelToken()) == whole


@pytest.mark.parametrize("count", [1, 2, 5])
def test_closing_the_generator_early_leaves_no_trace(model, table, count):
    oracle, below = new_oracle(model), Draft2(table)
    with torch.inference_mode():
        generator = decode(oracle, below, GREEDY, False, Request(PROMPT, PROMPT), SamplingParams())
        for _ in range(count):
            next(generator)
        generator.close()
    other = [*PROMPT[:4], 8, 8]
    for prompt in (PROMPT, other, PROMPT):
        assert run(oracle, below, prompt, 30, CancelToken()) == greedy(model, prompt, 30)


def test_the_context_changes_the_guesses_but_not_the_text(model, table):
    for context in ([], [1], PROMPT * 3, greedy(model, PROMPT, 40)):
        with torch.inference_mode():
            request = Request(PROMPT, context)
            done = list(decode(new_oracle(model), Draft2(table), GREEDY, False, request, SamplingParams(30)))
        assert text_of(done) == greedy(model, PROMPT, 30)
