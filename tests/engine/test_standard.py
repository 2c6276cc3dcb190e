"""Standard speculative decoding: its law is the oracle's, jointly over tokens; a wrong rule is caught."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.acceptance import walk
from engine.cost_model import StepTimes, best_gamma
from engine.request import Origin, Spent
from engine.sampling import Distribution, Row, Sampler
from engine.stages import Request, coupled
from engine.standard import Experience, SampledChain, residual
from engine.tree import ROOT, TokenTree

VOCAB = 4
DRAWS = 6_000
FREE = StepTimes((1, 64), (1.0, 1.0))
_rng = np.random.default_rng(1)
ORACLE = {
    path: _rng.normal(0, 1.5, VOCAB).astype(np.float32)
    for n in range(4)
    for path in itertools.product(range(VOCAB), repeat=n)
}
CHEAP = {path: (row + _rng.normal(0, 1.0, VOCAB)).astype(np.float32) for path, row in ORACLE.items()}


class Toy:
    """An approximation whose law after each path is written down."""

    origin: Origin = "draft"
    spent = None

    def __init__(self) -> None:
        self.text: list[int] = []

    def begin(self, request: Request) -> bool:
        self.text = []
        return True

    def logits(self, path):
        return CHEAP[tuple([*self.text, *path[1:]][-3:])]

    def advance(self, tokens) -> None:
        self.text += tokens


def first_three(sampler: Sampler, chain: SampledChain, rule) -> tuple[int, ...]:
    """Three tokens of a toy oracle, decoded cycle by cycle with the chain's guesses under ``rule``."""
    chain.begin(Request([0], [0], sampler))
    text: list[int] = []
    while len(text) < 3:
        tree = TokenTree(text[-1] if text else 0)
        chain.propose(tree, 2 - len(text), FREE)

        def decide(node: int, tree=tree, before=tuple(text)) -> tuple[int, bool]:
            path = [*before, *(tree.tokens[step] for step in tree.path(node)[1:])]
            return rule(tree, node, Row(ORACLE[tuple(path)]), 1 + len(path))

        accepted, tokens = walk(tree, range(len(tree)), decide)
        chain.advance(tree, accepted, tokens)
        text += tokens
    return tuple(text[:3])


def exact_law(sampler: Sampler) -> np.ndarray:
    """[vocab, vocab, vocab]: the joint law of three tokens drawn one after the other."""
    joint = np.zeros((VOCAB,) * 3)
    for path in itertools.product(range(VOCAB), repeat=3):
        joint[path] = np.prod([sampler.distribution(ORACLE[path[:n]]).probability(path[n]) for n in range(3)])
    return joint


def chi_square(settings: dict, make_rule) -> tuple[float, int]:
    """The statistic of DRAWS texts against the exact law, and its degrees of freedom."""
    counts = np.zeros((VOCAB,) * 3)
    for seed in range(DRAWS):
        sampler = Sampler(**settings, seed=seed)
        chain = SampledChain(Toy(), gamma=2, lenience=1.0)
        counts[first_three(sampler, chain, make_rule(sampler, chain))] += 1
    expected = exact_law(Sampler(**settings)) * DRAWS
    assert counts[expected == 0].sum() == 0
    pooled = (expected > 0) & (expected < 5)
    bins = [(counts[cell], expected[cell]) for cell in np.ndindex(counts.shape) if expected[cell] >= 5]
    if pooled.any():
        bins.append((counts[pooled].sum(), expected[pooled].sum()))
    return sum((seen - wanted) ** 2 / wanted for seen, wanted in bins), len(bins) - 1


def limit(degrees: int) -> float:
    """Above it one in some 30,000 draws of the right law (four deviations of the chi-square)."""
    return degrees + 4 * (2 * degrees) ** 0.5 + 4


FILTERS = [
    {"temperature": 1.0},
    {"temperature": 0.6},
    {"temperature": 1.0, "top_k": 2},
    {"temperature": 1.0, "top_p": 0.7},
]


@pytest.mark.parametrize("settings", FILTERS)
def test_the_law_of_three_tokens_is_the_oracles(settings):
    statistic, degrees = chi_square(settings, lambda sampler, chain: chain.rule)
    assert statistic < limit(degrees)


@pytest.mark.parametrize("settings", FILTERS[:2])
def test_the_oracles_own_draw_has_its_law_too_whatever_was_guessed(settings):
    statistic, degrees = chi_square(settings, lambda sampler, chain: coupled(sampler))
    assert statistic < limit(degrees)


def test_a_wrong_rule_fails_the_test_of_the_law():
    """Accepting by the ratio but replacing from p itself, not from what is left of it."""

    def make(sampler: Sampler, chain: SampledChain):
        def rule(tree, node, logits, position):
            token, accepted = chain.rule(tree, node, logits, position)
            return (token, True) if accepted else (sampler.choose(logits, position), False)

        return rule

    statistic, degrees = chi_square({"temperature": 1.0}, make)
    assert statistic > 2 * limit(degrees)


laws = st.lists(st.floats(0.01, 1.0), min_size=3, max_size=3).map(
    lambda weights: Distribution(np.arange(3), np.array(weights) / sum(weights))
)


@given(laws, laws)
def test_accepted_and_replaced_tokens_add_up_to_p(p, q):
    """Leviathan 2022, appendix A.1: q min(1, p/q) + (1 - beta) norm(max(0, p - q)) = p."""
    accepted = np.minimum(p.p, q.p)
    left = residual(p, q)
    replaced = np.zeros(3)
    replaced[left.ids] = (1 - accepted.sum()) * left.p
    assert accepted + replaced == pytest.approx(p.p, abs=1e-9)


def test_a_smaller_lenience_accepts_more():
    accepted = []
    for lenience in (1.0, 0.5, 0.1):
        count = 0
        for seed in range(600):
            sampler = Sampler(1.0, seed=seed)
            chain = SampledChain(Toy(), gamma=1, lenience=lenience)
            chain.begin(Request([0], [0], sampler))
            tree = TokenTree(0)
            chain.propose(tree, 1, FREE)
            count += chain.rule(tree, ROOT, Row(ORACLE[()]), 1)[1]
        accepted.append(count)
    assert accepted == sorted(accepted)
    assert accepted[-1] > accepted[0]


def test_gamma_grows_with_the_guesses_that_were_right_and_shrinks_with_those_that_were_not():
    """None: the one that pays by alpha and c, where a guess costs a tenth of an oracle's step."""

    def proposed(chain: SampledChain) -> int:
        tree = TokenTree(0)
        chain.propose(tree, 30, FREE)
        return len(tree) - 1

    sizes = []
    for right in (0, 25, 40):
        known = Experience(spent=Spent(1, 100, seconds=10.0))
        for _ in range(40):
            known.statistics.observe("guess", right > 0)
            right -= 1
        chain = SampledChain(Toy(), None, 1.0, known)
        chain.begin(Request([0], [0], Sampler(1.0)))
        sizes.append(proposed(chain))
        assert sizes[-1] == max(1, best_gamma(known.alpha, 0.1, 30))
    assert sizes[0] == 1  # it goes on trying
    assert sizes == sorted(set(sizes))


def test_an_accepted_guess_raises_alpha_and_a_refused_one_lowers_it():
    known = Experience()
    chain = SampledChain(Toy(), 2, 1.0, known)
    chain.begin(Request([0], [0], Sampler(1.0)))
    tree = TokenTree(0)
    chain.propose(tree, 2, FREE)
    before = known.alpha
    chain.advance(tree, [ROOT, 1, 2], [*tree.tokens[1:], 0])
    after = known.alpha
    chain.propose(tree := TokenTree(0), 2, FREE)
    chain.advance(tree, [ROOT], [0])
    assert before < after > known.alpha
    assert known.spent.rows == 4
    assert known.seconds > 0
