"""The one exception that users see."""


class DraftlineError(Exception):
    """Something the user can mend.

    The message is one sentence: what is wrong and what to do. Command lines print it without a
    traceback and leave with exit code 2; the language server shows it once.
    """
