"""What can be wrong with a team's server, each in the one sentence that the user gets.

Nothing that the server says itself is in them but the names of its models: it may repeat the user's text.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence

from engine.errors import DraftlineError

_SHOWN_MODELS = 8


class ServerError(DraftlineError):
    """retry_after: seconds in which the server wants no request, if it said so. status: of its answer."""

    def __init__(self, message: str, retry_after: float = 0.0, status: int = 200) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.status = status


def unreachable(host: str, error: BaseException | None) -> ServerError:
    if _is_about_trust(error):
        return ServerError(
            f"The certificate of the server at {host} is not trusted here, so nothing was sent; have it "
            "mended, or install its authority's certificate on this machine."
        )
    return ServerError(
        f"The server at {host} does not answer; see that it runs and that server_url is right."
    )


def refused(host: str, status: int, retry_after: str) -> ServerError:
    """For an HTTP status other than 200. retry_after: the header of that name, "" without one."""
    where = f"The server at {host}"
    if 300 <= status < 400:
        return ServerError(
            f"{where} sends requests on to another place, which Draftline does not follow; give server_url "
            "as the address where they end."
        )
    if status in (401, 403):
        return ServerError(
            f"{where} does not take the key ({status}); set the right one in DRAFTLINE_API_KEY or the "
            "keyring."
        )
    if status == 404:
        return ServerError(
            f"{where} has no completions at that address (404); give server_url as in https://host:8000/v1."
        )
    if status in (429, 503):
        seconds = float(retry_after) if retry_after.isascii() and retry_after.isdigit() else 0.0
        return ServerError(
            f"{where} has too much to do ({status}); suggestions come again as soon as it has not.", seconds
        )
    if status >= 500:
        return ServerError(f"{where} failed ({status}); its own log tells why.")
    return ServerError(
        f"{where} refuses what it is asked ({status}); see that server_url and server_model are right, and "
        "that it serves completions.",
        status=status,
    )


def no_model(host: str, model: str, offered: Sequence[str]) -> ServerError:
    """offered: the names of those that it has."""
    more = ", ..." if len(offered) > _SHOWN_MODELS else ""
    return ServerError(
        f"The server at {host} has no model {model}; set server_model to what it has: "
        f"{', '.join(offered[:_SHOWN_MODELS])}{more}."
    )


def too_slow(host: str) -> ServerError:
    return ServerError(
        f"The server at {host} takes too long to answer; ask who runs it, or choose another one."
    )


def broken(host: str) -> ServerError:
    return ServerError(f"The server at {host} broke off an answer; its own log may tell why.")


def no_stream(host: str) -> ServerError:
    return ServerError(
        f"What the server at {host} answers is no stream of completions; see that server_url is the "
        "address of a server that speaks the OpenAI completions API."
    )


def _is_about_trust(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False
