"""Server-sent events, of which only the data matters (HTML standard, section 9.2.6)."""

from __future__ import annotations

MOST_BYTES = 65_536  # of an event; a token takes some hundred


class BadEventError(Exception):
    """What came is no stream of events."""


class EventStream:
    """Puts the events together from the bytes that come, however they are cut."""

    def __init__(self) -> None:
        self._begun = b""  # of a line
        self._data: list[str] = []
        self._size = 0

    def feed(self, received: bytes) -> list[str]:
        """The data of the events that ``received`` completes.

        Raises:
            BadEventError: an event is longer than any should be, or not UTF-8.
        """
        *lines, self._begun = (self._begun + received).replace(b"\r\n", b"\n").split(b"\n")
        if len(self._begun) > MOST_BYTES:
            raise BadEventError
        return [event for line in lines if (event := self._read(line)) is not None]

    def _read(self, line: bytes) -> str | None:
        line = line.removesuffix(b"\r")  # its line feed came with the next bytes
        if not line:
            data, self._data, self._size = self._data, [], 0
            return "\n".join(data) if data else None
        self._size += len(line)
        if self._size > MOST_BYTES:
            raise BadEventError
        name, _, value = line.partition(b":")
        if name == b"data":
            try:
                self._data.append(value.removeprefix(b" ").decode("utf-8"))
            except UnicodeDecodeError as error:
                raise BadEventError from error
        return None
