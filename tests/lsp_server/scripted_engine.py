"""An engine whose text is given beforehand: the same face as ``engine.Engine``, no model."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from engine.request import CancelToken, Cycle, SamplingParams

SPECIAL = {
    "<|endoftext|>": 256,
    "<|fim_prefix|>": 257,
    "<|fim_suffix|>": 258,
    "<|fim_middle|>": 259,
    "<|fim_pad|>": 260,
}


class ByteTokenizer:
    """One token for each byte, so that a character may take several."""

    opening = ""

    def __init__(self, special: dict[str, int] = SPECIAL) -> None:
        self.special = special
        self.vocab_size = 512

    def encode(self, text: str) -> list[int]:
        return list(text.encode("utf-8"))

    def decode(self, ids: Sequence[int]) -> str:
        return bytes(i for i in ids if i < 256).decode("utf-8", "replace")


class ScriptedEngine:
    """``script`` takes the prefix and the suffix of a prompt and gives what the model writes for it."""

    name, device, weights, load_seconds, notice = "scripted", "cpu", "fp32", 0.5, ""
    reading_seconds = 0.0025
    eos_ids = (256,)
    displaced = 0

    def __init__(
        self,
        script: Callable[[str, str], str],
        *,
        max_context: int = 4096,
        tokens_per_cycle: int = 3,
        delay: float = 0.0,
        special: dict[str, int] = SPECIAL,
    ) -> None:
        self.tokenizer = ByteTokenizer(special)
        self.max_context = max_context
        self.prompts: list[list[int]] = []
        self.asked: list[SamplingParams] = []  # for each prompt
        self.emitted = 0
        self._script = script
        self._tokens_per_cycle = tokens_per_cycle
        self._delay = delay

    def generate(
        self,
        prompt_ids: Sequence[int],
        params: SamplingParams,
        cancel: CancelToken | None = None,
        context_ids: Sequence[int] | None = None,
        begins_with: str = "",
    ) -> Iterator[Cycle]:
        prompt = list(prompt_ids)
        self.prompts.append(prompt)
        self.asked.append(params)
        prefix, suffix = self.parts(prompt)
        written = begins_with + self._script(prefix + begins_with, suffix)
        answer = [*written.encode("utf-8"), 256][: params.max_tokens]
        step = 1 if params.mode == "plain" else self._tokens_per_cycle
        for start in range(0, len(answer), step):
            if cancel and cancel.cancelled:
                return
            time.sleep(self._delay)
            tokens = answer[start : start + step]
            ended = any(token in params.stop_ids for token in tokens)
            tokens = [token for token in tokens if token not in params.stop_ids]
            self.emitted += len(tokens)
            yield Cycle(tokens, ["draft2" if i else "oracle" for i in range(len(tokens))], step, 0.001)
            if ended:
                return

    def parts(self, prompt: list[int]) -> tuple[str, str]:
        """The text before the cursor and the one behind it; the middle may have begun."""
        if 258 not in prompt:
            return self.tokenizer.decode(prompt), ""
        suffix, middle = prompt.index(258), prompt.index(259)
        before = [*prompt[:suffix], *prompt[middle:]]
        return self.tokenizer.decode(before), self.tokenizer.decode(prompt[suffix:middle])
