"""How the server is, for editors to show: ``editors/STATUS.md`` says it to those who write clients.

The same is told in two ways: the notification ``draftline/status`` comes whenever it has changed, if the
client's initializationOptions have ``statusNotifications``; the request of that name asks for it, and is told
what became of suggestions as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from lsp_server.server import DraftlineServer

METHOD = "draftline/status"
State = Literal["loading", "ready", "working", "off", "paused", "error"]
ASLEEP = "The model was unloaded after a while without use, or by `draftline stop`; typing loads it again."
ON_BATTERY = "The machine runs on its battery, so suggestions come only where they are asked for."


def status(ls: DraftlineServer, params: Any) -> dict[str, Any]:
    return {**status_now(ls), "suggestions": ls.outcomes.counts}


def tell_status(ls: DraftlineServer) -> None:
    """Send the notification if there is something new in it, to a client that wants it."""
    now = status_now(ls)
    if ls.tells_status and now != ls.told_status:
        ls.told_status = now
        ls.protocol.notify(METHOD, now)


def status_now(ls: DraftlineServer) -> dict[str, Any]:
    state, message = _state(ls)
    now: dict[str, Any] = {"state": state, "message": message}
    if state == "loading":
        now["percent"] = ls.percent
    now["leavesMachine"] = ls.settings.backend == "openai"
    if (completer := ls.engine.worker) is not None:
        writer = completer.writer
        now |= {"model": writer.name, "device": writer.device, "weights": writer.weights}
        now |= {"loadSeconds": writer.load_seconds, "goesTo": writer.goes_to}
    return now


def _state(ls: DraftlineServer) -> tuple[State, str]:
    if not ls.settings.enabled:
        return "off", "Suggestions are switched off in the settings."
    if ls.engine.state == "failed":
        return "error", ls.engine.failure
    if ls.engine.state == "asleep":
        return "paused", ASLEEP
    if ls.engine.state != "ready":
        return "loading", ""
    if ls.completions.working:
        return "working", ""
    if ls.settings.pause_on_battery and ls.battery.in_use:
        return "paused", ON_BATTERY
    return "ready", ""
