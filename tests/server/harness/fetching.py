"""Partitions that a broker leads, with its fetch sessions, and no broker around them: the test sends each Fetch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from odradek.protocol.records.record import Record, encode_batch
from odradek.server.controller.leaders import Leader, ReachedBroker
from odradek.server.fetch import fetch_opening
from odradek.server.fetch.fetch import Fetch
from odradek.server.fetch.fetch_context import FetchContext
from odradek.server.fetch.fetch_path import FetchPath
from odradek.server.fetch.fetch_sessions import FetchSessions
from odradek.server.fetch.follower_fetch import FollowerFetch
from odradek.server.partitions.parked_fetch import FetchWaits
from odradek.server.partitions.parked_requests import Deadlines, Wakeups

from tests.server.harness.hosted import NOW_MS, TOPIC, TOPIC_ID, Hosted
from tests.server.harness.nodes import node_of
from tests.server.harness.virtual_time import loop_clock

#: The follower has the id 0, which is none of the sentinels.
OWN, FOLLOWER, THIRD = 1, 0, 3
VERSION = 17
LAG_MS = 30_000


class Quota:
    is_on = False
    throttled = False

    def __init__(self) -> None:
        self.recorded: list[int] = []

    def is_throttled(self, hosted: Hosted, follower: int) -> bool:
        return self.is_on and self.throttled

    def record(self, hosted: Hosted, size: int) -> None:
        self.recorded.append(size)


class Scrubber:
    """Notes the damage that reads meet."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.inspecting: list[Callable[[], object]] = []

    def met(self, hosted: Hosted, damage: Exception) -> None:
        self.calls.append(("met", hosted.index))

    def doubt(self, hosted: Hosted, offset: int) -> None:
        self.calls.append(("doubt", hosted.index, offset))

    def inspect(self, hosted: Hosted, base_offset: int, done: Callable[[], object]) -> None:
        self.calls.append(("inspect", hosted.index, base_offset))
        self.inspecting.append(done)

    def verify_soon(self, hosted: Hosted, base_offset: int) -> None:
        self.calls.append(("verify", hosted.index, base_offset))


class SteppedTurns:
    """The turns of a broker: each step of a large request is a turn of the loop."""

    def __init__(self) -> None:
        self.freed: list[Any] = []
        self.failures: list[Exception] = []
        self.steps = 0
        self._now = 0.0

    def clock(self) -> float:
        """Returns a time so that each step takes a whole slice."""
        self._now += 1
        return self._now

    def begin(self, steps: Iterator[Any], failed: Callable[[Exception], None]) -> Any:
        loop = asyncio.get_running_loop()

        def step() -> None:
            self.steps += 1
            try:
                next(steps)
            except StopIteration:
                return
            except Exception as failure:
                failed(failure)
            else:
                loop.call_soon(step)

        loop.call_soon(step)
        return SimpleNamespace()

    def free(self, kept: Any) -> None:
        self.freed.append(kept)


class Connection:
    closed = False

    def __init__(self) -> None:
        self.turns = SteppedTurns()
        self.listener = SimpleNamespace(shared=SimpleNamespace(turns=self.turns))
        self.dispatcher = SimpleNamespace(failed_later=lambda call, route, failure: self.turns.failures.append(failure))

    def park(self, call: Any) -> None:
        call.is_parked = True


class Harness:
    """A broker with partitions of one topic that it leads. Each fetch goes through its sessions, as those of clients do."""

    def __init__(
        self, path: Path, count: int = 1, *, followers: tuple[int, ...] = (), max_bytes: int = 1 << 20
    ) -> None:
        self.hosted = [Hosted(path, OWN, index=index) for index in range(count)]
        for hosted in self.hosted:
            hosted.lead(*followers, now_ms=int(loop_clock().now_ms()))
        loop = asyncio.get_running_loop()
        disk: Any = SimpleNamespace(run_then=self._on_disk)
        self.waits = FetchWaits(Deadlines(loop), Wakeups(loop), disk)
        self.scrubber = Scrubber()
        self.sessions = FetchSessions(10)
        self.quota = Quota()
        self.disk: list[tuple[Callable[[], object], Callable[[object], object]]] = []
        self.nearer = -1
        self.clock = loop_clock()
        leaders: Any = SimpleNamespace(
            absent_error=lambda *_: ErrorCode.UNKNOWN_TOPIC_ID,
            current_leader=self._leader,
        )
        selector: Any = SimpleNamespace(is_rack_aware=True, nearer_replica=lambda *_: self.nearer)
        replicas: Any = SimpleNamespace(
            scrubber=self.scrubber, leaders=leaders, replication=lambda: SimpleNamespace(leaders=self.quota)
        )
        partitions: Any = self
        node = node_of(clock=self.clock)
        self.path = FetchPath(node, self.waits, partitions, replicas, self.sessions)
        self.path.selector, self.path.max_bytes = selector, max_bytes
        self.responses: list[FetchResponse] = []
        self.connection: Any = Connection()
        self.held = self.exempted = 0

    def _on_disk(self, work: Callable[[], object], then: Callable[[object], object]) -> None:
        self.disk.append((work, then))

    def _leader(self, listener: str, topic: str | bytes, index: int) -> Leader:
        assert listener == "L" and topic in (TOPIC, TOPIC_ID)
        return Leader(9, 4, ReachedBroker(9, "h", 1, None) if index == 0 else None)

    # ---- Partitions

    def get_by_id(self, key: tuple[bytes, int]) -> Hosted | None:
        return self.get(key) if key[0] == TOPIC_ID else None

    def get(self, key: Any) -> Hosted | None:
        return next((one for one in self.hosted if one.index == key[1]), None)

    # ---- requests

    def fetch(
        self,
        *asked: FetchPartition,
        max_wait_ms: int = 500,
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
        isolation: int = 0,
        replica: int = -1,
        version: int = VERSION,
        session: tuple[int, int] = (0, -1),
        rack: str = "",
        is_large: bool = False,
    ) -> None:
        request = FetchRequest(
            replica_id=replica,
            replica_state=ReplicaState(replica, 5),
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation_level=isolation,
            session_id=session[0],
            session_epoch=session[1],
            topics=[FetchTopic(TOPIC, TOPIC_ID, list(asked))] if asked else [],
            rack_id=rack,
        )
        context = self.sessions.open_at_once(request, version, self.clock.now_ms(), self.connection)
        assert isinstance(context, FetchContext), context
        call: Any = SimpleNamespace(
            request=request,
            version=version,
            listener="L",
            connection=self.connection,
            reply=self.responses.append,
            hold_connection=self._hold,
            is_parked=False,
            observer=None,
            route=SimpleNamespace(api=SimpleNamespace(name="Fetch"), version=version),
            client_id="client",
            size=100,
            exempt=self._exempt,
        )
        if is_large:
            fetch_opening.fetch(self.path, call, context, is_follower=replica >= 0)
            return
        response = (FollowerFetch if replica >= 0 else Fetch)(self.path, call, context).start()
        if response is not None:
            self.responses.append(response)

    def _hold(self) -> None:
        self.held += 1

    def _exempt(self) -> None:
        self.exempted += 1

    def data(self, number: int = -1) -> list[PartitionData]:
        response = self.responses[number]
        assert not response.error_code
        return [one for topic in response.responses for one in topic.partitions]

    def sizes(self, number: int = -1) -> dict[int, int]:
        return {one.partition_index: len(one.records or b"") for one in self.data(number)}


def ask(
    index: int = 0, offset: int = 0, max_bytes: int = 1 << 20, epoch: int = -1, last_epoch: int = -1
) -> FetchPartition:
    return FetchPartition(index, epoch, offset, last_epoch, -1, max_bytes)


def produced(count: int = 1, size: int = 1, **options: Any) -> bytearray:
    return bytearray(encode_batch([Record(number, NOW_MS, b"k", b"v" * size) for number in range(count)], **options))


ONE = len(produced())
