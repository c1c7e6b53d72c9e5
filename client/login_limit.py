"""A limit of failed logins of one address, for servers that take passwords."""

from __future__ import annotations

import threading
import time

#: Failed logins of one address within the window, before it has to wait.
_MOST_FAILURES, _WINDOW_S = 5, 60.0
_MOST_ADDRESSES = 10_000


class LoginLimit:
    """Counts failed logins by address, and those whose password is being checked: many at once are no more tries."""

    def __init__(self) -> None:
        self._failures: dict[str, tuple[float, int]] = {}
        self._lock = threading.Lock()

    def begin(self, address: str) -> bool:
        """Counts an attempt as failed until `succeeded`. Returns False where the address has to wait."""
        now = time.monotonic()
        with self._lock:
            began, count = self._failures.pop(address, (now, 0))
            if now - began >= _WINDOW_S:
                began, count = now, 0
            is_allowed = count < _MOST_FAILURES
            self._failures[address] = (began, count + is_allowed)
            while len(self._failures) > _MOST_ADDRESSES:
                self._failures.pop(next(iter(self._failures)))
        return is_allowed

    def succeeded(self, address: str) -> None:
        """Takes the attempt back: it was no failure."""
        with self._lock:
            began, count = self._failures.get(address, (0.0, 0))
            if count:
                self._failures[address] = (began, count - 1)
