"""One file from the model hub, resumable. HF_ENDPOINT and HF_HUB_OFFLINE hold here as in its own client."""

from __future__ import annotations

import http.client
import os
import threading
import urllib.request
from pathlib import Path

from model_setup.progress import Update

_ANSWER_SECONDS = 4.0
_READ_SECONDS = 30.0
_TRIES = 3


def hub_url(repository: str, file: str) -> str:
    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    return f"{endpoint}/{repository}/resolve/main/{file}"


def hub_serves(url: str, size: int) -> bool:
    """Whether the hub offers ``url`` with ``size`` bytes and says so within a few seconds."""
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}:
        return False
    answer: list[int] = []

    def ask() -> None:
        request = urllib.request.Request(url, method="HEAD")
        try:
            with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS) as response:
                answer.append(int(response.headers.get("Content-Length") or -1))
        except (OSError, ValueError, http.client.HTTPException):
            pass

    # In a thread, because looking up a name that no server answers takes longer than any socket timeout.
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(_ANSWER_SECONDS)
    return answer == [size]


def download(url: str, size: int, target: Path, update: Update) -> bool:
    """Append to ``target`` what it lacks of the ``size`` bytes at ``url``; False if it is still short."""
    for _ in range(_TRIES):
        have = target.stat().st_size if target.exists() else 0
        if have >= size:
            break
        request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"})
        try:
            response = urllib.request.urlopen(request, timeout=_READ_SECONDS)
        except (OSError, http.client.HTTPException):
            continue
        with response, target.open("ab") as file:
            if response.status != 206:  # a server without ranges begins at the beginning
                file.truncate(0)
                have = 0
            while piece := _read(response):
                file.write(piece)
                have += len(piece)
                update(have, size)
    return target.exists() and target.stat().st_size == size


def _read(response: http.client.HTTPResponse) -> bytes:
    """The next piece, or nothing at the end and when the connection breaks."""
    try:
        return response.read(1 << 20)
    except (OSError, http.client.HTTPException):
        return b""
