"""How both commands, `model-setup` and `draftline`, report what went wrong: one sentence, no traceback."""

from __future__ import annotations

import argparse
import errno
import os
import re
import sys
from collections.abc import Callable
from importlib import metadata
from typing import NoReturn

from engine.errors import DraftlineError


class OneSentenceParser(argparse.ArgumentParser):
    """An ArgumentParser whose errors are one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see `{self.prog} --help`.\n")


def positive(text: str) -> int:
    """An option's value: a whole number above zero."""
    if not re.fullmatch(r"\d{1,18}", text) or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number above zero")
    return int(text)


def seconds(text: str) -> float:
    """An option's value: a time such as ``90s``, ``10m`` or ``1h30m``, in seconds."""
    match = re.fullmatch(r"(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,6})s)?", text)
    total = (
        sum(int(part or 0) * unit for part, unit in zip(match.groups(), (3600, 60, 1), strict=True))
        if match
        else 0
    )
    if total == 0:
        raise argparse.ArgumentTypeError(f"{text} is no time such as 90s, 10m or 1h30m")
    return float(total)


def draftline_version() -> str:
    try:
        return metadata.version("draftline")
    except metadata.PackageNotFoundError:  # run from a checkout that was not installed
        return "0+unknown"


def run_command(command: Callable[[], int]) -> int:
    """Run ``command`` and return its exit code, or 2 after an error of the user's, or 130 after Ctrl-C."""
    try:
        return command()
    except DraftlineError as error:
        print(error, file=sys.stderr)
    except KeyboardInterrupt:
        print("Interrupted; run the same command again to go on.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output is gone; without this, Python complains once more as it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        print(_os_error_sentence(error), file=sys.stderr)
    return 2


def _os_error_sentence(error: OSError) -> str:
    where = f" ({error.filename})" if error.filename else ""
    if error.errno in {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}:
        return f"The disk is full{where}; free some space, or set DRAFTLINE_HOME to a folder on another disk."
    reason = error.strerror or error
    return f"The system refused an operation{where}: {reason}; check the path and its permissions."
