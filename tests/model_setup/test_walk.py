"""The steps of setting up: in order, within the budget, each once, and on where it was."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import DraftlineError
from model_setup import store, walk
from model_setup.record import Record
from model_setup.walk import Made, Step, describe, plan, shares


class Kitchen:
    """A repository with two steps: dough is made of flour, bread of dough and fills its time."""

    def __init__(self, folder: Path) -> None:
        self.repository = folder / "repository"
        self.repository.mkdir()
        self.flour = "wheat"
        self.done: list[tuple[str, float]] = []
        self.fails = False
        self.dough, self.bread = folder / "dough", folder / "bread"

    def steps(self) -> list[Step]:
        return [
            Step("dough", "the dough", lambda: {"the flour": self.flour}, self._make_dough, seconds=2),
            Step(
                "bread",
                "the bread",
                lambda: {"the dough": self.dough.read_text() if self.dough.exists() else ""},
                self._make_bread,
                seconds=10,
                fills=True,
                least=3,
                most=60,
                after=("dough",),
            ),
        ]

    def _make_dough(self, seconds: float) -> Made:
        self.done.append(("dough", seconds))
        self.dough.write_text(f"dough of {self.flour}")
        return Made((self.dough,), "kneaded")

    def _make_bread(self, seconds: float) -> Made:
        if self.fails:
            raise DraftlineError("The oven is cold; light it.")
        self.done.append(("bread", round(seconds)))
        self.bread.write_text(f"bread of {self.dough.read_text()}")
        return Made((self.bread,), "baked")

    def go(self, budget: float | None = None) -> list[str]:
        """The names of the steps that were done."""
        self.done = []
        record = Record(self.repository)
        walk.walk(plan(self.steps(), record, budget), record, budget)
        return [name for name, _ in self.done]

    def plan(self, budget: float | None = None) -> list[str]:
        steps = self.steps()
        return describe(steps, plan(steps, Record(self.repository), budget), budget)


@pytest.fixture
def kitchen(tmp_path: Path) -> Kitchen:
    return Kitchen(tmp_path)


def test_nothing_is_done_twice(kitchen):
    assert kitchen.go() == ["dough", "bread"]
    assert kitchen.go() == []
    assert kitchen.plan() == [
        "  dough      the dough: done, nothing has changed",
        "  bread      the bread: done, nothing has changed",
    ]


def test_what_depends_on_a_change_is_done_again(kitchen):
    kitchen.go()
    kitchen.flour = "rye"
    lines = kitchen.plan()
    assert lines[0].endswith("about 2 s (the flour changed)")
    assert lines[1].endswith("about 10 s (after dough)")
    assert kitchen.go() == ["dough", "bread"]
    assert kitchen.bread.read_text() == "bread of dough of rye"


def test_what_is_made_again_the_same_changes_nothing_that_is_made_of_it(kitchen):
    kitchen.go()
    kitchen.dough.unlink()
    assert kitchen.go() == ["dough"]


def test_what_somebody_changed_behind_our_back_is_made_again(kitchen):
    kitchen.go()
    kitchen.bread.write_text("eaten by somebody")
    assert kitchen.go() == ["bread"]


def test_after_a_failure_it_goes_on_where_it_was(kitchen):
    kitchen.fails = True
    with pytest.raises(DraftlineError, match="oven"):
        kitchen.go()
    assert kitchen.done == [("dough", 0.0)]
    kitchen.fails = False
    assert kitchen.go() == ["bread"]


def test_a_step_that_is_done_by_somebody_else_is_not_done(kitchen):
    kitchen.go()
    steps = [replace(step, already=lambda: True) for step in kitchen.steps()]
    assert all(not one.reasons for one in plan(steps, Record(kitchen.repository), None))


@pytest.mark.parametrize(
    "damage", [b"{", b"[]", b'{"version": 1}', b'{"version": 1, "steps": {"dough": 3}}', b"\xff"]
)
def test_a_damaged_record_costs_time_and_nothing_else(kitchen, capsys, damage):
    kitchen.go()
    path = store.record_path(kitchen.repository)
    path.write_bytes(damage)
    assert kitchen.go() == ["dough", "bread"]
    assert "is damaged" in " ".join(capsys.readouterr().err.split())
    assert json.loads(path.read_text())["repository"] == str(kitchen.repository)
    assert kitchen.go() == []


def test_a_record_of_another_version_is_no_record(kitchen, capsys):
    kitchen.go()
    path = store.record_path(kitchen.repository)
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": 0}))
    assert kitchen.go() == ["dough", "bread"]
    assert "damaged" not in capsys.readouterr().err


def test_a_step_fills_its_share_of_the_budget(kitchen):
    kitchen.go(budget=30)
    assert kitchen.done == [("dough", 0.0), ("bread", 30)]  # the dough took no time
    assert kitchen.go(budget=30) == []
    assert kitchen.go(budget=20) == []


def test_more_time_is_used(kitchen):
    kitchen.go()
    assert kitchen.plan(budget=30)[1].endswith("about 28 s (there is more time than last time)")
    assert kitchen.go(budget=30) == ["bread"]


def test_where_the_time_is_used_up_what_is_left_is_left_for_the_next_run(kitchen, capsys):
    assert kitchen.go(budget=1) == ["dough"]
    assert "bread: left out, for it needs 3 s" in " ".join(capsys.readouterr().err.split())
    assert kitchen.go(budget=20) == ["bread"]


def test_the_plan_says_where_the_budget_is_too_small(kitchen):
    assert kitchen.plan(budget=20)[-1] == "In all about 20 s, of the 20 s that you gave. These are estimates."
    assert "more than you gave" in kitchen.plan(budget=1)[-1]


def test_what_will_not_be_done_says_why(kitchen):
    steps = kitchen.steps()
    steps[1] = replace(steps[1], why_not="there is no oven")
    lines = describe(steps, plan(steps, Record(kitchen.repository), None), None)
    assert lines[1] == "  bread      not here: there is no oven"
    assert lines[2] == "In all about 2 s. These are estimates."


def step(name: str, seconds: float, most: float = 0.0) -> Step:
    def run(_seconds: float) -> Made:
        raise AssertionError

    return Step(name, name, dict, run, seconds, fills=most > 0, most=most)


def test_shares_are_in_proportion_up_to_what_each_can_use():
    steps = [step("fixed", 10), step("a", 10, most=1000), step("b", 30, most=1000), step("c", 10, most=15)]
    assert shares(steps, None) == {"fixed": 0, "a": 10, "b": 30, "c": 10}
    assert shares(steps, 60) == {"fixed": 0, "a": 10, "b": 30, "c": 10}
    assert shares(steps, 225) == {"fixed": 0, "a": 50, "b": 150, "c": 15}
    assert shares(steps, 5) == {"fixed": 0, "a": 0, "b": 0, "c": 0}


@given(
    st.lists(st.tuples(st.floats(1, 1e4), st.floats(1, 10)), max_size=5),
    st.floats(0, 1e5),
)
def test_the_shares_never_exceed_the_budget_nor_what_a_step_can_use(wants, budget):
    steps = [step(str(place), want, most=want * factor) for place, (want, factor) in enumerate(wants)]
    given_seconds = shares(steps, budget)
    assert sum(given_seconds.values()) <= budget * (1 + 1e-9) + 1e-9  # a budget may be next to nothing
    assert all(given_seconds[one.name] <= one.most * (1 + 1e-9) for one in steps)
    if sum(one.most for one in steps) > budget:
        assert sum(given_seconds.values()) == pytest.approx(budget)
