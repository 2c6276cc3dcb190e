"""Server-sent events, however their bytes come."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.event_stream import MOST_BYTES, BadEventError, EventStream


def read(*received):
    stream = EventStream()
    return [data for part in received for data in stream.feed(part)]


@given(
    events=st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), min_size=1)),
    line_end=st.sampled_from([b"\n", b"\r\n"]),
    cuts=st.lists(st.integers(0, 200)),
)
def test_events_are_the_same_however_they_are_cut(events, line_end, cuts):
    whole = b"".join(b"data: " + data.encode() + line_end * 2 for data in events)
    places = [0, *sorted(min(cut, len(whole)) for cut in cuts), len(whole)]
    assert read(*(whole[start:end] for start, end in itertools.pairwise(places))) == events


def test_an_event_of_several_lines_is_one():
    assert read(b"data: a\ndata:b\n\n") == ["a\nb"]


def test_comments_and_other_fields_are_passed_over():
    assert read(b": still there\n\nevent: text\nid: 7\ndata: a\n\n") == ["a"]


def test_an_event_that_was_broken_off_is_none():
    assert read(b"data: a\n\ndata: b\n") == ["a"]


@pytest.mark.parametrize(
    "received",
    [
        b"data: " + b"x" * (MOST_BYTES + 1),
        b"data: " + b"x" * (MOST_BYTES + 1) + b"\n\n",
        b"data: xxxxxxxxx\n" * (MOST_BYTES // 10),
        b"data: \xff\n\n",
    ],
    ids=["no line end", "a long line", "many lines", "no text"],
)
def test_what_no_server_would_send_is_refused(received):
    with pytest.raises(BadEventError):
        read(received)
