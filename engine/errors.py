"""The one exception that users see."""


class DraftlineError(Exception):
    """Something the user can mend.

    The message is one sentence: what is wrong and what to do. Command lines print it without a
    traceback and leave with exit code 2; the language server shows it once.
    """


class OutOfMemory(DraftlineError):
    """The model has no room where it was to run; elsewhere or with smaller weights it may have."""
