"""A service beside the cluster that did not respond: pages do not wait for it again before a time."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from ...client.error_kinds import ErrorKind
from ...client.user_errors import UserError

_AGAIN_S = 10.0


class Unreachable:
    def __init__(self) -> None:
        self._until = 0.0
        self._words = ""

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """Raises the error of the last request at once while it is new."""
        if time.monotonic() < self._until:
            raise UserError(self._words, ErrorKind.UNREACHABLE)
        try:
            yield
        except UserError as error:
            if error.kind == ErrorKind.UNREACHABLE:
                self._until, self._words = time.monotonic() + _AGAIN_S, str(error)
            raise
