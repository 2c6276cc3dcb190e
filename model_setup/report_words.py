"""The report's sentences: what was measured, what it means, and what to mind."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from model_setup.benchmark_prompts import EVERY_LINES, MOST_LINES, PREFIX_TOKENS, SUFFIX_TOKENS
from model_setup.results import Kind, Phase, Results, pays_after

BUSY = 0.25  # cores that others used: from here on it is worth a warning
TOO_FAST = 1.15  # above the tokens a pass yields, a ratio is the machine's: a cycle takes a pass and more
FEW = 10  # prompts: below it is, too

PHASES: dict[Phase, str] = {
    "": "without guesses",
    "before": "before personalising",
    "after": "after personalising",
}

SPEED_TABLE = (
    "Tokens a second by prompt (minimum, median, maximum) and over all prompts together; that over plain "
    "decoding's; the same as the cost model predicted it; tokens that one pass of the oracle yields, and as "
    "many as the guesses' chances promised; texts that differ from plain decoding's. Standard speculative "
    "decoding draws its texts in its own way, so with sampling they differ by design; staged ones must not."
)
GUESSES_TABLE = (
    "Alpha: of the places with a checked guess of the stage, the share where it was right. c: the time of "
    "one of its guesses over that of an oracle's pass. Guesses: checked in one pass on average. Theorem "
    "3.8: what Leviathan et al. predict of a chain by alpha, c and the guesses, if checking more rows costs "
    "nothing. Bytes: read a token, over plain decoding's. Then the share of the tokens by who first "
    "proposed them."
)
STAGES_TABLE = (
    "Times plain decoding after personalising, the guesses as a chain or as a tree, by one stage alone or by "
    "both: the 2 × 2 of Spector & Ré, with each of the stages as the one."
)

WORDS = (
    ("oracle", "the model whose text is wanted; it checks all guesses of a cycle in one pass"),
    ("draft", "a smaller model that guesses for it"),
    ("draft2", "guesses that cost next to nothing: a trigram table and a lookup in the text at hand"),
    ("plain", "one token a pass, nothing guessed"),
    (
        "standard",
        "speculative decoding as Leviathan et al. published it: one chain of guesses, as long as pays",
    ),
    ("staged", "draft2 guesses for the draft, and both for the oracle, which checks a tree of guesses"),
    ("cycle", "one round of guessing and one pass of the oracle"),
    ("greedy", "always the likeliest token"),
    ("top-k 50", "drawn from the 50 likeliest at temperature 1, with the same noise in every setting"),
)


def setting_name(name: str) -> str:
    return f"staged {name}" if name.startswith(("tree", "chain")) else name


def times(value: float) -> str:
    return f"{value:.2f} ×"


def duration(seconds: float) -> str:
    """For people: ``3.5 ms``, ``350 ms``, ``12.3 s``, ``4 min 5 s``, ``1 h 20 min``."""
    if seconds < 0.01:
        return f"{1000 * seconds:.1f} ms"
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def guessers(results: Results, phase: Phase) -> str:
    if phase == "before":
        return "the table of code in general"
    own = [
        name
        for name, there in (("table", results.facts["table"]), ("draft", results.facts["draft"]))
        if there
    ]
    return f"this repository's {' and '.join(own)}"


def lede(results: Results) -> str:
    kind, phase = results.kinds[0], results.phases[-1]
    usual = results.figures(kind, results.usual(phase, "greedy"))
    plain = usual.rate / usual.ratio
    parts = [
        f"With {guessers(results, phase)} to guess, {results.facts['model']} writes {usual.rate:.1f} tokens "
        f"a second on this machine, {usual.ratio:.2f} times the {plain:.1f} of plain decoding."
    ]
    if phase == "after":
        before = results.figures(kind, results.usual("before", "greedy"))
        parts.append(f"With {guessers(results, 'before')} it was {before.ratio:.2f} times.")
    parts.append(exactness(results))
    return " ".join(parts)


def exactness(results: Results) -> str:
    """Whether guessing changed any text."""
    staged = [
        results.figures(kind, setting)
        for kind in results.kinds
        for setting in results.settings
        if setting.name.startswith(("tree", "chain"))
    ]
    texts = sum(len(figures.outcomes) for figures in staged)
    differing = sum(figures.differing for figures in staged)
    if differing:
        return (
            f"{differing} of {counted(texts, 'staged text')} differ from the plain ones: please report that."
        )
    return f"All {counted(texts, 'staged text')} were, token for token, the plain ones."


def cautions(results: Results) -> str:
    """What makes these figures less than certain; "" if nothing does."""
    parts = []
    others = statistics.fmean(prompt.others for prompt in results.prompts)
    if others >= BUSY:
        parts.append(
            f"Other programs used {others:.1f} of the {results.facts['cores']} cores while this was "
            "measured: tokens a second are too low, and ratios rough, though all settings took turns."
        )
    every = [results.figures(kind, setting) for kind in results.kinds for setting in results.settings]
    if any(figures.ratio > TOO_FAST * figures.trace.tokens_per_cycle for figures in every):
        parts.append(
            "Some ratios are above the tokens that a pass yields, which cannot be: the machine was busier "
            "while plain decoding ran."
        )
    for kind in results.kinds:
        done = len(results.of(kind))
        if done < FEW:
            where = counted(done, "cursor") if kind == "repository" else f"{done} of HumanEval's problems"
            parts.append(f"Only {where} could be measured in the time: figures of so few vary by chance.")
    return " ".join(parts)


def title(results: Results, kind: Kind) -> str:
    return f"At cursors of {results.facts['repository']}" if kind == "repository" else "On HumanEval"


def opening(results: Results, kind: Kind) -> str:
    prompts = results.of(kind)
    read = statistics.median(prompt.read for prompt in prompts)
    what = (
        "at a cursor in a file that nothing was learned from"
        if kind == "repository"
        else "from HumanEval, to which this repository has nothing to say"
    )
    return (
        f"{counted(len(prompts), 'prompt')}, each {what}, of {read:,.0f} tokens (median); up to "
        f"{results.facts['tokens']} tokens were written at each."
    )


def first_token(results: Results) -> str:
    prompts = results.of(results.kinds[0])
    plain, guessing = (
        [getattr(prompt, name) for prompt in prompts] for name in ("first_plain", "first_guessing")
    )
    read = statistics.median(prompt.read for prompt in prompts)
    alone = results.figures(results.kinds[0], results.settings[0])
    return (
        f"A prompt of {read:,.0f} tokens (median) that the model had not seen took {_spread(plain)} to the "
        f"first token in plain decoding, and {_spread(guessing)} with all stages that guess. While one "
        "types, nearly all of the prompt has been read for the keystroke before; what is left is about one "
        f"pass, {duration(1 / alone.rate)}."
    )


def _spread(seconds: Sequence[float]) -> str:
    middle = duration(statistics.median(seconds))
    if len(seconds) == 1:
        return middle
    return f"{middle} ({duration(min(seconds))} to {duration(max(seconds))})"


def paid(results: Results) -> str:
    """After how many completions setting up has won back what it took."""
    kind = results.kinds[0]
    saved = results.saved(kind, "greedy")
    if saved is None:
        return "Nothing was made for this repository yet, so there is nothing to win back: run `model-setup`."
    before, after = (results.figures(kind, results.usual(phase, "greedy")) for phase in results.phases)
    took = (
        f"A completion of {after.trace.tokens / len(after.outcomes):.0f} tokens took "
        f"{duration(before.seconds)} on average before and {duration(after.seconds)} after"
    )
    cost = sum(results.costs.values())
    if not results.costs:
        return f"{took}; what setting up took was not recorded."
    enough = pays_after(cost, saved)
    if enough is None:
        return f"{took}: on these prompts setting up, which took {duration(cost)}, saves nothing."
    return (
        f"{took}: setting up, which took {duration(cost)}, has paid for itself after "
        f"{counted(enough, 'completion')}."
    )


def machine(results: Results) -> list[tuple[str, str]]:
    facts = results.facts
    passes = ", ".join(f"{rows} in {duration(s)}" for rows, s in results.step_times.items())
    return [
        (
            "Measured",
            f"{facts['date'].replace('T', ' ').replace('+00:00', ' UTC')}, in {duration(facts['seconds'])}",
        ),
        ("Machine", f"{facts['processor']}, {facts['cores']} cores, {counted(facts['threads'], 'thread')}"),
        ("System", f"{facts['system']}, Python {facts['python']}, PyTorch {facts['torch']}"),
        ("Draftline", facts["draftline"]),
        ("Model", f"{facts['model']}, {facts['weights']} weights, on {facts['device']}"),
        ("Draft", facts["draft"] or "none"),
        ("Table", facts["table"] or "of code in general"),
        ("A pass by rows", passes),
    ]


def method(results: Results) -> list[str]:
    facts = results.facts
    lines = [
        f"A tenth of the repository's files, by a hash of their paths, is never learned from: here "
        f"{counted(facts['held_out_files'], 'file')} with {counted(facts['cursors'], 'possible cursor')}, "
        f"one in every {_nth(EVERY_LINES)} line with code. They were taken in the order of a hash. At each, "
        f"the rest of the paragraph, at most {MOST_LINES} lines, was taken out, and up to half of its first "
        "line counts as typed.",
        f"The prompts have the language server's form, with up to {PREFIX_TOKENS} tokens above the cursor "
        f"and {SUFFIX_TOKENS} below it, but no other file is shown, and the cursor stands where a token "
        "ends.",
        "Every prompt was decoded with every setting or not at all. The settings took turns, each prompt "
        "beginning with another, so that whatever else the machine did slowed all of them alike. The prompt "
        "was read before, so decoding alone is timed. Each setting has stages of its own, which learn from "
        "prompt to prompt.",
        "The model may have read this repository when it was trained, and the table of code in general is "
        "counted from the packages installed beside Draftline: where this repository is one of them, "
        "“before” has seen it.",
    ]  # fmt: skip
    if facts["passed_over"]:
        lines.insert(
            1,
            f"{counted(facts['passed_over'], 'place')} where the model had less than {facts['least_tokens']} "
            "tokens to say were passed over: their rate would be the clock's.",
        )
    return lines


def _nth(number: int) -> str:
    return {8: "eighth"}.get(number, f"{number}th")


def example(results: Results, kind: Kind) -> tuple[str, int]:
    """What is shown token by token, and the prompt's place among those of its kind."""
    figures = results.figures(kind, results.usual(results.phases[-1], "greedy"))
    ratios = figures.ratios
    index = sorted(range(len(ratios)), key=ratios.__getitem__)[(len(ratios) - 1) // 2]
    prompt, outcome = results.of(kind)[index], figures.outcomes[index]
    text = (
        f"{prompt.name}, greedy, {setting_name(figures.setting.name)}: the prompt in the middle by its gain, "
        f"{times(ratios[index])} plain decoding, {counted(outcome.trace.tokens, 'token')} in "
        f"{counted(outcome.trace.cycles, 'cycle')}. Grey is the text round the gap."
    )
    return text, index
