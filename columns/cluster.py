"""A connection to a running cluster: offsets, topics and directories, and records through Fetch."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..admin.connection import Connection
from ..admin.log_directories import BrokerDirectories, describe_log_dirs
from ..admin.log_offsets import list_offsets, partition_offsets
from ..admin.nodes import describe_cluster
from ..admin.readings import replica_sizes
from ..admin.topics import described_topics, existing_topics
from ..admin.topics import list_topics as listed_topics
from ..client.error_kinds import ErrorKind
from ..client.properties import store_settings
from ..client.transient_errors import FETCH_TRANSIENT
from ..protocol.errors import ErrorCode
from ..protocol.isolation import READ_COMMITTED, READ_UNCOMMITTED
from ..protocol.log_places import EARLIEST, LATEST_TIERED
from ..protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from .cluster_errors import ClusterError, explained
from .split import Split

if TYPE_CHECKING:
    from ..admin.session import Admin
    from ..admin.topics import Topic
    from ..tiers.lineage import OffsetAndEpoch
    from .tier import Tier

#: Bytes of one response; a larger batch comes alone.
_FETCH_BYTES = 8 << 20
#: One batch comes, whatever its size.
LEAST_FETCH_BYTES = 1
_MAX_WAIT_MS = 500
#: Limit of the time without a record while a leader is elected or a broker starts.
PATIENCE_S, _PAUSE_S = 30.0, 0.2
#: Limit of that time where a broker has another topic of the name: its metadata may be old.
_ANOTHER_ID_S = 2.0

#: The response has no partition, because it exceeds a quota.
_THROTTLED = ErrorCode.THROTTLING_QUOTA_EXCEEDED


class Cluster:
    """A connection to a cluster: `client` are Kafka's client properties, `bootstrap.servers` among them."""

    def __init__(self, client: Mapping[str, str]) -> None:
        self.client = dict(client)
        self._stack = contextlib.ExitStack()
        self.tier: Tier | None = None
        settings = store_settings(self.client)
        if settings is not None:
            from .tier import Tier

            self.tier = Tier(settings)
        #: (topic, partition) -> the leader and the topic's id.
        self._leaders: dict[tuple[str, int], tuple[int, bytes]] = {}
        with explained():
            self._admin: Admin = self._stack.enter_context(Connection(self.client).admin())

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *of_error: object) -> None:
        self.close()

    def close(self) -> None:
        self._stack.close()

    def cluster_id(self) -> str:
        """The cluster's id; "" where the cluster does not name it. Raises ClusterError."""
        with explained():
            return describe_cluster(self._admin).cluster_id or ""

    def topics(self) -> list[str]:
        with explained():
            return sorted(listed_topics(self._admin))

    def described(self, names: Sequence[str] | None = None) -> list[Topic]:
        """Topics as Metadata describes them: `name`, `topic_id`, `is_internal`, `partitions`. Raises ClusterError."""
        with explained():
            return described_topics(self._admin, names)

    def offsets(
        self, topics: Sequence[Topic], timestamp: int, *, committed: bool = False
    ) -> dict[tuple[str, int], int]:
        """Offsets by (topic, partition) of EARLIEST, LATEST or a time in ms, for which -1 is: no record has it or a later
        one. `topics`: described ones. Raises ClusterError, also for a partition without a leader.
        """
        with explained():
            found = partition_offsets(self._admin, topics, timestamp, committed=committed)
        for topic in topics:
            for partition in topic.partitions:
                if (topic.name, partition.partition_index) not in found:
                    raise ClusterError(f"{topic.name}-{partition.partition_index} has no leader at the moment")
        return found

    def sizes(self, topics: Sequence[Topic]) -> dict[tuple[str, int], int]:
        """Bytes of partitions by DescribeLogDirs; nothing where the cluster does not say."""
        try:
            with explained():
                return replica_sizes(
                    self._admin,
                    {topic.name: [one.partition_index for one in topic.partitions] for topic in topics},
                )
        except ClusterError:  # denied
            return {}

    def log_directories(self, topic: str, partitions: Sequence[int]) -> list[BrokerDirectories]:
        """The directories of the brokers, with these partitions of a topic. Raises ClusterError."""
        with explained():
            return describe_log_dirs(self._admin, {topic: list(partitions)})

    def latest_tiered(self, topic: Topic) -> dict[int, OffsetAndEpoch]:
        """The last offset in the remote store, and its leader epoch, of partitions that have one (KIP-1005)."""
        from ..tiers.lineage import OffsetAndEpoch

        asked = {(topic.name, one.partition_index): LATEST_TIERED for one in topic.partitions}
        with explained():
            found = list_offsets(self._admin, asked)
        return {
            index: OffsetAndEpoch(one.offset, one.leader_epoch)
            for (_, index), one in found.items()
            if one.offset >= 0 and one.leader_epoch is not None
        }

    def aborted_of(self, split: Split, offset: int) -> list[tuple[int, int]] | None:
        """Aborted transactions, (producer id, first offset), that a reader of committed records gets with those from
        `offset` on; None where none is there, or stable.
        """
        found = self.fetch(replace(split, aborted=()), offset, LEAST_FETCH_BYTES)
        if found.error_code or not found.records:
            return None
        return [(one.producer_id, one.first_offset) for one in found.aborted_transactions or ()]

    def fetch(self, split: Split, offset: int, most_bytes: int = _FETCH_BYTES) -> PartitionData:
        """The response of the partition's leader for one offset, without transient errors. Raises ClusterError."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                with explained():
                    found = self._admin.repeated(lambda: self._fetched(split, offset, most_bytes))
            except ClusterError as error:
                _wait_for_broker(error, deadline)
                continue
            code = ErrorCode(found.error_code)
            if (code is not _THROTTLED and code not in FETCH_TRANSIENT) or time.monotonic() > deadline:
                return found
            if code is _THROTTLED:
                continue  # the time was waited
            if code is ErrorCode.UNKNOWN_TOPIC_ID and self._has_another_id(split):
                deadline = min(deadline, time.monotonic() + _ANOTHER_ID_S)
            time.sleep(_PAUSE_S)
            self._leaders.clear()

    def _has_another_id(self, split: Split) -> bool:
        """Whether the split's topic was deleted and its name is that of another one, by a broker."""
        with explained():
            found = existing_topics(self._admin.impatient, [split.topic])
        return bool(found) and split.topic_id is not None and found[0].id_in_requests != split.topic_id

    def _fetched(self, split: Split, offset: int, most_bytes: int) -> PartitionData:
        known = self._leaders.get((split.topic, split.partition))
        if known is None or split.topic_id not in (None, known[1]):  # the topic was created again
            known = self._leader(split)
        leader, topic_id = known
        if leader < 0:
            return PartitionData(split.partition, ErrorCode.LEADER_NOT_AVAILABLE)
        partition = FetchPartition(partition=split.partition, fetch_offset=offset, partition_max_bytes=most_bytes)
        # Until the response is here: a connection that breaks leaves no leader that is gone.
        self._leaders.pop((split.topic, split.partition), None)
        request = FetchRequest(
            max_wait_ms=_MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=most_bytes,
            isolation_level=READ_COMMITTED if split.is_read_committed else READ_UNCOMMITTED,
            topics=[FetchTopic(topic=split.topic, topic_id=topic_id, partitions=[partition])],
        )
        response = self._admin.impatient.ask(request, leader)
        self._leaders[split.topic, split.partition] = leader, topic_id
        if response.error_code:
            return PartitionData(split.partition, response.error_code)
        if not response.responses:  # a quota holds the records back (KIP-219)
            time.sleep(min(max(response.throttle_time_ms / 1000, _PAUSE_S), PATIENCE_S))
            return PartitionData(split.partition, _THROTTLED)
        return response.responses[0].partitions[0]

    def _leader(self, split: Split) -> tuple[int, bytes]:
        (described,) = described_topics(self._admin.impatient, [split.topic])
        found = described.leaders.get(split.partition, -1), split.topic_id or described.id_in_requests
        self._leaders[split.topic, split.partition] = found
        return found

    def log_start(self, split: Split) -> int:
        with explained():
            (described,) = described_topics(self._admin, [split.topic])
            return partition_offsets(self._admin, [described], EARLIEST)[split.topic, split.partition]


def connected(client: Mapping[str, str]) -> Cluster:
    """A connection for a plan that is made: the brokers were there, and come back from a restart. Raises ClusterError."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return Cluster(client)
        except ClusterError as error:
            _wait_for_broker(error, deadline)


def _wait_for_broker(error: ClusterError, deadline: float) -> None:
    """Waits after an error of a broker that may be starting again; raises others, and those behind the deadline."""
    if error.kind != ErrorKind.UNREACHABLE or time.monotonic() > deadline:
        raise error
    time.sleep(_PAUSE_S)
