"""The figures, against examples reckoned by hand; and the way to JSON and back."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from engine.errors import DraftlineError
from model_setup.results import Figures, Results, Setting, pays_after, read_results
from tests.model_setup.made_results import guessed, plain, results

TREE = Setting("greedy", "after", "tree, draft2")


@pytest.fixture
def figures() -> Figures:
    """8 tokens in 4 cycles of 0.125 s, and of 0.25 s; plain took 0.1 s a token."""
    return Figures(TREE, [guessed(), guessed(seconds=0.25)], [plain(), plain()])


def test_rates_are_by_prompt_and_over_all(figures):
    assert (figures.rates.low, figures.rates.middle, figures.rates.high) == (8, 12, 16)
    assert figures.rate == pytest.approx(16 / 1.5)
    assert figures.ratio == pytest.approx(16 / 1.5 / 10)
    assert figures.ratios == pytest.approx([1.6, 0.8])
    assert figures.seconds == pytest.approx(0.75)


def test_predicted_is_what_the_cost_model_promised(figures):
    # a cycle of 1.5 tokens in 0.12 s, where plain's token takes 0.1 s
    assert figures.predicted == pytest.approx(1.5 / 0.12 * 0.1)


def test_bytes_and_shares_are_told_by_stage(figures):
    assert figures.bytes == pytest.approx({"draft2": 0, "draft": 0.05, "oracle": 0.55})
    assert figures.shares == {"draft2": 0.5, "draft": 0, "oracle": 0.5}


def test_the_theorem_takes_alpha_c_and_the_guesses_of_a_cycle(figures):
    # alpha 1: each cycle's checked place had its token; c: 0.02 s a pass of the draft to 0.08 of the oracle
    assert figures.gamma == 2
    assert figures.theorem == pytest.approx(3 / (2 * 0.25 + 1))


def test_texts_that_are_not_plain_s_are_counted():
    wrong = guessed()
    wrong.same = False
    assert Figures(TREE, [guessed(), wrong], [plain(), plain()]).differing == 1


@pytest.mark.parametrize(
    ("cost", "saved", "enough"), [(12, 0.3, 40), (12, 0.5, 24), (0, 1, 0), (12, 0, None)]
)
def test_what_it_cost_is_paid_after_so_many_completions(cost, saved, enough):
    assert pays_after(cost, saved) == enough


def test_the_server_s_own_setting_is_a_tree_of_all_stages():
    assert results().usual("before", "greedy").name == "tree, draft2"
    assert results().usual("after", "greedy").name == "tree, draft + draft2"


def test_results_survive_json(tmp_path):
    made = results()
    (tmp_path / "r.json").write_text(json.dumps(made.to_json()), encoding="utf-8")
    again = read_results(tmp_path / "r.json")
    assert again.to_json() == made.to_json()
    assert replace(again, prompts=[]) == replace(made, prompts=[])


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"format": 0}', '{"format": 1, "facts": {}}'])
def test_what_cannot_be_read_is_told_in_one_sentence(tmp_path, content):
    (tmp_path / "r.json").write_text(content, encoding="utf-8")
    with pytest.raises(DraftlineError, match="run `model-setup benchmark`"):
        read_results(tmp_path / "r.json")


def test_the_json_holds_the_figures_of_every_setting():
    made = results()
    stored = made.to_json()
    assert len(stored["figures"]) == len(made.kinds) * len(made.settings)
    assert isinstance(Results.from_json(json.loads(json.dumps(stored))), Results)
