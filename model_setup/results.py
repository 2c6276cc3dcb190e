"""What a benchmark measured, the figures that follow from it, and both as JSON."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from engine.cost_model import improvement_factor
from engine.errors import DraftlineError
from engine.request import Origin
from engine.trace import Trace

FORMAT = 1
Phase = Literal["", "before", "after"]
Kind = Literal["repository", "HumanEval"]
STAGES: tuple[Origin, ...] = ("draft2", "draft", "oracle")


@dataclass(frozen=True)
class Setting:
    """sampling: how tokens are drawn. phase: before or after personalising; "" for plain decoding, which
    guesses nothing. name: the mode, or shape and stages of the guesses."""

    sampling: str
    phase: Phase
    name: str


@dataclass
class Outcome:
    """One setting on one prompt.

    promised: seconds that the cost model has for what was done. alone: seconds that it has for plain decoding
    of as many tokens as the guesses' chances promised. same: whether the text is plain decoding's. pieces:
    the text of each token with the stage that proposed it.
    """

    trace: Trace = field(default_factory=Trace)
    promised: float = 0.0
    alone: float = 0.0
    same: bool = True
    pieces: list[tuple[str, Origin]] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Tokens a second."""
        return self.trace.tokens / self.trace.seconds

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "trace": self.trace.to_json()}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Outcome:
        pieces = [(text, origin) for text, origin in stored["pieces"]]
        return cls(**{**stored, "trace": Trace.from_json(stored["trace"]), "pieces": pieces})


@dataclass(frozen=True)
class Measured:
    """One prompt with the outcome of each setting, in the order of the results' settings.

    read: tokens of the prompt. first_plain, first_guessing: seconds to the first token of a prompt that was
    not read yet, without guesses and with all stages. others: cores that other programs used meanwhile.
    above, below: the text round the gap.
    """

    name: str
    kind: Kind
    read: int
    first_plain: float
    first_guessing: float
    others: float
    above: str
    below: str
    outcomes: list[Outcome]

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "outcomes": [outcome.to_json() for outcome in self.outcomes]}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Measured:
        return cls(**{**stored, "outcomes": [Outcome.from_json(one) for one in stored["outcomes"]]})


@dataclass(frozen=True)
class Spread:
    """Minimum, median and maximum."""

    low: float
    middle: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(min(values), statistics.median(values), max(values))


class Figures:
    """What one setting did over all prompts of a kind, beside plain decoding of the same prompts."""

    def __init__(self, setting: Setting, outcomes: Sequence[Outcome], plain: Sequence[Outcome]) -> None:
        self.setting = setting
        self.outcomes = outcomes
        self._plain = plain
        self.trace = _sum(outcomes)
        self._plain_trace = _sum(plain)

    @property
    def rates(self) -> Spread:
        """Tokens a second by prompt."""
        return Spread.of([outcome.rate for outcome in self.outcomes])

    @property
    def rate(self) -> float:
        """All tokens over all seconds."""
        return self.trace.tokens / self.trace.seconds

    @property
    def ratio(self) -> float:
        """How many times plain decoding's rate."""
        return self.rate * self._plain_trace.seconds / self._plain_trace.tokens

    @property
    def ratios(self) -> list[float]:
        """The same prompt by prompt."""
        pairs = zip(self.outcomes, self._plain, strict=True)
        return [outcome.rate / plain.rate for outcome, plain in pairs]

    @property
    def predicted(self) -> float:
        """The ratio by the cost model: expected tokens and step times of the rows that were checked."""
        alone = sum(outcome.alone for outcome in self.outcomes)
        return alone / sum(outcome.promised for outcome in self.outcomes)

    @property
    def gamma(self) -> int:
        """Guesses checked in a cycle on average, rounded."""
        return round((self.trace.rows - self.trace.cycles) / self.trace.cycles)

    @property
    def origin(self) -> Origin:
        """The stage that guesses in standard decoding."""
        return "draft" if "draft" in self.trace.spent else "draft2"

    @property
    def theorem(self) -> float:
        """The improvement by a chain if more rows cost nothing (Leviathan et al. 2022, theorem 3.8)."""
        return improvement_factor(self.trace.alpha(), self.gamma, self.trace.c(self.origin))

    @property
    def bytes(self) -> dict[Origin, float]:
        """Bytes read a token by stage over plain decoding's (Spector & Ré 2023, table 1)."""
        plain = self._plain_trace.bytes_per_token("oracle")
        return {stage: self.trace.bytes_per_token(stage) / plain for stage in STAGES}

    @property
    def shares(self) -> dict[Origin, float]:
        """The shares of the tokens that each stage proposed (Spector & Ré 2023, figure 3)."""
        return {stage: self.trace.origins[stage] / max(1, self.trace.tokens) for stage in STAGES}

    @property
    def differing(self) -> int:
        """Texts that are not plain decoding's."""
        return sum(not outcome.same for outcome in self.outcomes)

    @property
    def seconds(self) -> float:
        """Of one completion on average, its prompt already read."""
        return self.trace.seconds / len(self.outcomes)

    def to_json(self) -> dict[str, Any]:
        return {
            **asdict(self.setting),
            "tokens_per_second": {**asdict(self.rates), "all": self.rate},
            "times_plain": self.ratio,
            "times_plain_by_prompt": self.ratios,
            "predicted_times_plain": self.predicted,
            "tokens_per_cycle": self.trace.tokens_per_cycle,
            "expected_tokens_per_cycle": self.trace.expected_per_cycle,
            "alpha": {stage: self.trace.alpha(stage) for stage in ("draft2", "draft")},
            "c": {stage: self.trace.c(stage) for stage in ("draft2", "draft")},
            "bytes_over_plain": self.bytes,
            "origin_shares": self.shares,
            "differing_texts": self.differing,
            "seconds_per_completion": self.seconds,
        }


@dataclass(frozen=True)
class Results:
    """facts: the machine, the versions and how it was measured, for people. step_times: by rows, seconds of
    the oracle's pass as the cost model has them. costs: what setting up took, part -> seconds."""

    facts: dict[str, Any]
    step_times: dict[int, float]
    settings: list[Setting]
    prompts: list[Measured]
    costs: dict[str, float] = field(default_factory=dict)

    @property
    def kinds(self) -> list[Kind]:
        found: tuple[Kind, ...] = ("repository", "HumanEval")
        return [kind for kind in found if any(prompt.kind == kind for prompt in self.prompts)]

    def of(self, kind: Kind) -> list[Measured]:
        return [prompt for prompt in self.prompts if prompt.kind == kind]

    def figures(self, kind: Kind, setting: Setting) -> Figures:
        at = self.settings.index(setting)
        plain = self.settings.index(Setting(setting.sampling, "", "plain"))
        prompts = self.of(kind)
        outcomes, alone = ([prompt.outcomes[place] for prompt in prompts] for place in (at, plain))
        return Figures(setting, outcomes, alone)

    @property
    def phases(self) -> list[Phase]:
        found: tuple[Phase, ...] = ("before", "after")
        return [phase for phase in found if any(setting.phase == phase for setting in self.settings)]

    @property
    def samplings(self) -> list[str]:
        return list(dict.fromkeys(setting.sampling for setting in self.settings))

    def usual(self, phase: Phase, sampling: str) -> Setting:
        """How the server decodes: a tree of all stages that there are in this phase."""
        found = [one for one in self.settings if (one.phase, one.sampling) == (phase, sampling)]
        return [one for one in found if one.name.startswith("tree")][-1]

    def saved(self, kind: Kind, sampling: str) -> float | None:
        """Seconds a completion that personalising saves on average; None where nothing was personalised."""
        if self.phases != ["before", "after"]:
            return None
        before, after = (self.figures(kind, self.usual(phase, sampling)) for phase in self.phases)
        return before.seconds - after.seconds

    def to_json(self) -> dict[str, Any]:
        figures = [
            {"kind": kind, **self.figures(kind, setting).to_json()}
            for kind in self.kinds
            for setting in self.settings
        ]
        return {
            "format": FORMAT,
            "facts": self.facts,
            "step_times": self.step_times,
            "settings": [asdict(setting) for setting in self.settings],
            "figures": figures,
            "costs": self.costs,
            "prompts": [prompt.to_json() for prompt in self.prompts],
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Results:
        """The results that `to_json` gave ``stored`` of; figures are worked out again."""
        return cls(
            stored["facts"],
            {int(rows): seconds for rows, seconds in stored["step_times"].items()},
            [Setting(**setting) for setting in stored["settings"]],
            [Measured.from_json(prompt) for prompt in stored["prompts"]],
            stored["costs"],
        )


def read_results(path: Path) -> Results:
    """The results in the file ``path``.

    Raises:
        DraftlineError: there are none, or another version of Draftline wrote them.
    """
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        if stored["format"] == FORMAT:
            return Results.from_json(stored)
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise DraftlineError(f"There are no results in {path} that can be read; run `model-setup benchmark`.")


def pays_after(cost: float, saved: float) -> int | None:
    """After how many completions, each ``saved`` seconds faster, a cost in seconds is paid; None: never."""
    return math.ceil(cost / saved) if saved > 0 else None


def _sum(outcomes: Sequence[Outcome]) -> Trace:
    total = Trace()
    for outcome in outcomes:
        total.merge(outcome.trace)
    return total
