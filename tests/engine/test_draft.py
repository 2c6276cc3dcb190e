"""A transformer as draft: it makes the tree better, and never changes the text."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.acceptance import walk
from engine.cost_model import StepTimes
from engine.decoding import decode
from engine.draft2 import Draft2
from engine.reader import Reader
from engine.request import CancelToken, Cycle, Origin, SamplingParams, Shape, Spent
from engine.sampling import Sampler
from engine.stages import Draft, Oracle, Request, Stage, coupled
from engine.transformer import Transformer
from engine.tree import ROOT, TokenTree
from tests.engine.tiny_models import TOKENS, CancelAtLook, load_tiny, write_model

CAPACITY = 300
DEAR = StepTimes((1, 64), (1.0, 1.0))
CHEAP = StepTimes((1, 64), (0.01, 0.01))

Models = dict[str, Transformer]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    return {
        name: load_tiny(write_model(tmp_path_factory.mktemp(name), seed=seed, num_hidden_layers=layers))
        for name, seed, layers in (("large", 1, 2), ("middle", 2, 2), ("small", 3, 1))
    }


def draft(model: Transformer, below: Stage | None, times: StepTimes = CHEAP) -> Draft:
    return Draft(Reader(model, CAPACITY), times, below)


@torch.inference_mode()
def cycles(
    oracle: Oracle,
    below: Stage | None,
    prompt: Sequence[int],
    max_tokens: int = 40,
    sampler: Sampler | None = None,
    cancel: CancelToken | None = None,
) -> list[Cycle]:
    sampler = sampler or Sampler()
    request = Request(prompt, prompt, sampler, cancel or CancelToken())
    return list(decode(oracle, below, coupled(sampler), False, request, SamplingParams(max_tokens)))


def text_of(cycles: Sequence[Cycle]) -> list[int]:
    return [token for cycle in cycles for token in cycle.tokens]


def oracle_of(model: Transformer) -> Oracle:
    return Oracle(Reader(model, CAPACITY), DEAR)


prompts = st.lists(st.integers(0, TOKENS - 1), min_size=1, max_size=40)
samplers = st.builds(
    Sampler,
    st.sampled_from([0.0, 0.2, 0.8, 1.0, 1.5]),
    st.sampled_from([0, 50]),
    st.sampled_from([1.0, 0.9]),
    st.integers(0, 2**32),
)


@settings(max_examples=40)
@given(prompts, samplers, st.integers(0, 40))
def test_two_three_and_four_stages_write_what_the_oracle_alone_writes(models, prompt, sampler, max_tokens):
    plain = text_of(cycles(oracle_of(models["large"]), None, prompt, max_tokens, sampler))
    assert len(plain) == max_tokens
    small = draft(models["small"], Draft2(None))
    for chain in (
        draft(models["small"], None),
        small,
        draft(models["middle"], draft(models["small"], Draft2(None))),
        draft(models["middle"], small, DEAR),
    ):
        assert text_of(cycles(oracle_of(models["large"]), chain, prompt, max_tokens, sampler)) == plain


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("below", [None, "draft2"])
def test_a_draft_that_is_the_oracle_has_its_guesses_accepted(models, temperature, below):
    """So its cache never lacks a token, the bonus token among them, and its noise is the oracle's."""
    stage = draft(models["large"], Draft2(None) if below else None)
    done = cycles(oracle_of(models["large"]), stage, [1, 2, 3], 60, Sampler(temperature, seed=4))
    origins = [origin for cycle in done for origin in cycle.origins]
    assert origins.count("oracle") == len(done) < 20
    assert all(len(cycle.tokens) > 1 for cycle in done[1:-1])


@settings(max_examples=20)
@given(prompts, prompts, st.integers(0, 12))
def test_requests_in_any_order_guess_as_a_fresh_draft_would_read(models, first, second, shared):
    """What is left of an earlier request changes neither the text nor the draft's own cache."""
    second = [*first[:shared], *second]
    oracle, stage = oracle_of(models["large"]), draft(models["small"], None)
    for prompt in (first, second, first):
        assert text_of(cycles(oracle, stage, prompt, 12)) == text_of(
            cycles(oracle_of(models["large"]), None, prompt, 12)
        )
        reader, fresh = stage._reader, Reader(models["small"], CAPACITY)
        with torch.inference_mode():
            fresh.read(reader.text, CancelToken())
        length = reader.cache.length
        assert length == len(reader.text)
        for ours, theirs in zip(
            (*reader.cache.keys, *reader.cache.values), (*fresh.cache.keys, *fresh.cache.values), strict=True
        ):
            assert torch.equal(ours[:, :length], theirs[:, :length])


@pytest.mark.parametrize("looks", [0, 1, 2, 3, 5])
def test_a_cancelled_request_leaves_the_chain_as_good_as_fresh(models, looks):
    oracle, stage = oracle_of(models["large"]), draft(models["small"], Draft2(None))
    prompt = [(7 * i * i) % TOKENS for i in range(150)]
    whole = text_of(cycles(oracle_of(models["large"]), None, prompt))
    begun = text_of(cycles(oracle, stage, prompt, cancel=CancelAtLook(looks)))
    assert begun == whole[: len(begun)]
    assert text_of(cycles(oracle, stage, prompt)) == whole


def test_a_draft_whose_passes_cost_as_much_as_the_oracles_is_seldom_asked(models, monkeypatch):
    passes = []
    stage = draft(models["small"], None, StepTimes((1, 64), (1.0, 1.0)))
    run = stage._reader.rows
    monkeypatch.setattr(stage._reader, "rows", lambda *a: passes.append(1) or run(*a))
    done = cycles(oracle_of(models["large"]), stage, [1, 2, 3], 100)
    assert len(passes) < len(done) / 2


@pytest.mark.parametrize("cost", [0.05, 0.4, 0.8])
def test_where_a_draft_is_never_right_its_tries_cost_little(models, monkeypatch, cost):
    """Once it has learned that, all its passes together take less than 5 % of plain decoding's."""
    stage = draft(models["small"], None, StepTimes((1, 64), (cost, cost)))
    passes: list[int] = []
    run = stage._reader.rows
    monkeypatch.setattr(stage._reader, "rows", lambda *a: passes.append(1) or run(*a))
    plain = text_of(cycles(oracle_of(models["large"]), None, [1, 2, 3], 240))
    wrong = min(set(range(TOKENS)) - set(plain))
    sampler = Sampler()
    monkeypatch.setattr(sampler, "likeliest", lambda row, position, width: [(wrong, 0.5)])
    for _ in range(2):
        passes.clear()
        done = cycles(oracle_of(models["large"]), stage, [1, 2, 3], 240, sampler=sampler)
    assert 0 < cost * len(passes) / len(done) < 0.05


class SometimesRight:
    """A stage that guesses ``text``: every other token surely and rightly, the others doubtfully and wrongly.

    scores: what the stage above made of the guesses, and whether they were right.
    """

    def __init__(self, text: list[int]) -> None:
        self._text = text
        self._right = False
        self.scores: list[tuple[bool, float]] = []

    def begin(self, request: Request) -> bool:
        self._at = 0
        return True

    def propose(self, tree: TokenTree, budget: int, times: StepTimes) -> None:
        if len(tree) > 1:
            return
        self._right = not self._right
        self._told = (self._text[self._at] + (not self._right)) % TOKENS
        tree.add(ROOT, self._told, 0.9 if self._right else 0.1, "draft2")

    def advance(self, tree: TokenTree, accepted: Sequence[int], tokens: Sequence[int]) -> None:
        if len(tree) > 1:
            self.scores.append((self._right, tree.scores[tree.children[ROOT][self._told]]))
        self._at += len(tokens)

    def spent(self) -> dict[Origin, Spent]:
        return {}


class TwoInARow(SometimesRight):
    """Guesses the tokens 5 and 6, one after the other."""

    def propose(self, tree: TokenTree, budget: int, times: StepTimes) -> None:
        if len(tree) == 1:
            tree.add(tree.add(ROOT, 5, 0.5, "draft2"), 6, 0.25, "draft2")

    def advance(self, tree: TokenTree, accepted: Sequence[int], tokens: Sequence[int]) -> None:
        pass


def test_below_a_guess_that_the_draft_gives_no_chance_at_all_others_are_judged_as_well(models, monkeypatch):
    """A probability is rounded to 0 where the temperature is low."""
    plain = text_of(cycles(oracle_of(models["large"]), None, [1, 2, 3]))
    monkeypatch.setattr(Draft, "_pays", lambda self, tree, unread, *times: len(self._slots) < 8)
    monkeypatch.setattr(Sampler, "likeliest", lambda self, row, position, k: [(4, 1.0), (5, 0.0)][:k])
    stage = draft(models["small"], TwoInARow([]))
    assert text_of(cycles(oracle_of(models["large"]), stage, [1, 2, 3])) == plain


def test_a_weak_draft_leaves_the_stage_below_its_say(models, monkeypatch):
    """The draft knows neither the right nor the wrong guesses, so it cannot tell them apart itself."""
    plain = text_of(cycles(oracle_of(models["large"]), None, [1, 2, 3], 41))
    monkeypatch.setattr(Draft, "_pays", lambda self, tree, unread, *times: ROOT in unread)
    below = SometimesRight(plain)
    stage = draft(models["small"], below)
    for _ in range(4):
        assert text_of(cycles(oracle_of(models["large"]), stage, [1, 2, 3])) == plain[:40]
    late = below.scores[len(below.scores) // 2 :]
    for right in (True, False):
        scores = [score for was_right, score in late if was_right == right]
        assert len(scores) > 10
        assert all((score > 0.5) == right for score in scores)


class AlwaysRight(SometimesRight):
    """Guesses the next token of ``text``, and gives that the chance ``told``."""

    told = 0.9

    def propose(self, tree: TokenTree, budget: int, times: StepTimes) -> None:
        if len(tree) == 1:
            self._right, self._told = True, self._text[self._at]
            tree.add(ROOT, self._told, self.told, "draft2")


def test_a_guess_of_a_new_kind_is_judged_as_others_that_the_draft_thinks_so_of(models, monkeypatch):
    plain = text_of(cycles(oracle_of(models["large"]), None, [1, 2, 3], 41))
    monkeypatch.setattr(Draft, "_pays", lambda self, tree, unread, *times: ROOT in unread)
    below = AlwaysRight(plain)
    stage = draft(models["small"], below)
    cycles(oracle_of(models["large"]), stage, [1, 2, 3])
    before, below.told = len(below.scores), 0.3
    cycles(oracle_of(models["large"]), stage, [1, 2, 3], 4)
    assert below.scores[before][1] > 0.3


def test_a_right_guess_that_saves_less_than_it_costs_is_not_made(models, monkeypatch):
    """A guess is one more row above: what that takes is part of its cost."""
    text = text_of(cycles(oracle_of(models["large"]), None, [1, 2, 3], 60))
    for row, asked in ((0.0, True), (0.5, False)):
        stage = draft(models["large"], None, StepTimes((1, 64), (0.7, 0.7)))
        stage._statistics._seen["next"] = [9e9, 9e9]  # it is the oracle, and knows that it is always right
        stage._rest = 100
        request = Request([1, 2, 3, *text], [1, 2, 3, *text])
        with torch.inference_mode():
            stage.begin(request)
            tree = TokenTree(request.prompt[-1])
            stage.propose(tree, 12, StepTimes((1, 2, 64), (1.0, 1.0 + row, 1.0 + 63 * row)))
        assert (len(tree) > 1) == asked


def test_what_was_emitted_costs_no_pass_of_its_own(models, monkeypatch):
    """The draft's last guess, if it was accepted, and what was emitted while it rested."""
    stage = draft(models["small"], None)
    passes: list[int] = []
    run, read = stage._reader._run, stage._reader.read
    monkeypatch.setattr(stage._reader, "_run", lambda *a: passes.append(len(a[0])) or run(*a))
    reads = []
    monkeypatch.setattr(stage._reader, "read", lambda *a: reads.append(len(passes)) or read(*a))
    done = cycles(oracle_of(models["large"]), stage, [1, 2, 3], 60)
    assert reads == [0]  # the prompt
    assert sum(passes) > len(passes) > len(done)


@pytest.mark.parametrize("rest", [1, 15, 16, 17, 40])
@pytest.mark.parametrize("before_the_end", [4, 60])
def test_a_draft_that_rested_reads_on_from_where_it_was(models, monkeypatch, rest, before_the_end):
    """Few tokens with the tree, many before it; also where the cache is nearly full."""
    stage, oracle = draft(models["small"], None), oracle_of(models["large"])
    looks = itertools.count()
    monkeypatch.setattr(stage, "_pays", lambda tree, unread, *_: next(looks) >= rest and len(unread) < 9)
    room = CAPACITY - 33  # the guesses', as in an engine
    prompt = [token % TOKENS for token in range(room - rest - before_the_end)]
    max_tokens = rest + before_the_end
    plain = text_of(cycles(oracle_of(models["large"]), None, prompt, max_tokens))
    assert text_of(cycles(oracle, stage, prompt, max_tokens)) == plain
    assert next(looks) > rest
    known = stage._reader.text
    assert known == [*prompt, *plain][: len(known)]
    fresh = Reader(models["small"], CAPACITY)
    with torch.inference_mode():
        fresh.read(known, CancelToken())
    held, wanted = stage._reader.cache, fresh.cache
    for mine, right in zip([*held.keys, *held.values], [*wanted.keys, *wanted.values], strict=True):
        assert torch.equal(mine[:, : len(known)], right[:, : len(known)])


@torch.inference_mode()
def proposed(
    stage: Draft,
    prompt: list[int],
    budget: int,
    sampler: Sampler | None = None,
    shape: Shape = "tree",
    context: Sequence[int] = (),
) -> tuple[TokenTree, list[list[int]]]:
    """What it proposes to an oracle whose time is dear, and the nodes that it read in each pass."""
    passes: list[list[int]] = []
    read = stage._read
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage, "_read", lambda tree, nodes: passes.append(list(nodes)) or read(tree, nodes))
        stage.begin(Request(prompt, context or prompt, sampler or Sampler()))
        tree = TokenTree(prompt[-1], shape)
        stage.propose(tree, budget, StepTimes((1, 64), (100.0, 100.0)))
    return tree, passes


@settings(max_examples=40)
@given(
    st.sampled_from(["large", "small"]),
    prompts,
    samplers,
    st.integers(1, Draft.ROWS),  # a level of more nodes could take a second pass
    st.sampled_from(["tree", "chain"]),
)
def test_a_draft_alone_takes_one_pass_a_level_of_the_tree(models, name, prompt, sampler, budget, shape):
    """The paper's promise: no more passes than the tree is deep, and than there may be guesses in a row.

    One more only where it finds no token likely enough to go on with, which it cannot know before.
    """
    tree, passes = proposed(draft(models[name], None), prompt, budget, sampler, shape)
    assert [{tree.depths[node] for node in nodes} for nodes in passes] == [{n} for n in range(len(passes))]
    found_nothing = not any(tree.children[node] for node in passes[-1])
    assert len(passes) == max(tree.depths) + found_nothing
    assert len(passes) <= budget


def test_guesses_of_the_stage_below_cost_no_pass_of_their_own(models):
    """Fewer passes than the tree is deep where draft2 guessed right: one, over all that it guessed."""
    prompt = [1, 2, 3]
    truth = text_of(cycles(oracle_of(models["large"]), None, prompt, 60))
    context = [*prompt, *truth, *prompt]  # so the lookup knows how it goes on
    passes, right = {}, {}
    for name, below in (("alone", None), ("with draft2", Draft2(None))):
        stage = draft(models["large"], below)
        for _ in range(3):  # it is the oracle itself: let it learn how often it is right
            cycles(oracle_of(models["large"]), stage, prompt, 60)
        tree, read = proposed(stage, prompt, 12, context=context)
        accepted, _ = walk(tree, range(len(tree)), lambda node, tree=tree: (truth[tree.depths[node]], True))
        passes[name], right[name] = len(read), len(accepted) - 1
    assert passes["alone"] == right["alone"] > 6
    assert right["with draft2"] > right["alone"]
    assert passes["with draft2"] == 1


@pytest.mark.parametrize("shape", ["tree", "chain"])
@pytest.mark.parametrize("below", [None, Draft2(None)], ids=["draft alone", "draft and draft2"])
def test_the_ablations_switches_change_the_guesses_and_never_the_text(models, shape, below):
    oracle, stage = oracle_of(models["large"]), draft(models["small"], below)
    params = SamplingParams(40, shape=shape)
    prompt = [1, 2, 3, 4, 1, 2, 3]
    request = Request(prompt, prompt)
    trees = []
    choose_rows = oracle.choose_rows

    def spy(tree: TokenTree, limit: int) -> list[int]:
        trees.append((tree, choose_rows(tree, limit)))
        return trees[-1][1]

    oracle.choose_rows = spy  # type: ignore[method-assign]
    with torch.inference_mode():
        done = list(decode(oracle, stage, coupled(Sampler()), False, request, params))
    assert text_of(done) == text_of(cycles(oracle_of(models["large"]), None, prompt))
    widest = max(
        sum(tree.parents[node] == parent for node in nodes) for tree, nodes in trees for parent in nodes
    )
    assert widest == 1 if shape == "chain" else widest > 1
    origins = {origin for tree, nodes in trees for origin in (tree.origins[node] for node in nodes[1:])}
    assert origins == ({"draft"} if below is None else {"draft", "draft2"})
