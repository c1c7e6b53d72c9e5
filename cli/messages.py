"""Messages of a command on standard error, and the exit statuses of commands.

Exit statuses: 0 for success, FAILED when the command failed, MISUSED when it was given something
that cannot be done: an option, a property or a file that must change first. 130 follows Ctrl-C, as in a shell.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from ..client.message_text import one_line

FAILED = 1
MISUSED = 2
INTERRUPTED = 130

#: Writes a command's message to standard error; None for a line of text.
_write_message: Callable[[str], None] | None = None


def write_messages_with(write: Callable[[str], None] | None) -> None:
    """Has messages written by a function: where the log is JSON, they are, too."""
    global _write_message
    _write_message = write


def warn(message: object) -> None:
    if _write_message is not None:
        _write_message(one_line(message))
    else:
        print(f"odradek: {one_line(message)}", file=sys.stderr)


def complain(message: object, status: int = FAILED) -> int:
    """Prints why a command ends, in one line on standard error. Returns the exit status."""
    warn(_without_number(message) if isinstance(message, OSError) else message)
    return status


def _without_number(error: OSError) -> str:
    """The error as people write it, in place of `[Errno 2] No such file or directory: 'x'`."""
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename is not None else reason
