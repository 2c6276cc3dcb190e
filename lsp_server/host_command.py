"""`draftline status` and `draftline stop`: how the process is that holds the models, and its end."""

from __future__ import annotations

import json
import sys

import msgspec
import psutil

from engine.host.line import Gone, Line, Silent
from engine.host.place import Place
from engine.host.start import find
from engine.host.wire import Ask, Malformed, Standing, Stop, for_client, pack
from model_setup.store import home

_NOBODY = "No model is loaded: there is no engine; an editor's first request starts it."
_MEGABYTE = 1_000_000


def show_status(as_json: bool) -> int:
    """Print how each host is; there is more than one only while an old version's has clients left."""
    found: list[Standing] = []
    silent: list[Place] = []
    for place in Place.all(home()):
        try:
            found += _standing(place)
        except Silent:
            silent.append(place)
    if as_json:
        print(json.dumps([msgspec.to_builtins(standing) for standing in found], indent=2))
    elif found or not silent:
        print("\n".join(map(_described, found)) or _NOBODY)
    return _tell(silent, "end it with `draftline stop`.")


def stop() -> int:
    """End every host. Editors that are open start a new one with their next request."""
    ended: list[Place] = []
    silent: list[Place] = []
    for place in Place.all(home()):
        try:
            ended += [place] if _stop(place) else []
        except Silent:
            (ended if _kill(place) else silent).append(place)
    if ended or not silent:
        print("The engine has ended." if ended else _NOBODY)
    return _tell(silent, "it could not be ended either, so end that process yourself.")


def _tell(silent: list[Place], what_to_do: str) -> int:
    """Say on stderr that these do not answer; gives the exit code."""
    for place in silent:
        number = place.read("host").get("process", "unknown")
        print(f"Draftline's engine does not answer (process {number}); {what_to_do}", file=sys.stderr)
    return 2 if silent else 0


def _reached(place: Place) -> Line | None:
    """A connection to the host of that place, if there is one.

    Raises:
        Silent: there is one, but it does not answer, or nobody can reach it any more.
    """
    line = find(place)
    if line is None and _process(place) is not None:
        raise Silent
    return line


def _standing(place: Place) -> list[Standing]:
    line = _reached(place)
    if line is None:
        return []
    try:
        line.send(pack(Ask()))
        answer = for_client(line.receive())
    except (Gone, Malformed):
        return []
    finally:
        line.close()
    return [answer] if isinstance(answer, Standing) else []


def _stop(place: Place) -> bool:
    line = _reached(place)
    if line is None:
        return False
    _until_gone(line)
    return True


def _until_gone(line: Line) -> None:
    try:
        line.send(pack(Stop()))
        while True:
            line.receive()
    except Gone:
        line.close()


def _process(place: Place) -> psutil.Process | None:
    """The process that says it is the host there, if it is one: numbers of processes are used again."""
    number = place.read("host").get("process")
    try:
        process = psutil.Process(number if isinstance(number, int) else -1)
        return process if process.cmdline()[-1:] == [str(place.folder)] else None
    except (psutil.Error, ValueError, OverflowError):
        return None


def _kill(place: Place) -> bool:
    process = _process(place)
    if process is None:
        return False
    try:
        process.kill()
        process.wait(5)
    except psutil.NoSuchProcess:
        pass  # it has ended by itself meanwhile
    except psutil.Error:
        return False
    return True


def _described(host: Standing) -> str:
    lines = [
        f"Draftline {host.version}, process {host.process}: up for {_span(host.up_seconds)}, "
        f"{host.clients} windows, {host.memory // _MEGABYTE} MB of memory"
    ]
    lines += [
        f"  {model.name} on {model.device}, weights {model.weights}: {model.clients} windows, "
        f"not used for {_span(model.idle_seconds)}"
        for model in host.models
    ] or ["  no model is loaded just now"]
    if host.tokens and host.seconds:
        lines.append(
            f"  in the last hour {host.requests} requests, {host.tokens} tokens at "
            f"{host.tokens / host.seconds:.1f} tok/s, {host.accepted / host.tokens:.0%} of them guessed"
        )
    return "\n".join(lines)


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
