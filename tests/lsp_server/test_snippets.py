"""Blocks of other places, ranked by what they have in common with the text round the cursor."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.documents import Cursor, split_lines
from lsp_server.snippets import (
    MAX_LINES,
    Block,
    Candidate,
    block_at,
    blocks_of,
    choose,
    nearby,
    similarities,
    words_of,
)

ORDERS = """\
import math

def order_total(order, discount):
    total = sum(item.price for item in order.items)
    return total - discount


def order_weight(order):
    return math.fsum(item.weight for item in order.items)


class Customer:
    def __init__(self, name):
        self.name = name

    def greet(self):
        return self.name
"""


def texts(text):
    return ["".join(block.lines) for _, block in blocks_of(split_lines(text))]


def candidates(text, path="orders.py", **options):
    return [Candidate(path, first, block, **options) for first, block in blocks_of(split_lines(text))]


def near(text):
    lines = split_lines(text)
    return nearby(lines, Cursor(len(lines) - 1, len(lines[-1])))


def chosen(text, pool, characters=2000, current=()):
    return [c.block.lines[0].strip() for c in choose(near(text), pool, characters, current).candidates]


def test_a_block_holds_a_definition_with_all_that_is_indented_below_it():
    found = texts(ORDERS)
    assert found[-1].startswith("class Customer:")
    assert found[-1].endswith("return self.name\n")
    assert any(block.startswith("def order_weight") and "Customer" not in block for block in found)


def test_a_long_definition_is_cut_and_a_long_line_left_out():
    body = "".join(f"    step_{n}()\n" for n in range(40))
    assert len(texts(f"def run():\n{body}")) == 3
    assert texts("a = 1\n" + "x" * 5000 + "\nb = 2\n") == ["a = 1\n", "b = 2\n"]


@given(st.lists(st.sampled_from(["\n", "a = 1\n", "    b(c)\n", "\t\n", "x" * 500 + "\n"]), max_size=80))
def test_blocks_are_runs_of_a_text_s_own_lines_in_order(lines):
    end = 0
    for first, block in blocks_of(lines):
        assert first >= end
        end = first + len(block.lines)
        assert tuple(lines[first:end]) == block.lines
        assert len(block.lines) <= MAX_LINES
        assert block.lines[0].strip()
        assert block.lines[-1].strip()
        assert block.words == words_of(block.lines)


def test_only_the_blocks_that_an_edit_touched_are_read_again():
    before = {block.lines: block for _, block in blocks_of(split_lines(ORDERS))}
    after = blocks_of(split_lines("# new\n\n\n" + ORDERS.replace("greet", "wave")), before)
    kept = [block for _, block in after if any(block is old for old in before.values())]
    assert any("def order_total(order, discount):\n" in block.lines for block in kept)
    assert not any("    def wave(self):\n" in block.lines for block in kept)


def test_the_block_at_a_line_is_found_without_the_rest_of_the_text():
    lines = [*["x = 1\n", "\n"] * 8000, *split_lines(ORDERS)]
    first, block = block_at(lines, 16_000 + 8)
    assert "def order_weight(order):\n" in block.lines
    assert tuple(lines[first : first + len(block.lines)]) == block.lines
    assert block_at(["\n", "\n"], 0) is None


def test_identifiers_count_and_keywords_do_not():
    assert words_of(["def order_total(self, x): return größe\n"]) == {"order_total", "größe"}


def test_alike_is_what_shares_rare_identifiers():
    blocks = [Block((), frozenset(words.split())) for words in ("a b q", "a b r", "a b s", "a c t")]
    wanted = frozenset({"a", "c"})
    scores = similarities(wanted, blocks)
    assert scores[3] == max(scores)
    assert scores[0] < scores[3] / 2
    assert similarities(wanted, [Block((), wanted)]) == pytest.approx([1])
    assert similarities(frozenset(), blocks) == [0, 0, 0, 0]
    assert similarities(wanted, [Block((), frozenset())]) == [0]


def test_what_stands_near_is_a_few_lines_of_any_text():
    lines = ["far_away\n", *["\n"] * 100, "x" * 2_000_000 + " just_left "]
    found = near("".join(lines))
    assert "just_left" in found.words
    assert "far_away" not in found.words


def test_the_most_similar_stands_last():
    pool = candidates(ORDERS)
    found = chosen("total = order_total(order, discount)\nfor item in order.items:\n    item.price", pool)
    assert found[-1] == "def order_total(order, discount):"
    assert "class Customer:" not in found


def test_what_has_nothing_in_common_is_left_out():
    assert chosen("matrix = rotate(angle)", candidates(ORDERS)) == []
    assert chosen("", candidates(ORDERS)) == []


def test_what_was_edited_lately_or_is_imported_comes_first_among_equals():
    block = blocks_of(["price = order.total + order.shipping\n"])[0][1]
    other = blocks_of(["shipping = order.total + order.amount\n"])[0][1]
    pool = [Candidate("a.py", 0, block), Candidate("b.py", 0, other, likelier=True)]
    found = choose(near("order.total"), pool, 2000).candidates
    assert [c.path for c in found] == ["a.py", "b.py"]


def test_copies_are_dropped():
    again = ORDERS.replace("order_total", "order_sum")
    pool = [*candidates(ORDERS), *candidates(ORDERS, path="copy.py"), *candidates(again, path="near_copy.py")]
    found = choose(near("order_weight(order)\nmath.fsum(item.weight for item in order.items)\n"), pool, 9000)
    lines = [c.block.lines for c in found.candidates]
    assert len(lines) == len(set(lines))


def test_what_stands_round_the_cursor_already_is_dropped():
    text = "def order_weight(order):\n    return math.fsum(item.weight for item in order.items)\n"
    assert "def order_weight(order):" not in chosen(text, candidates(ORDERS))


def test_only_what_fits_is_chosen():
    text = "order_total(order, discount) order_weight item.price item.weight order.items"
    pool = candidates(ORDERS)
    for characters in range(0, 400, 40):
        found = choose(near(text), pool, characters).candidates
        assert sum(len("".join(c.block.lines)) for c in found) <= characters


def test_the_current_choice_stands_until_another_is_clearly_better():
    one = candidates(
        "total = order.items + order.price + order.weight + order.shipping + customer\n", "one.py"
    )
    two = candidates(
        "total = order.items + order.price + order.weight + order.shipping + supplier\n", "two.py"
    )
    both = [*one, *two]
    text = "total = order.items * order.price * order.weight * order.shipping * supplier"
    assert [c.path for c in choose(near(text), both, 90).candidates] == ["two.py"]
    assert [c.path for c in choose(near(text), both, 90, current=one).candidates] == ["one.py"]
    clearly = "supplier * invoice * customs_number + order.weight"
    better = candidates("supplier, invoice, customs_number = total\n", "better.py")
    assert [c.path for c in choose(near(clearly), [*both, *better], 90, one).candidates] == ["better.py"]
    assert [c.path for c in choose(near(text), two, 90, current=one).candidates] == ["two.py"]
