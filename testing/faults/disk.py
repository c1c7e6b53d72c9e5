"""Disks that fail or are slow: these faults strike writes to partitions' files, not requests.

An append happens on the broker's event loop, a flush on a thread. A disk without room fails appends: the log directory goes
offline, and a broker whose last one it was halts, as a process of its own does.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ...storage.files import write_checks
from ...storage.files.write_checks import APPEND

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


_changing = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteMatch:
    """The writes meant: to partitions of these topics on this broker. `nth`: from the n-th that fits."""

    topic: str | None = None
    partition: int | None = None
    node_id: int | None = None
    nth: int = 1
    appends_only: bool = False

    def fits(self, call: object, node_id: int, names: object) -> bool:
        """No request is meant."""
        return False

    def fits_write(self, path: str, doing: str, node_id: int) -> bool:
        """Returns whether a write to a partition's folder is meant."""
        topic, _, partition = Path(path).name.rpartition("-")
        return (
            (self.node_id is None or node_id == self.node_id)
            and (self.topic is None or fnmatchcase(topic, self.topic))
            and (self.partition is None or partition == str(self.partition))
            and (doing == APPEND or not self.appends_only)
        )

    def __str__(self) -> str:
        named = {name: getattr(self, name) for name in ("topic", "partition", "node_id")}
        what = "an append" if self.appends_only else "a write"
        return " ".join([what, *(f"{name}={value!r}" for name, value in named.items() if value is not None)])


class DiskEffect(Protocol):
    """The effect of a fault on a write."""

    def strike_write(self, path: str) -> None:
        """Strikes a write. May raise OSError."""


@dataclass(slots=True)
class DiskFull:
    """A write fails for want of room."""

    def strike_write(self, path: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)


@dataclass(slots=True)
class SlowDisk:
    """A write takes longer. Code that waits for it stands still: for an append the whole broker."""

    seconds: float

    def strike_write(self, path: str) -> None:
        time.sleep(self.seconds)


class DiskChecks:
    """The disk faults of some brokers, as checks before writes. `node_ids`: of their log directories."""

    def __init__(self, active: Callable[[], Iterable[Any]]) -> None:
        self.node_ids: dict[str, int] = {}
        self._active = active

    def switch(self, is_on: bool) -> None:
        """Has writes of this process checked, or no longer."""
        with _changing:
            others = tuple(one for one in write_checks.active if one != self._check)
            write_checks.active = (*others, self._check) if is_on else others

    def _check(self, path: str, doing: str) -> None:
        node_id = self.node_ids.get(str(Path(path).parent))
        if node_id is None:
            return
        for fault in self._active():
            if isinstance(fault.match, WriteMatch) and fault.match.fits_write(path, doing, node_id):
                fault.strike_write(path, doing)
