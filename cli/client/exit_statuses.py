"""The exit status of a command for an error: that of its kind, and after a signal the shell's."""

from __future__ import annotations

from types import MappingProxyType

from ...client.error_kinds import ErrorKind
from ...client.user_errors import UserError
from ..messages import FAILED, MISUSED
from .interruption import InterruptedCommand

#: A topic, partition, group, transaction or context that does not exist.
NOT_FOUND = 3
#: No broker responds, or not in time.
UNREACHABLE = 4
#: Authentication failed, or the authorizer denied the operation.
DENIED = 5

_OF_KINDS = MappingProxyType(
    {
        ErrorKind.FAILED: FAILED,
        ErrorKind.MISUSED: MISUSED,
        ErrorKind.NOT_FOUND: NOT_FOUND,
        ErrorKind.UNREACHABLE: UNREACHABLE,
        ErrorKind.DENIED: DENIED,
    }
)


def exit_status_of(error: UserError) -> int:
    return error.status if isinstance(error, InterruptedCommand) else _OF_KINDS[error.kind]
