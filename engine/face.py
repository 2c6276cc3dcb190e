"""What an engine looks like to those who ask it for text, wherever it runs. No tensors here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from engine.request import CancelToken, Cycle, SamplingParams

if TYPE_CHECKING:
    from engine.tokenizer import Tokenizer


class EngineFace(Protocol):
    """`engine.engine.Engine` in this process, or a stand-in for one in another (`engine.host.remote`).

    max_context: tokens of prompt and output together. notice: what the user should know about where it
    runs, or "". load_seconds: what loading took. reading_seconds: what a token of a prompt takes to read, as
    far as was measured then. displaced: how often the prompt of somebody else who uses
    the engine has taken the place of ours in its cache. The rest is as in `engine.load`.
    """

    name: str
    tokenizer: Tokenizer
    eos_ids: tuple[int, ...]
    max_context: int
    device: str
    notice: str
    load_seconds: float
    displaced: int

    @property
    def weights(self) -> str: ...
    @property
    def reading_seconds(self) -> float: ...

    def generate(
        self,
        prompt_ids: Sequence[int],
        params: SamplingParams,
        cancel: CancelToken | None = None,
        context_ids: Sequence[int] | None = None,
        begins_with: str = "",
    ) -> Iterator[Cycle]:
        """See `engine.engine.Engine.generate`."""
