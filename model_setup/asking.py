"""Asking the oracle about as much of the repository as there is time for."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from engine.checkpoint import load_checkpoint
from engine.placement import Placement
from engine.request import Cancelled, CancelToken
from model_setup.peers import Peers
from model_setup.predictions import Answers, Teacher
from model_setup.training import Report
from model_setup.windows import Window

LEAST_ASKED = 8  # windows besides those held out, however short the time


def ask_oracle(
    oracle: Path,
    placement: Placement,
    answers: Answers,
    held: Sequence[Window],
    windows: Sequence[Window],
    seconds: float,
    peers: Peers,
    report: Report,
    cancel: CancelToken,
) -> None:
    """Fill ``answers`` with what ``oracle`` says of all of ``held``, and for ``seconds`` of ``windows``.

    Each process asks about its share; when this returns, all have done so.

    Raises:
        Cancelled: ``cancel`` was; what was answered is kept.
        DraftlineError: the oracle cannot be loaded, or there is no room for the answers.
    """
    started = time.perf_counter()
    loaded = load_checkpoint(oracle, placement.weights, device=peers.device)
    teacher = Teacher(loaded.transformer, placement)
    least = -(-(len(held) + LEAST_ASKED) // peers.count)
    for number, window in enumerate(peers.share([*held, *windows])):
        spent = time.perf_counter() - started
        if number >= least and spent > seconds:
            break
        if cancel.cancelled:
            raise Cancelled
        done = number / least if number < least else spent / seconds
        report(f"Asking the model about the repository: piece {number + 1}", min(done, 1.0))
        if answers.known(window) is None:
            answers.keep(window, teacher.ask(window))
    peers.wait()
