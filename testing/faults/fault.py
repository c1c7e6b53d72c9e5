"""One fault: which requests it strikes, what it does to them, and how often it did."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from .effects import described

if TYPE_CHECKING:
    from .disk import DiskEffect, WriteMatch
    from .effects import Effect
    from .matching import Match
    from .striking import InterceptedRequest

#: The last requests struck that a fault remembers.
MOST_REMEMBERED = 100


class Fault:
    """A fault, active until it has affected `times` requests or is cancelled. As a context manager, it is active inside::

        with broker.faults.delay("Fetch", seconds=2) as fault:
            ...
        assert fault.count > 0

    `count`: the number of affected requests. `struck`: descriptions of the last of these requests.
    """

    def __init__(
        self, match: Match | WriteMatch, effect: Effect | DiskEffect, times: int | None, ended: Callable[[Fault], None]
    ) -> None:
        if times is not None and times < 1:
            raise ValueError(f"times={times}: a fault must apply to at least 1 request")
        if match.nth < 1:
            raise ValueError(f"nth={match.nth}: requests are counted from 1")
        self.match = match
        self.effect = effect
        self.times = times
        self.count = 0
        self.struck: deque[str] = deque(maxlen=MOST_REMEMBERED)
        self._ended = ended
        self._seen = 0
        self._changed = threading.Condition()

    def strike(self, request: InterceptedRequest) -> bool:
        """Strikes a request that fits, unless its turn has not come. Called on the loop's thread of a broker."""
        call = request.call
        if not self._takes(f"{call.api.name} v{call.version} of {call.client_id}"):
            return False
        self.effect.strike(request)  # type: ignore[union-attr]  # requests meet no faults of disks
        return True

    def strike_write(self, path: str, doing: str) -> None:
        """Strikes a write to a partition's folder, unless its turn has not come. Called on any thread. Raises OSError."""
        if self._takes(f"{doing} to {Path(path).name}"):
            self.effect.strike_write(path)  # type: ignore[union-attr]

    def _takes(self, words: str) -> bool:
        """Counts what fits. Returns whether it is struck."""
        with self._changed:
            self._seen += 1
            if self._seen < self.match.nth or (self.times is not None and self.count >= self.times):
                return False
            self.count += 1
            is_last = self.count == self.times
            self.struck.append(words)
            self._changed.notify_all()
        if is_last:
            self._ended(self)
        return True

    def cancel(self) -> None:
        """Ends the fault. Requests that it holds continue to the broker."""
        self._ended(self)
        end = getattr(self.effect, "end", None)
        if end is not None:
            end()

    def wait(self, count: int = 1, timeout: float = 10.0) -> None:
        """Waits until the fault has affected `count` requests: for plain programs, and threads. Raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.count >= count, timeout):
                raise TimeoutError(f"{self}: {self.count} requests were affected within {timeout:g} s, not {count}")

    def describe(self) -> dict[str, object]:
        """Returns the fault as data for reports and the control port."""
        return {"fault": str(self), "count": self.count, "times": self.times, "struck": list(self.struck)}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cancel()

    def __str__(self) -> str:
        often = "" if self.times is None else f", {self.times} times" if self.times > 1 else ", once"
        start = f", from request {self.match.nth} on" if self.match.nth > 1 else ""
        return f"{self.match}: {described(self.effect)}{often}{start}"

    def __repr__(self) -> str:
        return f"<Fault {self}; struck {self.count}>"
