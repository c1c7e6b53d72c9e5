"""Healing of damaged records from another replica, in simulated time: the reads, the attempts and the sources."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from odradek.client.peers import Peers
from odradek.metadata.image import PartitionImage
from odradek.protocol.errors import ErrorCode
from odradek.protocol.internal.cluster_metadata import BrokerEndpoint, RegisterBrokerRecord
from odradek.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from odradek.protocol.records.errors import CorruptBatch
from odradek.server.config.endpoint import Endpoint
from odradek.server.controller.leaders import Leaders
from odradek.server.partitions.hosted_partition import HostedPartition
from odradek.server.replicas.healing import PATIENT_TRIES, RETRY_S, Healer
from odradek.server.replicas.replica_reader import NotThere, ReplicaReader
from odradek.server.replicas.replica_requests import ReplicaRequests
from odradek.server.runtime.damage_counters import DamageCounters
from odradek.server.runtime.lazy import Lazy
from odradek.storage.files.failures import LogDirectoryFailure
from odradek.storage.segments.damage import DamagedRange

from tests.server.harness.hosted import NOW_MS, TOPIC_ID, Hosted, batch, joined
from tests.server.harness.images import broker_record, cache_of, image_with
from tests.server.harness.nodes import node_of
from tests.server.harness.noted_background import NotedBackground
from tests.server.harness.noted_cleaner import NotedCleaner
from tests.server.harness.noted_maintenance import NotedMaintenance
from tests.server.harness.noted_partitions import NotedPartitions
from tests.server.harness.virtual_time import after_ms, loop_clock, simulated, turns

OWN, SECOND, THIRD = 0, 2, 3


# ---- reading from another replica


SOURCE = Endpoint("PLAINTEXT", "there", 9092)


class Reading:
    """A replica that is read from another one, which the test is."""

    node_id = OWN

    def __init__(self, path: Path, end: int = 10) -> None:
        self.hosted = Hosted(path, OWN)
        self.hosted.log.append(batch(end), None, NOW_MS)
        self.hosted.role.appended(end, NOW_MS)
        self.hosted.follow_leader(SECOND, epoch=4)
        self.hosted.follow(end, 0)
        self.sent: list[tuple[Endpoint, Any, Callable[[Any], None], str]] = []
        here: Any = self
        self.reader = ReplicaReader(here, self.hosted, SOURCE)
        self.found: list[tuple[bytes, list[int]]] = []

    def send(self, endpoint: Endpoint, request: Any, reply: Callable[[Any], None], *, purpose: str) -> None:
        self.sent.append((endpoint, request, reply, purpose))

    def begin(self, first: int, end: int) -> asyncio.Task[None]:
        async def read() -> None:
            async for batches, headers in self.reader.read(first, end):
                self.found.append((batches, [header.base_offset for header in headers]))

        return asyncio.ensure_future(read())

    async def respond(
        self, records: bytes | None = None, *, error: int = 0, whole: int = 0, aborted: Any = None
    ) -> None:
        data = PartitionData(0, error, 10, aborted_transactions=aborted, records=records)  # type: ignore[arg-type]
        self.sent[-1][2](FetchResponse(0, whole, 0, [FetchableTopicResponse("", TOPIC_ID, [data])]))
        await turns()


def test_range_is_read_until_its_end(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Reading(tmp_path)
        task = harness.begin(2, 7)
        await turns()
        endpoint, request, _, purpose = harness.sent[0]
        assert isinstance(request, FetchRequest) and (endpoint, purpose) == (SOURCE, "healing")
        (asked,) = request.topics[0].partitions
        assert (request.isolation_level, request.min_bytes, request.max_wait_ms) == (1, 1, 100)
        assert (asked.partition, asked.current_leader_epoch, asked.fetch_offset) == (0, 4, 2)
        assert asked.partition_max_bytes == request.max_bytes == 1 << 20
        first, second, third = batch(2, offset=2), batch(1, offset=4), batch(2, offset=5)
        await harness.respond(joined(first, second), aborted=[AbortedTransaction(7, 2)])
        assert harness.sent[1][1].topics[0].partitions[0].fetch_offset == 5
        await harness.respond(joined(third, batch(3, offset=7)), aborted=[AbortedTransaction(8, 5)])
        await task
        assert harness.found == [(joined(first, second), [2, 4]), (joined(third), [5])]
        assert harness.reader.aborted == {(7, 2), (8, 5)}

    simulated(story)


@pytest.mark.parametrize("failure", ["none", "whole", "partition", "no topic", "nothing"])
def test_replica_without_the_records_ends_the_read(failure: str, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Reading(tmp_path)
        task = harness.begin(0, 3)
        await turns()
        if failure == "none":
            harness.sent[0][2](None)
        elif failure == "whole":
            await harness.respond(joined(batch(3)), whole=ErrorCode.UNKNOWN_SERVER_ERROR)
        elif failure == "partition":
            await harness.respond(joined(batch(3)), error=ErrorCode.CORRUPT_MESSAGE)
        elif failure == "no topic":
            harness.sent[0][2](FetchResponse(0, 0, 0, []))
        else:
            await harness.respond(b"")
        with pytest.raises(NotThere, match="there"):
            await task
        assert harness.found == []

    simulated(story)


@pytest.mark.parametrize(
    ("may_have_gaps", "records", "is_valid"),
    [
        (False, batch(2, offset=1), False),
        (True, batch(2, offset=1), True),
        (False, batch(4), False),
        (True, batch(4), False),
        (False, batch(2, offset=0, last_offset=2), True),
    ],
)
def test_batches_tile_the_range_or_have_gaps_where_the_log_is_compacted(
    may_have_gaps: bool, records: bytes, is_valid: bool, tmp_path: Path
) -> None:
    async def story() -> None:
        harness = Reading(tmp_path)
        if may_have_gaps:
            harness.reader.may_have_gaps = True
        task = harness.begin(0, 3)
        await turns()
        await harness.respond(bytes(records))
        if is_valid:
            await task
            assert len(harness.found) == 1
        else:
            with pytest.raises(CorruptBatch):
                await task

    simulated(story)


@pytest.mark.parametrize("may_have_gaps", [True, False])
def test_records_of_the_next_segment_end_the_read_of_a_compacted_log(may_have_gaps: bool, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Reading(tmp_path)
        if may_have_gaps:
            harness.reader.may_have_gaps = True
        task = harness.begin(0, 3)
        await turns()
        await harness.respond(joined(batch(1, offset=5)))
        if may_have_gaps:
            await task
        else:
            with pytest.raises(NotThere):
                await task

    simulated(story)


def test_records_that_may_be_uncommitted_are_not_read(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Reading(tmp_path, 5)
        with pytest.raises(NotThere, match="offset 5 is not known to be committed"):
            await harness.begin(3, 6)
        assert harness.sent == []
        task = harness.begin(4, 5)
        await turns()
        assert len(harness.sent) == 1
        task.cancel()

    simulated(story)


# ---- healing


class WokenPartition(Hosted):
    """Counts the times that readers of damaged records are woken."""

    woken = 0

    def wake_readers(self) -> None:
        super().wake_readers()
        self.woken += 1


class ScriptedHealer(Healer):
    """A healer whose attempts end as the test decides: healed, not healed, or with an exception."""

    outcomes: list[Any]
    tries: list[float]

    async def _heal(self, hosted: HostedPartition) -> None:
        assert self.works_on(hosted)
        self.tries.append(asyncio.get_running_loop().time())
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        if outcome:
            hosted.open_log().healed(0, 1)


class TakingHealer(Healer):
    """Notes how and from where a log is taken. The first source does not have the records."""

    taken: list[tuple[str, str]]

    async def _take_all(self, hosted: HostedPartition, reader: ReplicaReader) -> None:
        self._take("all", reader)

    async def _take_damaged(self, hosted: HostedPartition, reader: ReplicaReader) -> None:
        self._take("damaged", reader)

    def _take(self, kind: str, reader: ReplicaReader) -> None:
        self.taken.append((kind, reader.source.partition(":")[0]))
        if len(self.taken) < 2:
            raise NotThere("not here")


def reached(broker_id: int) -> RegisterBrokerRecord:
    return broker_record(broker_id, end_points=[BrokerEndpoint("P", f"b{broker_id}", 1, 0)])


class Healing:
    """A healer of a broker whose metadata has the brokers 2 and 3."""

    def __init__(self, path: Path, outcomes: list[Any] | None = None) -> None:
        self.path = path
        self.tries: list[float] = []
        self.moving: Hosted | None = None
        self.counters = DamageCounters()
        self.cleaner = NotedCleaner()
        self.background = NotedBackground()
        node = node_of(
            clock=loop_clock(),
            damage=self.counters,
            background=self.background,
            metadata=cache_of(image_with(reached(SECOND), reached(THIRD))),
        )
        leaders = Leaders(node.metadata, NotedPartitions(), inter_broker_listener="P", node_id=OWN)
        requests = ReplicaRequests(OWN, lambda: 1, node.config, Lazy(lambda: Peers("test")), leaders)
        parts = node, Lazy(lambda: requests), self.cleaner, NotedMaintenance(), self._is_moving
        self.healer = ScriptedHealer(*parts)
        self.healer.outcomes, self.healer.tries = outcomes or [], self.tries
        self.taking = TakingHealer(*parts)
        self.taking.taken = []

    def _is_moving(self, hosted: HostedPartition) -> bool:
        return hosted is self.moving

    def damaged(self, *replicas: int, index: int = 0, **config: Any) -> WokenPartition:
        """Returns a partition whose first batch is damaged, and whose leader is the last of the replicas."""
        hosted = WokenPartition(self.path, OWN, index=index, **config)
        registration = PartitionImage(replicas, replicas, replicas[-1], 1, 1, (bytes(16),) * len(replicas))
        hosted.take_role(registration, NOW_MS)
        damage(hosted)
        return hosted


def damage(hosted: Hosted, first_offset: int = 0) -> None:
    hosted.log.add_damage([DamagedRange(f"{0:020}.log", 0, 10, first_offset, first_offset + 1, "rot")])


def test_damaged_partition_is_healed_and_its_readers_are_woken(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Healing(tmp_path, [True, True])
        hosted = harness.damaged(OWN, SECOND)
        harness.healer.wants(hosted)
        assert hosted.is_healing and harness.tries == []
        await turns()
        assert (len(harness.tries), hosted.is_healing, hosted.woken) == (1, False, 1)
        assert not harness.healer.works_on(hosted) and harness.healer._task is None
        await after_ms(60_000)
        assert len(harness.tries) == 1
        damage(hosted)
        harness.healer.wants(hosted)
        await turns()
        assert len(harness.tries) == 2

    simulated(story)


def test_readers_wait_for_some_attempts_only(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Healing(tmp_path, [NotThere("no"), CorruptBatch("rot"), RuntimeError("a bug"), True])
        hosted = harness.damaged(OWN, SECOND)
        harness.healer.wants(hosted)
        await turns()
        for tries in range(1, 4):
            assert len(harness.tries) == tries == harness.counters.healings_failed
            assert hosted.is_healing == (tries < PATIENT_TRIES)
            assert hosted.woken == int(tries >= PATIENT_TRIES)
            await after_ms(RETRY_S * 1000 - 100)
            assert len(harness.tries) == tries
            await after_ms(110)
        assert len(harness.tries) == 4 and hosted.woken == 2 and harness.background.attempts[:1] == ["healing failed"]

    simulated(story)


@pytest.mark.parametrize("failure", [OSError(5, "broken"), LogDirectoryFailure("/d", "x", OSError(5, "broken"))])
def test_disk_that_fails_while_healing_takes_its_directory_offline(failure: Exception, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Healing(tmp_path, [failure])
        hosted = harness.damaged(OWN, SECOND)
        hosted.on_failure = lambda error: (hosted.failures.append(error), setattr(hosted, "offline", True))
        harness.healer.wants(hosted)
        await after_ms(RETRY_S * 1000 + 20)
        (found,) = hosted.failures
        assert isinstance(found, LogDirectoryFailure) and harness.counters.healings_failed == 0
        assert not hosted.is_healing and hosted.woken == 1, "an offline one is left"

    simulated(story)


@pytest.mark.parametrize("other", ["cleaner", "move"])
def test_healing_waits_for_what_rewrites_the_log(other: str, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Healing(tmp_path, [True])
        hosted = harness.damaged(OWN, SECOND)
        harness.cleaner.busy, harness.moving = (hosted, None) if other == "cleaner" else (None, hosted)
        harness.healer.wants(hosted)
        await after_ms(RETRY_S * 1000 + 20)
        assert harness.tries == [] and hosted.is_healing
        harness.cleaner.busy = harness.moving = None
        await after_ms(RETRY_S * 1000 + 20)
        assert len(harness.tries) == 1 and not hosted.is_healing

    simulated(story)


def test_partition_without_another_replica_is_not_healed(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Healing(tmp_path, [])
        alone = harness.damaged(OWN)
        harness.healer.wants(alone)
        assert not alone.is_healing and harness.healer._task is None
        await harness.healer.stop()
        hosted = harness.damaged(OWN, SECOND, index=1)
        harness.healer.wants(hosted)
        await turns()
        assert not hosted.is_healing and harness.tries == []

    simulated(story)


def test_new_damage_is_healed_before_the_next_attempt_of_the_old(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Healing(tmp_path, [NotThere("no"), True, True])
        first, second = (harness.damaged(OWN, SECOND, index=index) for index in range(2))
        harness.healer.wants(first)
        await after_ms(100)
        harness.healer.wants(second)
        await after_ms(100)
        assert len(harness.tries) == 3 and not first.is_healing and not second.is_healing

    simulated(story)


@pytest.mark.parametrize(
    ("leader", "isr", "hosts"),
    [
        (SECOND, (OWN, SECOND, THIRD), ["b2", "b3"]),
        (OWN, (THIRD, OWN), ["b3"]),
        (-1, (OWN, THIRD), ["b3"]),
        (9, (THIRD, 9), ["b3"]),
        (OWN, (OWN,), []),
    ],
)
def test_leader_and_isr_are_the_sources(leader: int, isr: tuple[int, ...], hosts: list[str], tmp_path: Path) -> None:
    async def story() -> None:
        harness = Healing(tmp_path, [])
        hosted = Hosted(tmp_path, OWN)
        hosted.role.leader, hosted.role.isr = leader, isr
        assert [one.host for one in harness.healer._sources(hosted)] == hosts

    simulated(story)


@pytest.mark.parametrize(("is_compact", "was_cleaned"), [(False, False), (True, False), (False, True)])
def test_sources_are_tried_in_turn_and_compacted_logs_are_taken_whole(
    is_compact: bool, was_cleaned: bool, tmp_path: Path
) -> None:
    async def story() -> None:
        harness = Healing(tmp_path)
        hosted = harness.damaged(OWN, THIRD, SECOND, compact=is_compact)
        hosted.role.isr = (OWN, SECOND, THIRD)
        log = hosted.log
        log.append(batch(4), None, NOW_MS)
        log.roll(NOW_MS)
        log.append(batch(2, offset=4), None, NOW_MS)
        log.healed(0, 1)
        damage(hosted, 4)
        harness.cleaner.was_cleaned = was_cleaned
        heal, taken = harness.taking._heal, harness.taking.taken
        await heal(hosted)
        kind = "all" if is_compact or was_cleaned else "damaged"
        assert taken == [(kind, "b2"), (kind, "b3")] and len(log.segments) == 3
        taken.clear()
        hosted.role.isr = (OWN,)
        with pytest.raises(NotThere, match="not here"):
            await heal(hosted)
        assert len(log.segments) == 3, "the damage is in a closed segment"
        hosted.role.leader = OWN
        with pytest.raises(NotThere, match="no other replica is in sync"):
            await heal(hosted)

    simulated(story)
