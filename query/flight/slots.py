"""Places of queries that run at the same time. A user has all but one of them at most, which leaves one for the others."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from ...client.user_errors import UserError


class Busy(UserError):
    """All places are taken, and stay so for longer than a caller waits."""


class Slots:
    def __init__(self, most: int, *, of_users: bool) -> None:
        """`of_users`: users are known by name."""
        self._most = most
        self._most_of_user = max(1, most - 1) if of_users else most
        self._taken: Counter[str] = Counter()
        self._changed = threading.Condition()

    @contextmanager
    def taken(self, user: str, timeout_s: float) -> Iterator[None]:
        """Takes a place, and waits for it. Raises Busy."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while self._taken.total() >= self._most or self._taken[user] >= self._most_of_user:
                left = deadline - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    raise Busy(f"the server runs {self._taken.total()} queries, its limit: try again later")
            self._taken[user] += 1
        try:
            yield
        finally:
            with self._changed:
                self._taken[user] -= 1
                self._taken = +self._taken
                self._changed.notify_all()
