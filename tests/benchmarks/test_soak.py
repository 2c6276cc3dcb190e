from __future__ import annotations

import random

from lsp_server.documents import Cursor, Document
from tests.benchmarks.restless import Text
from tests.benchmarks.soak import SETTLED, growth, untrue, waited


def test_an_editors_text_and_a_servers_stay_in_step_through_any_edits():
    rng = random.Random(7)
    editors, servers = Text("def f():\r\n    pass\n"), Document("def f():\r\n    pass\n")
    for _ in range(2000):
        start = editors.place(rng)
        end = editors.nearest(start + rng.choice([0, 0, 1, 5]))
        change = editors.edit(start, end, rng.choice(["x", "\n", "\r", "\r\n", "é", "😀", "\u2028", "\f"]))
        first, last = change.range.start, change.range.end
        servers.edit((first.line, first.character), (last.line, last.character), change.text)
        assert servers.text == editors.whole


def test_places_count_utf_16_and_the_protocols_line_ends_only():
    text = Text("a\u2028😀b\r\nc\rd")
    position = text.position(text.whole.index("b"))
    assert (position.line, position.character) == (0, 4)
    assert text.position(text.whole.index("d")).line == 2
    assert text.nearest(text.whole.index("\n")) == text.whole.index("c")
    assert Document(text.whole).cursor(0, 4) == Cursor(0, 3)


def test_an_error_is_true_only_just_after_the_host_was_ended():
    told = [(100.0, "It has ended 4 times within a minute."), (100.0, "The machine is on fire.")]
    assert untrue(told, [90.0]) == ["The machine is on fire."]
    assert untrue(told, [30.0]) == untrue(told, [101.0]) == [message for _, message in told]


def test_the_wait_after_the_last_end_of_a_host_may_not_be_over():
    assert waited([5.0, 9.0, 30.0], [6.0, 10.0, 40.0], 52.0) == [
        (3.0, ""),
        (20.0, ""),
        (12.0, " and none came"),
    ]


def test_growth_counts_from_when_a_process_has_settled():
    flat = [(done, 50.0 if done < SETTLED else 80.0) for done in range(0, 400, 2)]
    assert growth(flat) == 0.0
    assert growth([(done, float(done)) for done in range(1000, 1400)]) == 295.0
    assert growth(flat[: SETTLED // 2]) is None
