"""Three real processes: a leader that was elected uncleanly, and a crash of all replicas before a checkpoint is written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_topics import CreatableTopicConfig
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.records.batch import iter_headers
from odradek.protocol.records.record import Record, decode_batch, encode_batch
from odradek.storage.files.checkpoints import HIGH_WATERMARKS, find_offsets

from tests.server.harness.cluster_process import BROKER, CONTROLLER, Cluster, ClusterNode

pytestmark = pytest.mark.usefixtures("processes")

TOPIC = "orders"
PRODUCE, FETCH, LIST_OFFSETS = 9, 11, 7
EARLIEST, LATEST = -2, -1
BATCH = 100
#: Offsets of the story: where the follower stops, where the first leader ends, and where the second one ends.
STOPPED, GIVEN_UP, LATER_END = 3500, 9500, 8500
#: Longer than any test: nothing but a truncation writes the checkpoint.
NEVER_MS = "3600000"
_CHECKPOINT_INTERVALS = ("replica.high.watermark.checkpoint.interval.ms", "log.flush.offset.checkpoint.interval.ms")


class Story:
    """A topic with a replica on each of two brokers. Each record's value names the history that it is of."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.first, self.second = cluster.nodes[1], cluster.nodes[2]
        configs = [CreatableTopicConfig("unclean.leader.election.enable", "true")]
        cluster.create_topic(TOPIC, [[1, 2]], configs=configs)

    def produce(self, node: ClusterNode, end: int, history: str, *, acks: int = -1) -> None:
        """Produces until the log ends at `end`."""
        offset = self.offset(node, LATEST)
        while offset < end:
            records = [Record(number, 0, None, f"{history} {offset + number}".encode()) for number in range(BATCH)]
            data = [PartitionProduceData(0, encode_batch(records, base_offset=0))]
            request = ProduceRequest(
                acks=acks, timeout_ms=30_000, topic_data=[TopicProduceData(TOPIC, partition_data=data)]
            )
            (partition,) = node.ask(request, PRODUCE).responses[0].partition_responses
            assert (partition.error_code, partition.base_offset) == (ErrorCode.NONE, offset)
            offset += BATCH

    def offset(self, node: ClusterNode, timestamp: int) -> int:
        topic = ListOffsetsTopic(TOPIC, [ListOffsetsPartition(0, timestamp=timestamp)])
        found = node.ask(ListOffsetsRequest(topics=[topic]), LIST_OFFSETS).topics[0].partitions[0]
        assert found.error_code == ErrorCode.NONE, ErrorCode(found.error_code)
        return int(found.offset)

    def read(self, node: ClusterNode, begin: int, end: int) -> list[str]:
        """Returns the values of all records; an error of a Fetch fails."""
        values: list[str] = []
        offset = begin
        while offset < end:
            wanted = FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)
            request = FetchRequest(max_wait_ms=100, min_bytes=1, topics=[FetchTopic(topic=TOPIC, partitions=[wanted])])
            data = node.ask(request, FETCH).responses[0].partitions[0]
            assert data.error_code == ErrorCode.NONE, f"{ErrorCode(data.error_code).name} at offset {offset}"
            for position, header in iter_headers(data.records):
                values += [record.value.decode() for record in decode_batch(data.records, position)]
                offset = header.next_offset
        return values

    def until_leader(self, leader: int, isr: set[int]) -> None:
        def is_so() -> bool:
            found = [self.cluster.partitions(TOPIC, node).get(0) for node in self.cluster.running()]
            return all(one and one.leader_id == leader and set(one.isr_nodes) == isr for one in found)

        self.cluster.until(is_so, f"{leader} leads with the ISR {isr}")


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    properties: dict[str, Any] = {"replica_lag_time_max_ms": "2000", "broker_session_timeout_ms": "3000"}
    properties["broker_heartbeat_interval_ms"] = "300"
    with Cluster(tmp_path, [BROKER, BROKER, CONTROLLER], **properties) as cluster:
        yield Story(cluster)


def have_diverged(story: Story) -> None:
    """Has the second broker lead from where it was paused, while the first one, which is down, has more."""
    story.produce(story.first, STOPPED, "both")
    story.until_leader(1, {1, 2})
    story.cluster.until(lambda: claimed(story.first) == STOPPED, "the checkpoint is written")
    story.second.pause()
    story.cluster.until(lambda: isr(story) == {1}, "the paused follower has left the ISR")
    story.produce(story.first, GIVEN_UP, "given up")
    story.cluster.until(lambda: claimed(story.first) == GIVEN_UP, "the checkpoint is written")
    story.first.kill()
    story.second.go_on()
    story.until_leader(2, {2})
    story.produce(story.second, LATER_END, "later")


def isr(story: Story) -> set[int]:
    return set(story.cluster.partitions(TOPIC, story.first)[0].isr_nodes)


def claimed(node: ClusterNode) -> int:
    return find_offsets(str(node.data_dir), HIGH_WATERMARKS).offsets.get((TOPIC, 0), 0)


def test_log_that_was_cut_after_an_unclean_election_ends_where_its_leader_ended_after_kill_9(story: Story) -> None:
    have_diverged(story)
    for node in (story.first, story.second):
        node.properties |= dict.fromkeys(_CHECKPOINT_INTERVALS, NEVER_MS)
    story.first.start()
    story.until_leader(2, {1, 2})
    assert claimed(story.first) == STOPPED, "it was lowered before the log was cut, and not raised since"
    story.first.kill()
    story.second.kill()
    story.first.start()
    story.until_leader(1, {1})
    assert story.offset(story.first, LATEST) == LATER_END
    expected = [f"{'both' if offset < STOPPED else 'later'} {offset}" for offset in range(LATER_END)]
    assert story.read(story.first, 0, LATER_END) == expected
    story.second.start()
    story.until_leader(1, {1, 2})
    story.produce(story.first, LATER_END + 2 * BATCH, "last")
    assert not list(story.first.data_dir.glob(f"{TOPIC}-0/odradek-damage"))
