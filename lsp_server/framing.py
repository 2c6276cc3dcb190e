"""Messages off the wire. Whatever else arrives between them is skipped, so that one bad header, or a length
that counts characters for bytes, costs a message and not the session."""

from __future__ import annotations

import re
from typing import BinaryIO

# Searched for, not matched: it may follow what was left over from a message that was longer than it said.
_LENGTH = re.compile(rb"content-length:[ \t]*([0-9]{1,9})[ \t]*\r?\n$", re.IGNORECASE)


def read_message(stream: BinaryIO) -> bytes | None:
    """The next message's body; None at the end of the input, also in mid-message."""
    length = 0
    while line := stream.readline():
        if match := _LENGTH.search(line):
            length = int(match[1])
        elif length and not line.strip():
            body = stream.read(length)
            return body if len(body) == length else None
    return None
