"""Modes of decoding, taking turns on the same prompts: what `model-setup` and the ablation measure with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from engine.engine import Engine
from engine.request import Origin, SamplingParams
from model_setup.benchmark_prompts import Prompt
from model_setup.results import Outcome, Setting


def modes(has_draft: bool) -> dict[str, SamplingParams]:
    """Name -> how to decode; plain first, the server's own way last."""
    standard = SamplingParams(mode="standard", gamma=None)
    chosen = {"plain": SamplingParams(mode="plain"), "standard, trigram": standard}
    if has_draft:
        chosen["standard, draft"] = replace(standard, approximation="draft")
    for guessers in ("draft2", "draft", "all") if has_draft else ("draft2",):
        for shape in ("chain", "tree"):
            name = "draft + draft2" if guessers == "all" else guessers
            chosen[f"{shape}, {name}"] = SamplingParams(guessers=guessers, shape=shape)
    return chosen


class Contest:
    """Settings that decode the same prompts. Each has its own engine, which learns from prompt to prompt."""

    def __init__(self, settings: Mapping[Setting, tuple[Engine, SamplingParams]]) -> None:
        """settings: for each sampling the plain one first. All engines share one memory."""
        self._settings = settings

    @property
    def settings(self) -> list[Setting]:
        return list(self._settings)

    def decode(self, prompt: Prompt, first: int) -> list[Outcome]:
        """The outcomes in the settings' order; they take turns from the setting number ``first`` on."""
        turns = list(self._settings.items())
        start = first % len(turns)
        texts, outcomes = {}, {}
        for setting, (engine, params) in turns[start:] + turns[:start]:
            texts[setting], outcomes[setting] = decode(engine, prompt, params)
        for setting, outcome in outcomes.items():
            outcome.same = texts[setting] == texts[Setting(setting.sampling, "", "plain")]
        return [outcomes[setting] for setting in self._settings]


def decode(engine: Engine, prompt: Prompt, params: SamplingParams) -> tuple[list[int], Outcome]:
    """The new tokens and what they took; reading the prompt is not timed."""
    outcome = Outcome()
    tokens: list[int] = []
    origins: list[Origin] = []
    for cycle in engine.generate(prompt.ids, params, context_ids=prompt.context):
        times = engine.step_times.behind(len(prompt.ids) + len(tokens))
        below = sum(spent.seconds for stage, spent in cycle.spent.items() if stage != "oracle")
        outcome.promised += times(cycle.rows) + below
        outcome.alone += times(1) * cycle.expected
        tokens += cycle.tokens
        origins += cycle.origins
        outcome.trace.add(cycle)
    outcome.pieces = pieces(engine, tokens, origins)
    return tokens, outcome


def pieces(engine: Engine, tokens: Sequence[int], origins: Sequence[Origin]) -> list[tuple[str, Origin]]:
    """The text of each token with its origin; of a character in several tokens the last one has it all."""
    parts: list[tuple[str, Origin]] = []
    written = ""
    for count, origin in enumerate(origins, 1):
        text = engine.tokenizer.decode(tokens[:count])
        if text.endswith("\N{REPLACEMENT CHARACTER}") and count < len(tokens):
            parts.append(("", origin))
        else:
            parts.append((text[len(written) :], origin))
            written = text
    return parts
