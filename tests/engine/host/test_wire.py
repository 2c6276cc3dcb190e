"""Messages there and back; and whatever else comes in is refused, not believed and no crash."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.host import wire
from engine.host.wire import Malformed
from engine.request import MODES, SamplingParams

ids = st.lists(st.integers(0, 2**31 - 1), max_size=20)
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
sampling = st.builds(
    SamplingParams,
    max_tokens=st.integers(0, 500),
    temperature=st.floats(0, 5),
    top_p=st.floats(0.1, 1),
    seed=st.integers(0, 2**31),
    stop_ids=ids.map(tuple),
    mode=st.sampled_from(MODES),
    gamma=st.none() | st.integers(1, 9),
)
requests = st.builds(
    wire.Generate,
    request=st.integers(0, 2**50),
    prompt=ids,
    context=st.none() | ids,
    params=sampling,
    begins_with=words,
    ahead=st.booleans(),
    draft=st.none() | words,
    tables=st.lists(words, max_size=8),
)
to_host = (
    requests
    | st.builds(wire.Open, words, words, words, st.floats(0.1, 1e6))
    | st.builds(wire.Cancel, st.integers(0, 2**50))
    | st.sampled_from([wire.Ask(), wire.Stop()])
)
origins = st.lists(st.sampled_from(["oracle", "draft", "draft2"]), max_size=20)
finite = st.floats(allow_nan=False, allow_infinity=False)
to_client = (
    st.builds(wire.Emitted, st.integers(), ids, origins, st.integers(), finite)
    | st.builds(wire.Refused, st.none() | st.integers(), words, st.booleans())
    | st.builds(wire.Leaving, st.sampled_from(["idle", "alone", "stopped", "full"]))
    | st.builds(wire.Ended, st.integers(), st.booleans())
    | st.builds(wire.Loading, finite)
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | finite | words,
    lambda values: st.lists(values, max_size=4) | st.dictionaries(words, values, max_size=4),
)


@given(to_host)
def test_what_a_client_says_is_what_the_host_hears(message):
    assert wire.for_host(wire.pack(message)) == message


@given(to_client)
def test_what_the_host_says_is_what_a_client_hears(message):
    assert wire.for_client(wire.pack(message)) == message


@pytest.mark.parametrize("read", [wire.for_host, wire.for_client])
@given(packet=st.binary(max_size=200))
def test_garbage_is_malformed(read, packet):
    with pytest.raises(Malformed):
        read(packet)


@pytest.mark.parametrize("read", [wire.for_host, wire.for_client])
@given(kind=st.sampled_from(["Generate", "Open", "Cancel", "Emitted", "Opened", "Nothing"]), data=st.data())
def test_an_object_with_anything_in_it_is_a_message_or_malformed(read, kind, data):
    fields = data.draw(st.dictionaries(words, json_values, max_size=5))
    try:
        message = read(json.dumps({**fields, "type": kind}).encode())
    except Malformed:
        return
    assert type(message).__name__ == kind


@given(requests, st.data())
def test_a_field_of_another_type_makes_it_malformed(message, data):
    fields: dict[str, Any] = json.loads(wire.pack(message))
    name = data.draw(st.sampled_from(sorted(fields)))
    fields[name] = {"tables": 1, "prompt": [-1], "context": ["1"], "params": {"top_p": 7}}.get(name, [None])
    with pytest.raises(Malformed):
        wire.for_host(json.dumps(fields).encode())


@given(requests, st.data())
def test_a_packet_that_is_cut_short_is_malformed(message, data):
    packet = wire.pack(message)
    with pytest.raises(Malformed):
        wire.for_host(packet[: data.draw(st.integers(0, len(packet) - 1))])


def test_the_longest_prompt_there_is_fits():
    ids = [151_000] * 2048
    message = wire.Generate(1, ids, ids, SamplingParams(), "x" * 64, False, "/d" * 2000, ["/t" * 2000] * 8)
    assert len(wire.pack(message)) < wire.LONGEST


def test_what_is_meant_for_the_other_end_is_malformed():
    with pytest.raises(Malformed):
        wire.for_host(wire.pack(wire.Leaving("idle")))
    with pytest.raises(Malformed):
        wire.for_client(wire.pack(wire.Stop()))
