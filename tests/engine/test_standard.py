"""Standard speculative decoding: what is accepted and replaced (for the law of whole texts see test_laws)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cost_model import StepTimes, best_gamma
from engine.request import Origin, Spent
from engine.sampling import Distribution, Row, Sampler
from engine.stages import Request
from engine.standard import Experience, SampledChain, residual
from engine.tree import ROOT, TokenTree

VOCAB = 4
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
