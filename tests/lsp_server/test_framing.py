"""The next message is found whatever the client's headers look like, and whatever stands between messages."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.framing import read_message


def bodies(data):
    stream, found = io.BytesIO(data), []
    while (body := read_message(stream)) is not None:
        found.append(body)
    return found


@pytest.mark.parametrize(
    "header",
    [
        b"Content-Length: 5\r\n\r\n",
        b"content-length: 5\r\n\r\n",
        b"CONTENT-LENGTH:5\r\n\r\n",
        b"Content-Length: 5\n\n",
        b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: 5\r\n\r\n",
        b"Content-Length: 5\r\nContent-Type: application/vscode-jsonrpc\r\n\r\n",
        b"Content-Length: 7\r\nContent-Length: 5\r\n\r\n",
    ],
)
def test_headers_in_any_order_and_case_are_read(header):
    assert bodies(header + b"{\r\n1}" + header + b"12345") == [b"{\r\n1}", b"12345"]


@pytest.mark.parametrize(
    "rubbish",
    [
        b"Content-Length: abc\r\n\r\n{}",
        b"Content-Length: -5\r\n\r\n{}",
        b"Content-Length: 0\r\n\r\n",
        b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n{}",
        b"hello\r\n",
        b"hello",
    ],
)
def test_a_header_that_cannot_be_read_costs_its_message_only(rubbish):
    message = b"Content-Length: 2\r\n\r\n{}"
    assert bodies(message + rubbish + message) == [b"{}", b"{}"]


@given(st.binary(max_size=40).filter(lambda data: not re.search(rb"length", data, re.IGNORECASE)))
def test_whatever_stands_before_a_message_the_message_is_found(rubbish):
    assert bodies(rubbish + b"Content-Length: 2\r\n\r\n{}") == [b"{}"]


@pytest.mark.parametrize(
    "end", [b"", b"Content-Len", b"Content-Length: 9\r\n", b"Content-Length: 9\r\n\r\n{}"]
)
def test_half_a_message_is_the_end(end):
    assert bodies(b"Content-Length: 2\r\n\r\n{}" + end) == [b"{}"]
