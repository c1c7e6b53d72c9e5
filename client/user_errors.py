"""Errors that a user reads: one line with the error and the remedy, and its kind."""

from __future__ import annotations

from .error_kinds import ErrorKind


class UserError(Exception):
    """Ends what a user asked for, a command or a page. The kind leads to an exit status, or to a status of HTTP."""

    def __init__(self, message: str, kind: ErrorKind = ErrorKind.FAILED) -> None:
        super().__init__(message)
        self.kind = kind


class Misused(UserError):
    """Options or values that cannot be meant."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ErrorKind.MISUSED)
