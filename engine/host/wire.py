"""What host and clients say to each other: JSON, one message a packet, checked field by field.

A connection serves one engine. The client says `Open`, is told of `Loading`, and has `Opened` or `Refused`
in the end; then it may `Generate`, one request after the other, each answered by any number of `Emitted` and
one `Ended` or `Refused`; `Elsewhere` may come at any time. `Ask` and `Stop` may stand alone. `Leaving` is the
last that a client hears.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from engine.errors import DraftlineError
from engine.request import Cycle, Origin, SamplingParams

LONGEST = 1 << 20  # bytes of a message: some ten times the longest prompt
Number = Annotated[int, Meta(ge=0, lt=1 << 53)]
Token = Annotated[int, Meta(ge=0, lt=1 << 31)]
Text = Annotated[str, Meta(max_length=32768)]
Reason = Literal["idle", "alone", "stopped", "full"]
M = TypeVar("M")


class Malformed(Exception):
    """A packet that is no message."""


class Open(Struct, frozen=True, tag=True):
    """Load a model, as `engine.load`. idle_seconds: without a request, after which it may be unloaded.

    threads: of the processor, None for one on each core; the host goes by the last to ask."""

    oracle: Text
    device: Text
    weights: Text
    idle_seconds: Annotated[float, Meta(gt=0)]
    threads: Annotated[int, Meta(ge=1, le=1024)] | None = None


class Generate(Struct, frozen=True, tag=True):
    """As `Engine.generate`, with the guesses of `Engine.guess_with`. ahead: as `CancelToken`'s."""

    request: Number
    prompt: list[Token]
    context: list[Token] | None
    params: SamplingParams
    begins_with: Text
    ahead: bool
    draft: Text | None
    tables: Annotated[list[Text], Meta(max_length=8)]


class Cancel(Struct, frozen=True, tag=True):
    request: Number


class Ask(Struct, frozen=True, tag=True):
    """How is the host? Answered by `Standing`."""


class Stop(Struct, frozen=True, tag=True):
    """The host shall leave."""


class Loading(Struct, frozen=True, tag=True):
    fraction: float


class Opened(Struct, frozen=True, tag=True):
    """The model is ready. tokenizer: the path of its ``tokenizer.json``; the rest as of an Engine."""

    name: str
    tokenizer: str
    fingerprint: str
    eos_ids: list[int]
    max_context: int
    device: str
    weights: str
    notice: str
    load_seconds: float
    reading_seconds: float


class Emitted(Struct, frozen=True, tag=True):
    """A cycle of a request."""

    request: int
    tokens: list[int]
    origins: list[Origin]
    rows: int
    seconds: float

    @property
    def cycle(self) -> Cycle:
        return Cycle(self.tokens, self.origins, self.rows, self.seconds)


class Ended(Struct, frozen=True, tag=True):
    """The request's end. whole: the model wrote to the end, else it was cancelled, here or there."""

    request: int
    whole: bool


class Refused(Struct, frozen=True, tag=True):
    """A sentence for the user. request: None if that was an `Open`. memory: there was too little of it."""

    request: int | None
    message: str
    memory: bool = False


class Elsewhere(Struct, frozen=True, tag=True):
    """Another client's prompt takes the place of this one's last in the engine's cache."""


class Leaving(Struct, frozen=True, tag=True):
    """The connection ends with this. reason: the model was idle, the host without clients, someone stopped
    it, or too many clients are connected."""

    reason: Reason


class Loaded(Struct, frozen=True):
    """A model in memory. idle_seconds: since the last request."""

    name: str
    device: str
    weights: str
    clients: int
    idle_seconds: float


class Standing(Struct, frozen=True, tag=True):
    """The host. memory: bytes. The figures are of the last hour: requests, their tokens, how many of these a
    stage below the oracle had proposed, and the seconds that decoding took."""

    version: str
    process: int
    up_seconds: float
    clients: int
    memory: int
    models: list[Loaded]
    requests: int
    tokens: int
    accepted: int
    seconds: float


ToHost = Open | Generate | Cancel | Ask | Stop
ToClient = Loading | Opened | Emitted | Ended | Refused | Elsewhere | Leaving | Standing
_to_host: msgspec.json.Decoder[ToHost] = msgspec.json.Decoder(ToHost)
_to_client: msgspec.json.Decoder[ToClient] = msgspec.json.Decoder(ToClient)
_encoder = msgspec.json.Encoder()


def pack(message: ToHost | ToClient) -> bytes:
    return _encoder.encode(message)


def for_host(packet: bytes) -> ToHost:
    """Raises Malformed."""
    return _read(_to_host, packet)


def for_client(packet: bytes) -> ToClient:
    """Raises Malformed."""
    return _read(_to_client, packet)


def _read(decoder: msgspec.json.Decoder[M], packet: bytes) -> M:
    try:
        return decoder.decode(packet)
    except (msgspec.MsgspecError, DraftlineError, UnicodeError, RecursionError) as error:
        raise Malformed(f"{type(error).__name__}") from error
