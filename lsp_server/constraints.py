"""How a server is told how a text has to begin, in ways of its own: the API itself knows none.

Who serves a model is told with its name. A server that does not know these fields passes them over, and then
what comes has to be looked at; see `server_writer`.
"""

from __future__ import annotations

import json
import re
from typing import Any

_VLLM = ("vllm",)
_LLAMA_CPP = ("llamacpp", "me")  # its own server; that of llama-cpp-python
_SPECIAL = re.compile(r"[\\^$.|?*+()\[\]{}]")  # of regular expressions


def beginning_with(typed: str, owner: str) -> dict[str, Any]:
    """The fields of a request by which the text begins with ``typed``. owner: as the server names it."""
    if owner in _VLLM:
        return {"structured_outputs": {"regex": _SPECIAL.sub(r"\\\g<0>", typed) + r"(.|\n)*"}}
    if owner in _LLAMA_CPP:
        return {"grammar": f"root ::= {json.dumps(typed, ensure_ascii=False)} [^\\x00]*"}
    return {}
