"""The stages: draft2 guesses from the table and the text so far, the oracle checks all guesses at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cost_model import StepTimes
from engine.draft2 import Draft2
from engine.katz import write_table
from engine.ngram import NgramTable
from engine.reader import PREFILL_ROWS, Reader
from engine.request import CancelToken
from engine.sampling import Sampler
from engine.stages import Oracle, Request, coupled
from engine.transformer import Transformer
from engine.tree import ROOT, TokenTree
from tests.engine.tiny_models import TOKENS, CancelAtLook, greedy, load_tiny, write_model

CAPACITY = 400
FREE = StepTimes((1, 64), (1.0, 1.0))


def table(folder: Path, *documents: list[int]) -> NgramTable:
    path = folder / "table"
    write_table(path, [np.array(document, dtype=np.uint32) for document in documents], TOKENS, "f" * 64)
    return NgramTable(path, "f" * 64)


def request(text: list[int], cancel: CancelToken | None = None) -> Request:
    return Request(text, text, cancel=cancel or CancelToken())


def new_oracle(model: Transformer) -> Oracle:
    return Oracle(Reader(model, CAPACITY), FREE)


def verify(oracle: Oracle, tree: TokenTree) -> tuple[list[int], list[int]]:
    """All nodes checked: the accepted ones and the tokens to emit."""
    checked = oracle.check(tree, range(len(tree)), coupled(Sampler()))
    assert checked.rows == len(tree)
    return checked.accepted, checked.tokens


def proposal(stage: Draft2, root: int, budget: int = 8) -> TokenTree:
    tree = TokenTree(root)
    stage.propose(tree, budget, FREE)
    return tree


def texts(tree: TokenTree) -> set[tuple[int, ...]]:
    return {tuple(tree.tokens[step] for step in tree.path(node)[1:]) for node in range(1, len(tree))}


# draft2


def test_what_followed_before_in_the_text_is_guessed():
    stage = Draft2(None)
    stage.begin(request([1, 2, 3, 4, 5, 6, 1, 2, 3]))
    tree = proposal(stage, 3, budget=3)
    assert texts(tree) == {(4,), (4, 5), (4, 5, 6)}
    assert set(tree.origins[1:]) == {"draft2"}


def test_what_followed_in_the_table_is_guessed(tmp_path: Path):
    stage = Draft2(table(tmp_path, [10, 11, 12, 13] * 20))
    stage.begin(request([9, 10, 11]))
    assert {(12,), (12, 13)} <= texts(proposal(stage, 11))


def test_where_nothing_is_known_nothing_is_guessed():
    stage = Draft2(None)
    stage.begin(request([1, 2, 3]))
    assert len(proposal(stage, 3)) == 1


def test_both_proposers_guesses_are_one_node(tmp_path: Path):
    stage = Draft2(table(tmp_path, [1, 2, 3] * 20))
    stage.begin(request([1, 2, 3, 1, 2, 3, 1, 2]))
    tree = proposal(stage, 2)
    assert list(tree.children[ROOT]).count(3) == 1


small_texts = st.lists(st.integers(0, 3), min_size=1, max_size=60)


@given(small_texts, st.integers(0, 20))
def test_guesses_come_best_first_and_never_more_than_asked_for(text, budget):
    stage = Draft2(None)
    stage.begin(request(text))
    tree = proposal(stage, text[-1], budget)
    assert len(tree) <= budget + 1
    assert tree.scores == sorted(tree.scores, reverse=True)
    assert all(0 < score <= 1 for score in tree.scores)


@given(small_texts, small_texts)
def test_after_emitted_tokens_it_guesses_as_if_they_had_been_in_the_context(text, emitted):
    told, fresh = Draft2(None), Draft2(None)
    told.begin(request(text))
    for token in emitted:  # nothing was proposed, so there is nothing to learn from it
        told.advance(TokenTree(0), [ROOT], [token])
    fresh.begin(request(text + emitted))
    assert texts(proposal(told, emitted[-1])) == texts(proposal(fresh, emitted[-1]))


@given(small_texts)
def test_below_a_node_it_guesses_what_follows_that_nodes_path(text):
    stage = Draft2(None)
    stage.begin(request(text))
    tree = proposal(stage, text[-1], budget=12)
    for node in range(1, len(tree)):
        path = [tree.tokens[step] for step in tree.path(node)[1:]]
        after = Draft2(None)
        after.begin(request(text))
        after.advance(TokenTree(0), [ROOT] * len(path), path)
        # the committed path is text as well and may repeat itself, so only what the tree has is compared
        assert set(tree.children[node]) <= set(proposal(after, path[-1], 50).children[ROOT])


def test_no_text_survives_into_the_next_request(tmp_path: Path):
    stage = Draft2(table(tmp_path, [50, 51, 52, 53] * 5))
    stage.begin(request([1, 2, 3, 4, 1, 2, 3, 4, 1, 2]))
    tree = proposal(stage, 2)
    stage.advance(tree, [ROOT], [3])
    stage.begin(request([9, 1, 2]))
    fresh = Draft2(stage._table)
    fresh.begin(request([9, 1, 2]))
    assert texts(proposal(stage, 2)) == texts(proposal(fresh, 2))


def test_a_source_that_is_always_wrong_loses_its_say():
    stage = Draft2(None)
    text = [1, 2, 3, 4]
    stage.begin(request(text * 3))
    first = proposal(stage, 4).scores[1]
    for _ in range(100):
        stage.begin(request(text * 3))
        stage.advance(proposal(stage, 4), [ROOT], [99])
    stage.begin(request(text * 3))
    assert max(proposal(stage, 4).scores[1:], default=0.0) < first / 4


@pytest.mark.parametrize("context", [[], [1]])
def test_a_context_shorter_than_a_trigram_is_fine(tmp_path: Path, context):
    for known in (None, table(tmp_path, [1, 2, 3] * 5)):
        stage = Draft2(known)
        stage.begin(request(context))
        stage.advance(proposal(stage, 1), [ROOT], [2])
        proposal(stage, 2)


def test_only_what_pays_is_checked_of_a_proposal(model):
    text = [1, 2, 3, 4, 5, 6, 7] * 3
    for times, rows in ((FREE, 6), (StepTimes((1, 64), (1.0, 64.0)), 1)):
        stage = Draft2(None)
        stage.begin(request(text))
        tree = proposal(stage, 7, budget=9)
        assert len(Oracle(Reader(model, CAPACITY), times).choose_rows(tree, 5)) == rows


# The oracle


@pytest.fixture(scope="module", params=["fp32", "int8"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Transformer:
    directory = write_model(tmp_path_factory.mktemp("model"), max_position_embeddings=CAPACITY)
    return load_tiny(directory, request.param)


@torch.inference_mode()
def emitted(oracle: Oracle, prompt: list[int], count: int) -> list[int]:
    """``count`` tokens after ``prompt`` without any guess."""
    assert oracle.begin(request(prompt))
    output: list[int] = []
    while len(output) < count:
        output += verify(oracle, TokenTree((prompt + output)[-1]))[1]
    return output


@torch.inference_mode()
def rows_read(oracle: Oracle, prompt: list[int], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows of the forward passes that ``prompt`` takes."""
    rows = []
    transformer = oracle._reader.transformer
    forward = transformer.forward
    with monkeypatch.context() as patch:
        patch.setattr(
            transformer,
            "forward",
            lambda tokens, *rest: rows.append(len(tokens)) or forward(tokens, *rest),
        )
        assert oracle.begin(request(prompt))
    return rows


TEXT = [(7 * i * i + 3 * i) % TOKENS for i in range(300)]


def test_all_of_the_prompt_but_its_last_token_is_read_in_parts(model, monkeypatch):
    rows = rows_read(new_oracle(model), TEXT, monkeypatch)
    assert (sum(rows), max(rows)) == (len(TEXT) - 1, PREFILL_ROWS)


def test_a_prompt_of_one_token_needs_no_reading(model, monkeypatch):
    oracle = new_oracle(model)
    assert rows_read(oracle, [5], monkeypatch) == []
    assert emitted(oracle, [5], 6) == greedy(model, [5], 6)


@pytest.mark.parametrize(
    ("before", "prompt", "read"),
    [
        (TEXT[:50], TEXT[:50], 0),
        (TEXT[:50], TEXT[:60], 10),
        (TEXT[:60], TEXT[:50], 0),
        (TEXT[:50], [1, *TEXT[:50]], 50),
        (TEXT[:50], [*TEXT[:30], 1, *TEXT[30:50]], 20),
        (TEXT[:50], [TEXT[0]], 0),
    ],
)
def test_what_the_cache_holds_from_the_request_before_is_not_read_again(
    model, monkeypatch, before, prompt, read
):
    oracle = new_oracle(model)
    rows_read(oracle, before, monkeypatch)
    assert sum(rows_read(oracle, prompt, monkeypatch)) == read
    assert emitted(oracle, prompt, 5) == greedy(model, prompt, 5)


def test_the_output_is_not_read_again_either(model, monkeypatch):
    oracle = new_oracle(model)
    output = emitted(oracle, TEXT[:40], 9)
    assert sum(rows_read(oracle, [*TEXT[:40], *output[:5], 1, 2], monkeypatch)) == 2 - 1


@torch.inference_mode()
@pytest.mark.parametrize("looks", range(7))
def test_a_cancelled_prompt_is_read_on_from_where_it_was_left(model, monkeypatch, looks):
    """The token is looked at before each pass and before each of its layers; a whole pass is kept."""
    oracle = new_oracle(model)
    passes = looks // (1 + model.config.layers)
    assert not oracle.begin(request(TEXT, CancelAtLook(looks)))
    assert sum(rows_read(oracle, TEXT, monkeypatch)) == len(TEXT) - 1 - passes * PREFILL_ROWS
    assert emitted(oracle, TEXT, 3) == greedy(model, TEXT, 3)


steps = st.lists(st.tuples(st.integers(0, 30), st.integers(0, TOKENS - 1)), max_size=20)


@settings(max_examples=25)
@given(steps, st.integers(0, 6))
def test_the_oracle_takes_from_a_tree_what_it_would_have_said_and_no_more(model, steps, right):
    """A random tree into which the first ``right`` tokens of the true continuation are woven."""
    prompt = TEXT[:20]
    truth = greedy(model, prompt, 12)
    tree = TokenTree(prompt[-1])
    node = ROOT
    for index, (parent, token) in enumerate(steps):
        tree.add(parent % len(tree), token, 0.5, "draft2")
        if index < right:
            node = tree.add(node, truth[index], 0.5, "draft2")
    oracle = new_oracle(model)
    with torch.inference_mode():
        oracle.begin(request(prompt))
        accepted, tokens = verify(oracle, tree)
        rest = verify(oracle, TokenTree(tokens[-1]))[1]
    assert len(tokens) == len(accepted) > min(right, len(steps))
    assert tokens + rest == truth[: len(tokens) + 1]


def test_measuring_leaves_nothing_behind(model):
    oracle = new_oracle(model)
    emitted(oracle, TEXT[:40], 2)
    with torch.inference_mode():
        times = oracle._reader.measure((1, 2, 8))
    assert times.rows == (1, 2, 8)
    assert all(seconds > 0 for seconds in times.seconds)
    assert emitted(oracle, TEXT[:40], 5) == greedy(model, TEXT[:40], 5)
