"""Commits of offsets that show how far a pipeline is, from a thread beside it.

The pipeline keeps its offsets in its own state, so a commit may be late or missing, and must not cost it anything: `commit`
returns at once and raises nothing. Of several commits for a group the newest is sent. A failure is logged once until a
commit succeeds again, and repeated later. Brokers reject such a commit for a group with members.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, replace

from .group_offsets import commit, committed
from .pipeline_progress import PipelineProgress, newest_progress
from .places import Place
from .session import Admin

_logger = logging.getLogger(__name__)

#: Pauses after failures double from the first to the last.
_FIRST_PAUSE_S, _MOST_PAUSE_S = 1.0, 60.0
#: Least time between two commits of a group.
_LEAST_INTERVAL_S = 1.0
#: Offsets of an idle pipeline are committed again: a group without members loses them after `offsets.retention.minutes`.
_RENEWAL_S = 3600.0
#: Limit of the wait for the last commit.
CLOSE_S = 5.0


@dataclass(frozen=True, slots=True)
class _Pending:
    """`is_error`: of a pipeline that has no offsets; those of the group stay, and `offsets` are for a group without."""

    offsets: Mapping[Place, int]
    progress: PipelineProgress
    is_error: bool = False


class OffsetCommitter:
    """`open_admin`: the session for the commits, opened on the thread. `on_error`: shows a failure."""

    def __init__(
        self,
        open_admin: Callable[[], AbstractContextManager[Admin]],
        on_error: Callable[[str], None] = _logger.warning,
    ) -> None:
        self._open_admin = open_admin
        self._on_error = on_error
        self._stack = ExitStack()
        self._admin: Admin | None = None
        self._changed = threading.Condition()
        self._pending: dict[str, _Pending] = {}
        #: Committed last, with the moment, by group.
        self._committed: dict[str, tuple[_Pending, float]] = {}
        #: Taken from `_pending`, and not committed yet.
        self._sending: set[str] = set()
        self._is_urgent = self._is_closing = False
        #: Failures in a row and the moment of the next attempt, by group.
        self._failed: dict[str, tuple[int, float]] = {}
        #: Errors by group that were shown since its last success.
        self._shown: set[tuple[str, str]] = set()
        #: Groups without commits since they were forgotten.
        self._forgotten: set[str] = set()
        self._thread: threading.Thread | None = None

    def commit(self, group: str, offsets: Mapping[Place, int], progress: PipelineProgress) -> None:
        """Has the offsets committed soon, in place of older ones."""
        if offsets:
            self._add(group, _Pending(dict(offsets), progress))

    def commit_error(self, group: str, topic: str, progress: PipelineProgress) -> None:
        """Has the error of a pipeline committed that failed before it had offsets.

        A group with offsets keeps them, with its last progress; another one gets offset 0 of the topic's partition 0.
        """
        self._add(group, _Pending({(topic, 0): 0}, progress, is_error=True))

    def _add(self, group: str, pending: _Pending) -> None:
        with self._changed:
            if self._is_closing:
                return
            self._forgotten.discard(group)
            self._pending[group] = pending
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="odradek-offsets", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def forget(self, group: str) -> None:
        """Ends the commits of a group: another process has them from now on. One that is being sent may still come."""
        with self._changed:
            self._forgotten.add(group)
            self._pending.pop(group, None)
            self._changed.notify_all()

    def flush(self, wait_s: float) -> None:
        """Waits until nothing is left to commit, no longer than `wait_s`. Does not wait for a group whose commits fail."""
        with self._changed:
            self._is_urgent = True
            self._changed.notify_all()
            self._changed.wait_for(self._is_flushed, wait_s)
            self._is_urgent = False

    def _is_flushed(self) -> bool:
        return self._failed.keys() >= self._sending | self._pending.keys()

    def close(self, wait_s: float = CLOSE_S) -> None:
        """Waits for the last commits, no longer than `wait_s`."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(wait_s)

    # The rest runs on the thread.

    def _run(self) -> None:
        try:
            while (pending := self._taken()) is not None:
                for group, one in pending.items():
                    self._commit(group, one)
                    with self._changed:
                        self._sending.discard(group)
                        self._changed.notify_all()
        finally:
            self._disconnect()

    def _taken(self) -> dict[str, _Pending] | None:
        """Waits for commits that are due; None after the last ones of a committer that was closed."""
        with self._changed:
            while True:
                due = self._due()
                if due:
                    for group in due:
                        self._pending.pop(group, None)
                    self._sending |= due.keys()
                    return due
                if self._is_closing:
                    return None
                self._changed.wait(self._pause_s())

    def _due(self) -> dict[str, _Pending]:
        if self._is_closing:
            return dict(self._pending)
        for group in self._forgotten:
            self._committed.pop(group, None)
            self._failed.pop(group, None)
        now = time.monotonic()
        renewed = {group: one for group, (one, moment) in self._committed.items() if now - moment >= _RENEWAL_S}
        ready = {group: one for group, one in self._pending.items() if self._not_before(group) <= now}
        return renewed | ready

    def _not_before(self, group: str) -> float:
        """The moment of the next commit of a group."""
        if group in self._failed:
            return self._failed[group][1]
        if self._is_urgent or group not in self._committed:
            return 0.0
        return self._committed[group][1] + _LEAST_INTERVAL_S

    def _pause_s(self) -> float:
        moments = [self._not_before(group) for group in self._pending]
        moments += [moment + _RENEWAL_S for _, moment in self._committed.values()]
        return max(0.0, min(moments, default=time.monotonic() + _RENEWAL_S) - time.monotonic())

    def _commit(self, group: str, pending: _Pending) -> None:
        try:
            admin = self._connected()
            offsets, progress = (
                _beside_group(admin, group, pending) if pending.is_error else (pending.offsets, pending.progress)
            )
            commit(admin, group, offsets, {min(offsets): progress.text()})
        except Exception as error:  # whatever it is, the pipeline continues
            self._note_failure(group, pending, error)
        else:
            self._failed.pop(group, None)
            self._shown = {shown for shown in self._shown if shown[0] != group}
            self._committed[group] = pending, time.monotonic()

    def _note_failure(self, group: str, pending: _Pending, error: Exception) -> None:
        self._disconnect()
        self._committed.pop(group, None)
        count = self._failed.get(group, (0, 0.0))[0]
        pause_s = min(_FIRST_PAUSE_S * 2.0 ** min(count, 10), _MOST_PAUSE_S)
        self._failed[group] = count + 1, time.monotonic() + pause_s
        text = str(error).strip().partition("\n")[0] or type(error).__name__
        if (group, text) not in self._shown:
            self._shown.add((group, text))
            with suppress(Exception):  # of a closed terminal, for example
                self._on_error(f"the offsets are not committed to group {group}, so its lag is out of date: {text}")
        with self._changed:
            if not self._is_closing and group not in self._forgotten:
                self._pending.setdefault(group, pending)

    def _connected(self) -> Admin:
        if self._admin is None:
            self._admin = self._stack.enter_context(self._open_admin())
        return self._admin

    def _disconnect(self) -> None:
        self._admin = None
        try:
            self._stack.close()
        except Exception as error:
            _logger.debug("the connection for commits did not close: %s", error)


def _beside_group(admin: Admin, group: str, pending: _Pending) -> tuple[Mapping[Place, int], PipelineProgress]:
    """The offsets that a group has, and its progress with the error; those of `pending` where it has none."""
    found = committed(admin, group)
    last = newest_progress(one.metadata for one in found.values())
    progress = pending.progress if last is None else replace(last, error=pending.progress.error)
    return {place: one.offset for place, one in found.items()} or pending.offsets, progress
