"""The key to a team's server: from the environment, else from the system's keyring."""

from __future__ import annotations

import logging
import os

VARIABLE = "DRAFTLINE_API_KEY"
SERVICE = "draftline"

logger = logging.getLogger(__name__)


def server_key(host: str) -> str | None:
    """The key for ``host``, which the keyring may hold as the password of user ``host`` for "draftline".

    None without one: many servers in a team's own network want none. The keyring is the optional package
    ``keyring``; that it is missing, locked or broken is the same as holding none.
    """
    if key := os.environ.get(VARIABLE):
        return key
    try:
        import keyring
    except ImportError:
        return None
    try:
        return keyring.get_password(SERVICE, host) or None
    except Exception as error:  # each system's backend raises its own
        logger.warning("the keyring cannot be read (%s)", type(error).__name__)
        return None
