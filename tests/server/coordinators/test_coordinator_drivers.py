"""The shards of a coordinator on this broker: which it has by the roles of partitions, and which gets a request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from odradek.coordinator.result import TopicsDeleted
from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import MetadataImage
from odradek.metadata.internal_topics import GROUP_METADATA_TOPIC
from odradek.protocol.errors import ErrorCode
from odradek.protocol.internal.cluster_metadata import RemoveTopicRecord, TopicRecord
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.list_groups import ListGroupsRequest
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.coordinators import coordinator_driver, group_driver
from odradek.server.coordinators.coordinator_driver import HAND_OVER_S
from odradek.server.coordinators.group_driver import GroupDriver
from odradek.server.coordinators.java_hash import java_hash
from odradek.server.partitions.transaction_marker import Marker
from odradek.server.runtime.background_tasks import BackgroundTasks
from odradek.server.runtime.metadata_cache import MetadataCache

from tests.server.harness.hosted import NOW_MS, Hosted
from tests.server.harness.images import image_with, topic_records
from tests.server.harness.virtual_time import after_ms, loop_clock, simulated, turns

COUNT = 3
MARKER = Marker(5, 0, True, 0, 1)


class Shard:
    """A shard's driver that notes its calls. The test completes its handover."""

    def __init__(self, partition: Hosted, calls: list[tuple[Any, ...]]) -> None:
        self.partition = partition
        self.epoch = partition.leader_epoch
        self.background: Any = None
        self.handed_over: list[Callable[[int], None]] = []
        self._calls = calls

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *arguments: self._calls.append((name, self.partition.index, *arguments))

    def submit(self, request: Any, version: int, client: Any, reply: Callable[[Any], None]) -> None:
        self._calls.append(("submit", self.partition.index, request, version, client))
        reply(self.partition.index)

    def hand_over(self, done: Callable[[int], None]) -> None:
        self.handed_over.append(done)


class Partitions(dict[tuple[str, int], Hosted]):
    def __init__(self) -> None:
        super().__init__()
        self.background = BackgroundTasks()


class Driving:
    """A broker that leads the partitions of `__consumer_offsets`."""

    def __init__(self, path: Path, count: int = COUNT, **properties: str) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.created: list[tuple[Any, Any]] = []
        self.loading: list[Callable[[], None]] = []
        self.partitions = Partitions()
        for index in range(count):
            hosted = Hosted(path, index=index)
            hosted.lead()
            self.partitions[GROUP_METADATA_TOPIC, index] = hosted
        self.config = BrokerConfig(
            {"offsets.topic.num.partitions": str(count)}
            | {key.replace("_", "."): value for key, value in properties.items()}
        )
        self.metadata = MetadataCache()
        partitions, here = cast(Any, self.partitions), cast(Any, self)
        self.driver = GroupDriver(self.config, loop_clock(), partitions, lambda: here, self.metadata, here)
        self.driver._new_shard = self._new_shard  # type: ignore[method-assign, assignment]
        self.made: list[Shard] = []

    def when_loaded(self, modules: Any, then: Callable[[], None]) -> None:
        """Stands for the late imports."""
        self.loading.append(then)

    def create(self, *topic: Any) -> None:
        """Stands for the creation of topics."""
        self.created.append(topic)

    def _new_shard(self, partition: Any) -> Shard:
        self.made.append(Shard(partition, self.calls))
        return self.made[-1]

    def hosted(self, index: int) -> Hosted:
        return self.partitions[GROUP_METADATA_TOPIC, index]

    def image(self, count: int = COUNT) -> MetadataImage:
        return image_with(*topic_records(GROUP_METADATA_TOPIC, *[(0,)] * count))

    def take_up(self) -> None:
        self.driver.take_up(self.image())

    def names(self) -> list[tuple[str, int]]:
        """Returns the calls since the last look, without their arguments."""
        found = [(call[0], call[1]) for call in self.calls]
        self.calls.clear()
        return found


@pytest.fixture(autouse=True)
def imported(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The modules of shards that the process has loaded."""
    loaded = {"shards"}
    monkeypatch.setattr(group_driver, "is_loaded", lambda modules: bool(loaded))
    return loaded


# ---- shards and roles


def test_shards_are_made_for_the_partitions_that_are_led_here(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Driving(tmp_path)
        harness.hosted(0).follow_leader(2, epoch=2)
        harness.hosted(1).offline = True
        harness.take_up()
        assert harness.names() == [("load", 2)]
        assert harness.made[0].background is harness.partitions.background
        harness.take_up()
        assert harness.names() == [], "the shard is there"
        harness.hosted(1).offline = False
        harness.take_up()
        assert harness.names() == [("load", 1)]
        assert [shard.partition.index for shard in harness.made] == [2, 1]

    simulated(story)


@pytest.mark.parametrize("event", ["follower", "offline", "gone", "new epoch", "another replica"])
def test_shard_is_dropped_when_another_broker_leads_or_may_have_led(event: str, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Driving(tmp_path)
        harness.take_up()
        harness.names()
        hosted = harness.hosted(1)
        if event == "follower":
            hosted.follow_leader(2, epoch=2)
        elif event == "offline":
            hosted.offline = True
        elif event == "gone":
            del harness.partitions[GROUP_METADATA_TOPIC, 1]
        elif event == "new epoch":
            hosted.lead(epoch=2)
        else:
            replacement = Hosted(tmp_path / "other", index=1)
            replacement.lead()
            harness.partitions[GROUP_METADATA_TOPIC, 1] = replacement
        harness.take_up()
        leads_again = event in ("new epoch", "another replica")
        assert harness.names() == [("resign", 1), *([("load", 1)] if leads_again else [])]
        assert len(harness.driver.shards()) == (COUNT if leads_again else COUNT - 1)

    simulated(story)


def test_first_shards_wait_for_the_import_of_their_modules_which_begins_once(
    tmp_path: Path, imported: set[str]
) -> None:
    imported.clear()

    async def story() -> None:
        harness = Driving(tmp_path)
        harness.metadata.image = harness.image()
        harness.take_up()
        harness.take_up()
        assert (harness.names(), len(harness.loading)) == ([], 1)
        harness.loading[0]()
        assert harness.names() == [("load", index) for index in range(COUNT)]
        harness.hosted(0).lead(epoch=2)
        harness.take_up()
        assert harness.names() == [("resign", 0), ("load", 0)], "it is not tried again"
        assert len(harness.loading) == 1

    simulated(story)


def test_stop_drops_all_shards(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Driving(tmp_path)
        harness.take_up()
        harness.names()
        harness.driver.stop()
        assert harness.names() == [("resign", index) for index in range(COUNT)]
        assert harness.driver.shards() == []

    simulated(story)


@pytest.mark.parametrize(("topics", "count", "taken_up"), [(True, COUNT, True), (True, 50, True), (False, 50, False)])
def test_image_with_other_topics_is_taken_up_and_a_new_count_of_partitions_counts(
    topics: bool, count: int, taken_up: bool, tmp_path: Path
) -> None:
    async def story() -> None:
        harness = Driving(tmp_path)
        group = "my-consumer-group"
        before = harness.driver.partition_for(group)
        assert before == java_hash(group) % COUNT
        delta = MetadataDelta(image_with(TopicRecord("gone", b"i" * 16)))
        if topics:
            delta.replay(RemoveTopicRecord(b"i" * 16))
        harness.driver.apply(delta, harness.image(count))
        expected = count if taken_up else COUNT
        assert harness.driver.partition_for(group) == java_hash(group) % expected
        assert [call[0] for call in harness.calls].count("load") == (COUNT if taken_up else 0)
        if topics:
            deletions = [call for call in harness.calls if call[0] == "topics_deleted"]
            assert all(call[2] == TopicsDeleted({"gone": b"i" * 16}) for call in deletions)
            assert len(deletions) == COUNT

    simulated(story)


# ---- requests


def test_request_goes_to_the_shard_of_its_group_and_elsewhere_it_is_an_error(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Driving(tmp_path)
        client: Any = object()
        replies: list[Any] = []
        request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
        harness.driver.submit("g", request, 4, client, replies.append)
        assert replies[0].error_code == ErrorCode.NOT_COORDINATOR
        invalid = HeartbeatRequest(group_id="", generation_id=1, member_id="m")
        harness.driver.submit("", invalid, 4, client, replies.append)
        assert replies[1].error_code == ErrorCode.INVALID_GROUP_ID
        harness.take_up()
        harness.names()
        harness.driver.submit("g", request, 4, client, replies.append)
        index = java_hash("g") % COUNT
        assert replies[2] == index
        assert harness.calls == [("submit", index, request, 4, client)]

    simulated(story)


def test_request_to_all_shards_has_one_reply_with_all_responses(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Driving(tmp_path)
        client: Any = object()
        replies: list[list[Any]] = []
        harness.driver.submit_to_all(ListGroupsRequest(), 4, client, replies.append)
        assert replies == [[]]
        harness.take_up()
        harness.driver.submit_to_all(ListGroupsRequest(), 4, client, replies.append)
        assert replies[1:] == [[0, 1, 2]]

    simulated(story)


def test_ids_of_one_partition_share_a_request(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Driving(tmp_path)
        ids = [f"g{number}" for number in range(20)]
        parts = harness.driver.by_partition(ids)
        assert sorted(one for part in parts for one in part) == sorted(ids)
        assert all(len({java_hash(one) % COUNT for one in part}) == 1 for part in parts)
        assert len(parts) == COUNT

    simulated(story)


def test_marker_goes_to_its_shard_and_elsewhere_it_is_an_error(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Driving(tmp_path)
        errors: list[int] = []
        harness.driver.end_transaction(1, MARKER, errors.append)
        assert errors == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        harness.take_up()
        harness.calls.clear()
        harness.driver.end_transaction(1, MARKER, errors.append)
        assert harness.calls == [("end_transaction", 1, MARKER, errors.append)]

    simulated(story)


@pytest.mark.parametrize(("name", "reaches"), [("group.max.size", True), ("log.retention.ms", False)])
def test_changed_configuration_of_groups_reaches_the_shards(name: str, reaches: bool, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Driving(tmp_path)
        harness.take_up()
        harness.calls.clear()
        harness.driver._config_changed(frozenset({name, "other.key"}))
        assert [(call[0], call[1]) for call in harness.calls] == (
            [("reconfigure", i) for i in range(COUNT)] if reaches else []
        )
        for call in harness.calls:
            limit = harness.hosted(call[1]).rules.max_message_bytes - coordinator_driver.GROUP_RECORD_OVERHEAD_BYTES
            assert call[2].max_record_bytes == limit

    simulated(story)


def test_topic_is_created_with_the_configuration_of_the_broker(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Driving(tmp_path, offsets_topic_segment_bytes="1048576", offsets_topic_replication_factor="1")
        done: Any = object()
        harness.driver.ensure_topic(done)
        [(topic, then)] = harness.created
        assert then is done
        assert (topic.name, topic.num_partitions, topic.replication_factor) == (GROUP_METADATA_TOPIC, COUNT, 1)
        assert {one.name: one.value for one in topic.configs} == {
            "cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "1048576"
        }  # fmt: skip

    simulated(story)


# ---- the handover and the clock


@pytest.mark.parametrize(("responses", "wait_s"), [(COUNT, 0.0), (COUNT - 1, HAND_OVER_S)])
def test_handover_ends_when_all_shards_have_it_and_does_not_wait_long_for_one(
    responses: int, wait_s: float, tmp_path: Path
) -> None:
    async def story() -> None:
        harness = Driving(tmp_path)
        harness.take_up()
        loop = asyncio.get_running_loop()
        began = loop.time()
        handing_over = asyncio.create_task(harness.driver.hand_over())
        await turns()
        assert not handing_over.done()
        for number, shard in enumerate(harness.made[:responses]):
            shard.handed_over[0](ErrorCode.NOT_COORDINATOR if number == 0 else 0)
        await handing_over
        assert loop.time() - began == pytest.approx(wait_s, abs=0.01)

    simulated(story)


def test_handover_without_shards_ends_at_once(tmp_path: Path) -> None:
    async def story() -> None:
        await Driving(tmp_path).driver.hand_over()

    simulated(story)


def test_clock_that_was_set_reaches_every_shard_and_begins_anew_without_any(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Driving(tmp_path)
        harness.take_up()
        harness.names()
        harness.driver.clock_moved()
        assert harness.names() == [("clock_moved", index) for index in range(COUNT)]
        await after_ms(100)
        harness.driver._clock._wall_ms = lambda: NOW_MS
        harness.driver.restart_clock()
        assert harness.driver._clock() == NOW_MS

    simulated(story)
