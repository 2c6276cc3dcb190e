"""`draftline status` and `draftline stop`: how the process is that holds the models, and its end."""

from __future__ import annotations

import json

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
    found = [standing for place in Place.all(home()) if (standing := _standing(place))]
    if as_json:
        print(json.dumps([msgspec.to_builtins(standing) for standing in found], indent=2))
    else:
        print("\n".join(map(_described, found)) or _NOBODY)
    return 0


def stop() -> int:
    """End every host. Editors that are open start a new one with their next request."""
    ended = [place for place in Place.all(home()) if _stop(place)]
    print("The engine has ended." if ended else _NOBODY)
    return 0


def _standing(place: Place) -> Standing | None:
    try:
        line = find(place)
    except Silent:
        print(f"An engine does not answer (process {place.read('host').get('process')}): `draftline stop`.")
        return None
    if line is None:
        return None
    try:
        line.send(pack(Ask()))
        answer = for_client(line.receive())
    except (Gone, Malformed):
        return None
    finally:
        line.close()
    return answer if isinstance(answer, Standing) else None


def _stop(place: Place) -> bool:
    try:
        line = find(place)
    except Silent:
        return _kill(place)
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


def _kill(place: Place) -> bool:
    """End a host that hangs, if it is one: numbers of processes are used again."""
    number = place.read("host").get("process")
    try:
        process = psutil.Process(number if isinstance(number, int) else -1)
        if process.cmdline()[-1:] != [str(place.folder)]:
            return False
        process.kill()
        process.wait(5)
    except (psutil.Error, ValueError):
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
    ]
    if host.tokens and host.seconds:
        lines.append(
            f"  in the last hour {host.requests} requests, {host.tokens} tokens at "
            f"{host.tokens / host.seconds:.1f} tok/s, {host.accepted / host.tokens:.0%} of them guessed"
        )
    return "\n".join(lines)


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
