"""A Fetch of very many partitions, which takes turns with others: named, looked at and answered some at a time.

Otherwise it follows `fetch.py`. A change between two slices counts as later than the fetch: partitions that grew
since they were looked at are looked at again before the fetch is parked.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any

from ...protocol.errors import ErrorCode
from ...protocol.messages.fetch import FetchResponse
from ..network.call import Call, arrays_of, is_large
from ..network.large_requests import reply_in_slices, work_in_turns
from ..partitions.hosted_partition import HostedPartition
from ..partitions.parked_requests import NotInPageCache
from ..runtime.sliced_work import Steps
from .fetch import Fetch, Found, Inspection, check_readable
from .follower_fetch import FollowerFetch
from .sessions import INVALID_SESSION_ID, FetchContext, FetchedPartition

if TYPE_CHECKING:
    from .fetch_path import FetchPath

#: Partitions that are looked at in one step.
LOOKED_AT_ONCE = 64
_ARRAYS = arrays_of(FetchResponse)
_PARTITIONS = ("responses", "partitions")


def open_and_fetch(path: FetchPath, call: Call, *, is_follower: bool) -> None:
    def opened(context: FetchContext | ErrorCode) -> None:
        if isinstance(context, ErrorCode):
            call.reply(FetchResponse(error_code=context))
        else:
            fetch(path, call, context, is_follower=is_follower)

    opening = path.sessions.open(call.request, call.version, path.clock.now_ms(), call.connection)
    work_in_turns(call, opening, opened)


def fetch(path: FetchPath, call: Call, context: FetchContext, *, is_follower: bool) -> None:
    if is_follower:
        call.exempt()
    (LargeFollowerFetch if is_follower else LargeFetch)(path, call, context).start()


class LargeFetch(Fetch):
    __slots__ = ("_activations", "_chunk", "_is_attempting", "_seen")

    def start(self) -> FetchResponse | None:
        self._call.hold_connection()
        self._call.request = None
        #: The partitions that are looked at now.
        self._chunk: list[FetchedPartition] = []
        #: Partitions that were looked at, each with its end then.
        self._seen: list[tuple[HostedPartition, int]] = []
        self._begin()
        return None

    def _begin(self) -> None:
        self._is_attempting = True
        self._activations = self._activations_of_session()
        work_in_turns(self._call, self._attempt_in_steps(), self._attempted)

    def _continue(self) -> None:
        self._is_woken = False
        self._unwatch()
        if self._call.connection.closed:
            self._waits.deadlines.remove(self)
        else:
            self._begin()

    def expired(self) -> None:
        self._is_last = True
        if not self._is_woken and not self._is_attempting:
            self._continue()

    def _attempted(self, response: FetchResponse | None) -> None:
        call = self._call
        self._is_attempting = self._is_new = False
        if response is not None:
            self._waits.deadlines.remove(self)
            if is_large(response, _ARRAYS):
                call.announce_throttle(response)
                reply_in_slices(call, response, self._version, _PARTITIONS)
            else:
                call.reply(response)
            if self._context.session is None:
                call.connection.listener.shared.turns.free(self._context.partitions)
        elif self._is_warming:
            pass
        elif self._is_last or self._has_changed():
            self._begin()
        else:
            self._hosts = [hosted for hosted, _ in self._seen]
            self._watch()
            if self.deadline is None:
                self._waits.deadlines.add(self, self._max_wait_ms)

    def _activations_of_session(self) -> int:
        session = self._context.session
        return 0 if session is None else session.activations

    def _has_changed(self) -> bool:
        """Returns whether a partition has changed since it was looked at."""
        is_grown = any(hosted.log.log_end_offset != end for hosted, end in self._seen)
        return is_grown or self._activations != self._activations_of_session()

    def _wanted(self) -> Iterable[FetchedPartition]:
        return self._chunk

    def _attempt_in_steps(self) -> Steps[FetchResponse | None]:
        partitions = iter(list(super()._wanted()))
        found: list[list[Found]] = []
        self._seen, found_bytes, has_error = [], 0, False
        try:
            while chunk := list(islice(partitions, LOOKED_AT_ONCE)):
                self._chunk = chunk
                left = max(0, self._max_bytes - found_bytes)
                some, size, is_urgent = self._look(left, whole_first=not found_bytes)
                self._seen += [(hosted, hosted.log.log_end_offset) for hosted in self._hosts]
                found.append(some)
                found_bytes, has_error = found_bytes + size, has_error or is_urgent
                yield
            if self._remote is not None and self._remote.is_pending:
                self._wait_for_remote()
                return None
            is_due = has_error or found_bytes >= self._min_bytes or self._max_wait_ms <= 0
            if is_due or self._is_last:
                return (yield from self._respond_in_steps(found))
        except NotInPageCache as cold:
            self._warm(cold)
            return None
        except Inspection as wanted:
            self._inspect(wanted)
            return None
        self._missing_bytes = self._min_bytes - found_bytes
        return None

    def _check_in_steps(self, found: list[list[Found]]) -> Steps[None]:
        """Raises NotInPageCache or Inspection before a part of the response is made, which notes in the session what it has.

        What leaves the page cache afterwards is waited for.
        """
        for some in found if self._pread is not os.pread else ():
            for one in some:
                check_readable(one)
            yield
        self._pread = os.pread

    def _respond_in_steps(self, found: list[list[Found]]) -> Steps[FetchResponse]:
        yield from self._check_in_steps(found)
        context = self._context
        whole = FetchResponse(session_id=INVALID_SESSION_ID)
        nodes: dict[int, Any] = {}
        found.reverse()
        while True:
            part = self._respond(found.pop() if found else [])
            if part.error_code:
                return part
            whole.session_id = whole.session_id or part.session_id
            for topic in part.responses:
                last = whole.responses[-1] if whole.responses else None
                if last is not None and (last.topic, last.topic_id) == (topic.topic, topic.topic_id):
                    last.partitions += topic.partitions
                else:
                    whole.responses.append(topic)
            nodes.update((node.node_id, node) for node in part.node_endpoints)
            if context.opens_session:  # begun by the first part
                context.opens_session = False
                context.session = self._path.sessions.get(whole.session_id)
                if context.session is not None:
                    context.epoch = context.session.epoch
            if not found:
                whole.node_endpoints = list(nodes.values())
                return whole
            yield


class LargeFollowerFetch(LargeFetch, FollowerFetch):
    __slots__ = ()
