"""The loop: whatever is guessed, the text is that of plain decoding, of the length that was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count, islice

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
from engine.request import CancelToken, Cycle, Origin, SamplingParams, Spent
from engine.sampling import Sampler
from engine.stages import Draft, Oracle, Request, Stage, coupled
from engine.transformer import Transformer
from engine.tree import ROOT, TokenTree
from tests.engine.tiny_models import (
    TOKENS,
    CancelAtLook,
    committed,
    greedy,
    linear_logits,
    load_tiny,
    same,
    write_model,
)

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

    def propose(self, tree: TokenTree, budget: int, times: StepTimes) -> None:
        self.budgets.append(budget)
        node = ROOT
        for token in self.rest[: min(budget, self.length)]:
            node = tree.add(node, token, 1.0, "draft2")

    def advance(self, tree: TokenTree, accepted: Sequence[int], tokens: Sequence[int]) -> None:
        assert len(accepted) == len(tokens)
        assert [tree.tokens[node] for node in accepted[1:]] == list(tokens[:-1])
        self.rest = self.rest[len(tokens) :]

    def spent(self) -> dict[Origin, Spent]:
        return {}


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


# The caches


@pytest.fixture(scope="module")
def small(model: Transformer, tmp_path_factory: pytest.TempPathFactory) -> Transformer:
    directory = write_model(tmp_path_factory.mktemp("small"), seed=3, num_hidden_layers=1)
    return load_tiny(directory, "int8")


CYCLES = 3
Caches = dict[str, list[torch.Tensor]]


@pytest.fixture(scope="module")
def truth(model: Transformer) -> list[int]:
    """What the oracle writes after PROMPT, more than the longest cycles need."""
    return greedy(model, PROMPT, (CYCLES + 1) * (MOST_GUESSES + 1))


@pytest.fixture(scope="module")
def linear(model: Transformer, small: Transformer, truth: list[int]) -> Caches:
    """The keys and values of PROMPT and all that follows, read token by token."""
    caches = {}
    for name, transformer in (("oracle", model), ("draft", small)):
        cache = transformer.new_cache(CAPACITY)
        linear_logits(transformer, [*PROMPT, *truth], cache)
        caches[name] = committed(cache)
    return caches


class Bush(Script):
    """Guesses ``right`` tokens of the continuation, and two wrong ones beside each and behind the last."""

    def __init__(self, continuation: Sequence[int], right: int) -> None:
        super().__init__(continuation)
        self.right = right

    def propose(self, tree: TokenTree, budget: int, times: StepTimes) -> None:
        if len(tree) > 1:  # a stage above has added to it: go on no further
            return
        node = ROOT
        for depth, token in enumerate(self.rest[: self.right + 1]):
            for wrong in (1, 2):
                tree.add(node, (token + wrong) % TOKENS, tree.scores[node], "draft2")
            if depth < self.right:
                node = tree.add(node, token, tree.scores[node], "draft2")


class Thorough(Draft):
    """Reads all that the stage below it guesses, pass upon pass, whether or not it pays."""

    def _unread(self, tree: TokenTree, budget: int) -> list[int]:
        guessed = (node for node in range(len(tree)) if tree.origins[node] != "draft")
        return [node for node in guessed if node not in self._slots][: self.ROWS]

    def _pays(self, tree: TokenTree, unread: Sequence[int], budget: int, times: StepTimes) -> bool:
        return True


@pytest.mark.parametrize("right", range(MOST_GUESSES + 1))
@pytest.mark.parametrize("kind", [Draft, Thorough])
def test_after_any_accepted_length_the_caches_are_as_if_filled_token_by_token(
    model, small, truth, linear, kind, right
):
    """The oracle's and the draft's, after each cycle, bit for bit: no guess but the accepted is left."""
    draft = kind(Reader(small, CAPACITY), StepTimes((1, 64), (0.001, 0.001)), Bush(truth, right))
    oracle = new_oracle(model)
    emitted: list[int] = []
    read_ahead = []
    with torch.inference_mode():
        decoding = decode(oracle, draft, GREEDY, True, Request(PROMPT, PROMPT), SamplingParams(len(truth)))
        for cycle in islice(decoding, CYCLES):
            assert len(cycle.tokens) > right
            text = [*PROMPT, *emitted, *cycle.tokens[:-1]]
            assert oracle._reader.text == text
            assert draft._reader.text == text[: len(draft._reader.text)]
            for name, reader in (("oracle", oracle._reader), ("draft", draft._reader)):
                length = reader.cache.length
                assert length == len(reader.text)
                assert same(committed(reader.cache), [whole[:, :length] for whole in linear[name]])
            read_ahead.append(len(draft._reader.text) - len(PROMPT) - len(emitted))
            emitted += cycle.tokens
    assert emitted == truth[: len(emitted)]
    # the draft has kept accepted guesses that it read in a tree
    if kind is Thorough:
        assert read_ahead == [right] * CYCLES
    else:
        assert max(read_ahead) >= min(right, 4)


# A chain of all stages that is used again and again


@torch.inference_mode()
def chain_text(
    oracle: Oracle,
    below: Stage | None,
    prompt: Sequence[int],
    max_tokens: int,
    sampler: Sampler,
    cancel: CancelToken | None = None,
    close_after: int = 1000,
    stop_ids: tuple[int, ...] = (),
) -> list[int]:
    """What is written until it is done, cancelled, or closed after so many cycles."""
    request = Request(prompt, prompt, sampler, cancel or CancelToken())
    params = SamplingParams(max_tokens, stop_ids=stop_ids)
    decoding = decode(oracle, below, coupled(sampler), False, request, params)
    return text_of(list(islice(decoding, close_after)))


def full_chain(model: Transformer, small: Transformer, table: NgramTable) -> tuple[Oracle, Draft]:
    return new_oracle(model), Draft(Reader(small, CAPACITY), StepTimes((1, 64), (0.01, 0.01)), Draft2(table))


requests = st.lists(
    st.tuples(
        st.integers(0, 40),  # so many tokens of the prompt before are kept
        prompts,
        st.integers(0, 25),  # max_tokens
        st.sampled_from([0.0, 0.8]),
        st.one_of(st.none(), st.integers(0, 12)),  # looks at the token until it is cancelled
        st.sampled_from([1000, 0, 1, 2]),  # cycles until it is closed
    ),
    min_size=2,
    max_size=6,
)


@settings(max_examples=12)
@given(requests)
def test_requests_in_any_order_cancelled_or_closed_are_answered_as_by_fresh_stages(
    model, small, table, requests
):
    oracle, draft = full_chain(model, small, table)
    prompt: list[int] = []
    for kept, rest, max_tokens, temperature, looks, close_after in requests:
        prompt = [*prompt[:kept], *rest]
        sampler = Sampler(temperature, seed=len(prompt))
        whole = chain_text(new_oracle(model), None, prompt, max_tokens, sampler)
        cancel = None if looks is None else CancelAtLook(looks)
        begun = chain_text(oracle, draft, prompt, max_tokens, sampler, cancel, close_after)
        assert begun == whole[: len(begun)]
        if cancel is None and close_after == 1000:
            assert begun == whole


def test_a_request_may_be_cancelled_at_every_look_at_the_token(model, small, table):
    """Those while the prompt is read by the oracle, by the draft, and those between cycles."""
    prompt = [(7 * i * i) % TOKENS for i in range(140)]  # read in two parts
    sampler = Sampler()
    whole = chain_text(new_oracle(model), None, prompt, 12, sampler)
    lengths = []
    for looks in count():
        oracle, draft = full_chain(model, small, table)
        cancel = CancelAtLook(looks)
        lengths.append(len(chain_text(oracle, draft, prompt, 12, sampler, cancel)))
        other = [*prompt[:100], 8, 8]
        for following in (other, prompt):
            alone = chain_text(new_oracle(model), None, following, 12, sampler)
            assert chain_text(oracle, draft, following, 12, sampler) == alone
        if cancel.looks >= 0:  # it was done before
            break
    assert lengths == sorted(lengths)
    assert lengths[:4] == [0, 0, 0, 0]
    assert lengths[-1] == len(whole)


@pytest.mark.parametrize("at", [0, 3, 8])
def test_after_a_stop_inside_accepted_guesses_the_next_request_is_as_on_fresh_stages(model, small, at):
    truth = greedy(model, PROMPT, 40)
    oracle = new_oracle(model)
    end = truth.index(truth[at])
    stopped = chain_text(oracle, Script(truth), PROMPT, 40, Sampler(), stop_ids=(truth[at],))
    assert stopped == truth[:end]
    for following in ([*PROMPT, *truth[: end + 1]], [*PROMPT, *stopped, 7], PROMPT):
        assert chain_text(oracle, None, following, 20, Sampler()) == greedy(model, following, 20)
