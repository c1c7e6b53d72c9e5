"""A running broker's topic: offsets, directories that this machine has, and records through Fetch.

Records of closed segments come from files where DescribeLogDirs names a directory of this machine: one with the cluster's
and the broker's id in `meta.properties`, and the topic's id beside the segments. What a remote store has (tier.py) is read
from there, if the properties name it. The newest segment, and everything else, is fetched. So is what the files lack when
they are read: they may have moved since the plan.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from ..admin.connection import Connection
from ..admin.log_directories import describe_log_dirs
from ..admin.log_offsets import EARLIEST, LATEST, LATEST_TIERED, list_offsets, partition_offsets
from ..admin.nodes import describe_cluster
from ..admin.readings import replica_sizes
from ..admin.topics import described_topics
from ..admin.topics import list_topics as listed_topics
from ..client.error_kinds import ErrorKind
from ..client.explained_errors import from_library
from ..client.properties import store_settings
from ..client.user_errors import UserError
from ..protocol.errors import ErrorCode
from ..protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from ..protocol.records.batch import CONTROL_FLAG
from ..storage.files.failures import LogDirectoryFailure
from ..storage.files.meta_properties import InvalidMetaProperties, read_meta_properties
from ..tiers.segment_metadata import METADATA_TOPIC, TopicIdPartition
from . import kernel, layout
from .batches import Aborted, BatchDecoder, data_rows
from .directory import end_of, segments_of, topic_id_of, transactions_of
from .errors import InvalidScan, ScanError, Unread
from .layout import Numbers
from .plan import PartitionPlan, Plan, Request, bounded, chosen_partitions, splits_of_files
from .reading import Batches, FileReader, ReadOptions, Split, SplitReader

if TYPE_CHECKING:
    from ..admin.session import Admin
    from ..admin.topics import Topic
    from ..tiers.cache import RemoteLogMetadataCache
    from ..tiers.lineage import OffsetAndEpoch
    from .tier import MetadataEvents, RemoteReader, Tier


#: Bytes of one response; a larger batch comes alone.
_FETCH_BYTES = 8 << 20
#: One batch comes, whatever its size.
_LEAST_FETCH_BYTES = 1
_MAX_WAIT_MS = 500
#: Limit of the time without a record while a leader is elected or a broker starts.
_PATIENCE_S, _PAUSE_S = 30.0, 0.2
_ROWS = 8192
_FAR = 1 << 62

#: The response has no partition, because it exceeds a quota.
_THROTTLED = ErrorCode.THROTTLING_QUOTA_EXCEEDED
_PASSING = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.OFFSET_NOT_AVAILABLE,
    )
)  # fmt: skip


class ClusterError(ScanError):
    """The cluster does not answer, or denies a request. `kind`: by what a user does about it."""

    def __init__(self, message: str, kind: ErrorKind = ErrorKind.FAILED) -> None:
        super().__init__(message)
        self.kind = kind


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Raises errors of the client libraries as ClusterError."""
    try:
        yield
    except UserError as error:
        raise ClusterError(str(error), error.kind) from None
    except ScanError:
        raise
    except Exception as error:
        found = from_library(error)
        if found is None:
            raise
        raise ClusterError(str(found), found.kind) from None


def _denied(topic: str) -> ClusterError:
    name = ErrorCode.TOPIC_AUTHORIZATION_FAILED.name
    return ClusterError(
        f"topic {topic}: not authorized to read it ({name}): the user needs READ on it", ErrorKind.DENIED
    )


def _wait_for_broker(error: ClusterError, deadline: float) -> None:
    """Waits after an error of a broker that may be starting again; raises others, and those behind the deadline."""
    if error.kind != ErrorKind.UNREACHABLE or time.monotonic() > deadline:
        raise error
    time.sleep(_PAUSE_S)


def connected(client: Mapping[str, str]) -> Cluster:
    """A connection for a plan that is made: the brokers were there, and come back from a restart. Raises ClusterError."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return Cluster(client)
        except ClusterError as error:
            _wait_for_broker(error, deadline)


class Cluster:
    """A connection to a cluster: `client` are Kafka's client properties, `bootstrap.servers` among them."""

    def __init__(self, client: Mapping[str, str]) -> None:
        self.client = dict(client)
        self._stack = contextlib.ExitStack()
        self._tier: Tier | None = None
        settings = store_settings(self.client)
        if settings is not None:
            from .tier import Tier

            self._tier = Tier(settings)
        #: (topic, partition) -> the leader and the topic's id.
        self._leaders: dict[tuple[str, int], tuple[int, bytes]] = {}
        with _explained():
            self._admin: Admin = self._stack.enter_context(Connection(self.client).admin())

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *of_error: object) -> None:
        self.close()

    def close(self) -> None:
        self._stack.close()

    # ---- the plan

    def cluster_id(self) -> str:
        """The cluster's id; "" where the cluster does not name it. Raises ClusterError."""
        with _explained():
            return describe_cluster(self._admin).cluster_id or ""

    def topics(self) -> list[str]:
        with _explained():
            return sorted(listed_topics(self._admin))

    def described(self, names: Sequence[str] | None = None) -> list[Topic]:
        """Topics as Metadata describes them: `name`, `topic_id`, `is_internal`, `partitions`. Raises ClusterError."""
        with _explained():
            return described_topics(self._admin, names)

    def offsets(
        self, topics: Sequence[Topic], timestamp: int, *, committed: bool = False
    ) -> dict[tuple[str, int], int]:
        """Offsets by (topic, partition) of EARLIEST, LATEST or a time in ms, for which -1 is: no record has it or a later
        one. `topics`: described ones. Raises ClusterError, also for a partition without a leader.
        """
        with _explained():
            found = partition_offsets(self._admin, topics, timestamp, committed=committed)
        for topic in topics:
            for partition in topic.partitions:
                if (topic.name, partition.partition_index) not in found:
                    raise ClusterError(f"{topic.name}-{partition.partition_index} has no leader at the moment")
        return found

    def sizes(self, topics: Sequence[Topic]) -> dict[tuple[str, int], int]:
        """Bytes of partitions by DescribeLogDirs; nothing where the cluster does not say."""
        try:
            with _explained():
                return replica_sizes(
                    self._admin,
                    {topic.name: [one.partition_index for one in topic.partitions] for topic in topics},
                )
        except ClusterError:  # denied
            return {}

    def plan(self, topic: str, request: Request) -> Plan:
        """Raises ClusterError, InvalidScan, RemoteStoreUnavailable, ScanError."""
        return self._plan(topic, request, self._tier)

    def _plan(self, topic: str, request: Request, tier: Tier | None) -> Plan:
        with _explained():
            (described,) = described_topics(self._admin, [topic])
            known = [one.partition_index for one in described.partitions]
            chosen = chosen_partitions(topic, known, request)
            asked = replace(described, partitions=[described.partitions[known.index(one)] for one in chosen])
            starts = partition_offsets(self._admin, [asked], EARLIEST)
            ends = partition_offsets(self._admin, [asked], LATEST, committed=request.committed)
        topic_id = _uuid_bytes(described.topic_id)
        directories = self._directories(topic, topic_id, chosen)
        tiered = None if tier is None or topic_id is None else _Tiered(self, tier, topic_id, asked)
        made = []
        for one in chosen:
            if (topic, one) not in starts or (topic, one) not in ends:
                raise ClusterError(f"{topic}-{one} has no leader at the moment")
            log_start, log_end = starts[topic, one], ends[topic, one]
            start, end = bounded(topic, one, log_start, log_end, request)
            fetched = Split(
                topic, one, start, end, None, topic_id, aborted=() if request.committed else None,
                first_timestamp=request.times[0], last_timestamp=request.times[1], client=self.client,
            )  # fmt: skip
            splits = _splits(fetched, log_end, directories.get(one, ()), request, tiered)
            made.append(PartitionPlan(topic, one, start, end, log_start, log_end, splits))
        self._check_right_to_read(made)
        return Plan(topic, tuple(made))

    def _check_right_to_read(self, plans: Sequence[PartitionPlan]) -> None:
        """Raises ClusterError where the user may not read the topic, whose files this machine or a store has: one Fetch."""
        for plan in plans:
            split = next((one for one in plan.splits if one.path is not None or one.remote is not None), None)
            if split is not None and plan.log_end > plan.log_start:
                response = self.fetch(replace(split, aborted=None), plan.log_end - 1, _LEAST_FETCH_BYTES)
                if response.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                    raise _denied(split.topic)
                return

    def _directories(self, topic: str, topic_id: bytes | None, partitions: Sequence[int]) -> dict[int, list[str]]:
        """Partition -> its directories on this machine; nothing where the cluster does not name them."""
        found: dict[int, list[str]] = {}
        try:
            with _explained():
                cluster_id = describe_cluster(self._admin).cluster_id
                brokers = describe_log_dirs(self._admin, {topic: list(partitions)})
        except ClusterError:  # denied
            return found
        for broker in brokers:
            for directory in broker.log_dirs:
                path = directory.log_dir
                if not _is_of(path, cluster_id, broker.broker):
                    continue
                for one in (one for named in directory.topics for one in named.partitions):
                    log = f"{path}/{topic}-{one.partition_index}"
                    if not one.is_future_key and topic_id is not None and topic_id_of(log) == topic_id:
                        found.setdefault(one.partition_index, []).append(log)
        return found

    # ---- records

    def latest_tiered(self, topic: Topic) -> dict[int, OffsetAndEpoch]:
        """The last offset in the remote store, and its leader epoch, of partitions that have one (KIP-1005)."""
        from ..tiers.lineage import OffsetAndEpoch

        asked = {(topic.name, one.partition_index): LATEST_TIERED for one in topic.partitions}
        with _explained():
            found = list_offsets(self._admin, asked)
        return {
            index: OffsetAndEpoch(one.offset, one.leader_epoch)
            for (_, index), one in found.items()
            if one.offset >= 0 and one.leader_epoch is not None
        }

    def metadata_events(self, next_offsets: Mapping[int, int]) -> dict[int, MetadataEvents]:
        """The records of partitions of the metadata topic of tiered storage, from these offsets on."""
        from .tier import MetadataEvents

        plan = self._plan(METADATA_TOPIC, Request(list(next_offsets)), None)
        return {
            one.partition: MetadataEvents(one.log_start, one.end, self._events(one, next_offsets[one.partition]))
            for one in plan.partitions
        }

    def _events(self, plan: PartitionPlan, next_offset: int) -> Iterator[tuple[int, bytes | None]]:
        for split in plan.splits:
            first = max(split.first_offset, next_offset)
            if first < split.next_offset:
                rest = replace(split, first_offset=first, base_offset=-1, position=0)
                for batch in open_split(rest, ReadOptions(("offset", "value")), self):
                    yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

    def metadata_count(self) -> int:
        """The number of partitions of the metadata topic of tiered storage."""
        (described,) = self.described([METADATA_TOPIC])
        return len(described.partitions)

    def aborted_of(self, split: Split, offset: int) -> list[tuple[int, int]] | None:
        """Aborted transactions, (producer id, first offset), that a reader of committed records gets with those from
        `offset` on; None where none is there, or stable.
        """
        found = self.fetch(replace(split, aborted=()), offset, _LEAST_FETCH_BYTES)
        if found.error_code or not found.records:
            return None
        return [(one.producer_id, one.first_offset) for one in found.aborted_transactions or ()]

    def fetch(self, split: Split, offset: int, most_bytes: int = _FETCH_BYTES) -> PartitionData:
        """The response of the partition's leader for one offset, without passing errors. Raises ClusterError."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                with _explained():
                    found = self._admin.repeated(lambda: self._fetched(split, offset, most_bytes))
            except ClusterError as error:
                _wait_for_broker(error, deadline)
                continue
            code = ErrorCode(found.error_code)
            if (code is not _THROTTLED and code not in _PASSING) or time.monotonic() > deadline:
                return found
            if code is _THROTTLED:
                continue  # the time was waited
            time.sleep(_PAUSE_S)
            self._leaders.clear()

    def _fetched(self, split: Split, offset: int, most_bytes: int) -> PartitionData:
        leader, topic_id = self._leaders.get((split.topic, split.partition)) or self._leader(split)
        if leader < 0:
            return PartitionData(split.partition, ErrorCode.LEADER_NOT_AVAILABLE)
        partition = FetchPartition(partition=split.partition, fetch_offset=offset, partition_max_bytes=most_bytes)
        # Until the response is here: a connection that breaks leaves no leader that is gone.
        self._leaders.pop((split.topic, split.partition), None)
        request = FetchRequest(
            max_wait_ms=_MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=most_bytes,
            isolation_level=int(split.aborted is not None),
            topics=[FetchTopic(topic=split.topic, topic_id=topic_id, partitions=[partition])],
        )
        response = self._admin.impatient.ask(request, leader)
        self._leaders[split.topic, split.partition] = leader, topic_id
        if response.error_code:
            return PartitionData(split.partition, response.error_code)
        if not response.responses:  # a quota holds the records back (KIP-219)
            time.sleep(min(max(response.throttle_time_ms / 1000, _PAUSE_S), _PATIENCE_S))
            return PartitionData(split.partition, _THROTTLED)
        return response.responses[0].partitions[0]

    def _leader(self, split: Split) -> tuple[int, bytes]:
        (described,) = described_topics(self._admin.impatient, [split.topic])
        leaders = {one.partition_index: one.leader_id for one in described.partitions}
        found = (
            leaders.get(split.partition, -1),
            split.topic_id or _uuid_bytes(described.topic_id) or bytes(16),
        )
        self._leaders[split.topic, split.partition] = found
        return found

    def log_start(self, split: Split) -> int:
        with _explained():
            (described,) = described_topics(self._admin, [split.topic])
            return partition_offsets(self._admin, [described], EARLIEST)[split.topic, split.partition]


def _splits(
    fetched: Split, log_end: int, directories: Sequence[str], request: Request, tiered: _Tiered | None
) -> tuple[Split, ...]:
    """Splits of closed segments that a directory of this machine has, then of those of a remote store, and fetched ones of
    the rest.
    """
    local, known = _local_splits(fetched, log_end, directories, request)
    head = replace(fetched, next_offset=local[0].first_offset) if local else fetched
    remote = () if tiered is None or _is_empty(head) else tiered.splits(head, request.split_bytes, known)
    before = replace(head, first_offset=remote[-1].next_offset) if remote else head
    after = replace(fetched, first_offset=local[-1].next_offset if local else fetched.next_offset)
    made = [*remote, before, *local, after]
    return tuple(one for one in made if not _is_empty(one))


def _is_empty(split: Split) -> bool:
    return split.first_offset >= split.next_offset


def _local_splits(
    fetched: Split, log_end: int, directories: Sequence[str], request: Request
) -> tuple[tuple[Split, ...], tuple[Aborted, ...] | None]:
    """The splits of closed segments of a directory, and the aborted transactions that end in it."""
    for path in directories:
        with contextlib.suppress(OSError, ScanError):
            segments = segments_of(path)
            if len(segments) < 2 or end_of(segments[-1])[0] < log_end:
                continue  # a follower that is behind: it may lack a marker, too
            first = max(fetched.first_offset, segments[0].base_offset)
            end = min(fetched.next_offset, segments[-1].base_offset)
            aborted = transactions_of(path, segments).aborted if request.committed else None
            if first >= end:
                return (), aborted
            local = replace(fetched, path=path, first_offset=first, next_offset=end, aborted=aborted)
            return splits_of_files(local, segments, request.split_bytes), aborted
    return (), None


class _Tiered:
    """The remote part of a topic, for one plan. The metadata is read where a partition needs it."""

    def __init__(self, cluster: Cluster, tier: Tier, topic_id: bytes, topic: Topic) -> None:
        self._cluster = cluster
        self._tier = tier
        self._topic_id = topic_id
        self._topic = topic
        self._latest: dict[int, OffsetAndEpoch] | None = None
        self._caches: dict[TopicIdPartition, RemoteLogMetadataCache] | None = None

    def splits(self, head: Split, split_bytes: int, known: Sequence[Aborted] | None) -> tuple[Split, ...]:
        """Splits of what the store has of `head`. `known`: the aborted transactions that end behind it, where a directory
        has them.
        """
        if self._latest is None:
            self._latest = self._cluster.latest_tiered(self._topic)
        latest = self._latest.get(head.partition)
        if latest is None or latest.offset < head.first_offset:
            return ()
        if self._caches is None:
            partitions = [TopicIdPartition(self._topic_id, head.topic, one) for one in self._latest]
            self._caches = self._tier.caches(partitions, self._cluster.metadata_count(), self._cluster.metadata_events)
        cache = self._caches[TopicIdPartition(self._topic_id, head.topic, head.partition)]

        def outcomes(offset: int) -> list[tuple[int, int]] | None:
            if known is not None:
                return [(one.producer_id, one.first_offset) for one in known]
            return self._cluster.aborted_of(head, offset)

        return self._tier.splits(head, cache, latest, split_bytes, outcomes)


def _is_of(path: str, cluster_id: str, node_id: int | None) -> bool:
    if not os.path.isdir(path):
        return False
    with contextlib.suppress(InvalidMetaProperties, LogDirectoryFailure):
        found = read_meta_properties(path)
        return found is not None and found.cluster_id == cluster_id and node_id in (None, found.node_id)
    return False


def _uuid_bytes(topic_id: object) -> bytes | None:
    if topic_id is None:
        return None
    from uuid import UUID

    return UUID(str(topic_id)).bytes


class FetchReader(SplitReader):
    """Yields the records of a split through the partition's leader."""

    def __init__(self, split: Split, options: ReadOptions, cluster: Cluster | None = None) -> None:
        super().__init__(split, options)
        self._cluster = cluster
        self._source = f"Fetch from {(split.client or {}).get('bootstrap.servers', 'the brokers')}"
        #: The offset at which the leader has a batch of the split that is not committed yet.
        self._unstable_at = -1

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self._read(self._options.columns)

    def count(self) -> int:
        """The number of records. All of them are fetched."""
        return sum(batch.num_rows for batch in self._read(()))

    def _read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        if self._cluster is not None:
            yield from self._read_from(self._cluster, columns)
        else:
            assert self.split.client is not None
            with connected(self.split.client) as cluster:
                yield from self._read_from(cluster, columns)

    def _read_from(self, cluster: Cluster, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        split = self.split
        decoder = self._new_decoder(columns)
        rows = np.empty((_ROWS, layout.HEADER_COLUMNS), np.int64)
        last_progress = time.monotonic()
        while self.next_offset < split.next_offset:
            response = cluster.fetch(split, self.next_offset)
            if response.error_code:
                self._failed(cluster, response)
                continue
            data = memoryview(response.records or b"")
            view = np.frombuffer(data, np.uint8) if len(data) else np.empty(0, np.uint8)
            count, _, result = kernel.walk_headers(view, 0, len(view), 0, 0, True, rows)
            if count:
                yield from self._of_response(decoder, data, rows[:count], _ended(response, rows[:count]))
                last_progress = time.monotonic()
            elif len(data) and result != layout.END_OF_BUFFER:
                self._missing(split.next_offset, "the broker's response has no batch")
            elif self._has_no_more(cluster):
                self._end_faulty(split.next_offset)
                self._advance(split.next_offset)
            elif time.monotonic() - last_progress > _PATIENCE_S:
                self._missing(split.next_offset, f"the leader returned no record for {_PATIENCE_S:g} s")

    def _has_no_more(self, cluster: Cluster) -> bool:
        """Returns whether compaction has removed all offsets that are left.

        The leader returns no committed record then, where an open transaction is next.
        """
        split = self.split
        if split.aborted is None or self._unstable_at == self.next_offset:
            return False
        response = cluster.fetch(replace(split, aborted=None), self.next_offset, _LEAST_FETCH_BYTES)
        view = np.frombuffer(response.records or b"", np.uint8)
        row = np.empty((1, layout.HEADER_COLUMNS), np.int64)
        count, _, _ = kernel.walk_headers(view, 0, len(view), 0, 0, False, row)
        if not count:
            return False
        # The cleaner leaves uncommitted batches alone, so that one does not go before the leader returns it.
        self._unstable_at = self.next_offset
        return int(row[0, layout.BASE_OFFSET]) >= split.next_offset

    def _of_response(
        self, decoder: BatchDecoder, data: memoryview, rows: Numbers, aborted: Sequence[Aborted]
    ) -> Iterator[pa.RecordBatch]:
        self._end_faulty(int(rows[0, layout.BASE_OFFSET]))
        bounds = self.split.bounds._replace(first_offset=self.next_offset)
        wanted = data_rows(rows, bounds, aborted if self.split.aborted is not None else None)
        yield from self._decoded(decoder, Batches(self._source, data, None, rows, wanted, bounds))
        self._advance(int(rows[-1, layout.BASE_OFFSET] + rows[-1, layout.LAST_DELTA]) + 1)

    def _failed(self, cluster: Cluster, response: PartitionData) -> None:
        code = ErrorCode(response.error_code)
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            start = cluster.log_start(self.split)
            if start > self.next_offset:
                self._missing(start, "removed by retention or DeleteRecords since the scan was planned")
            else:
                self._missing(self.split.next_offset, "the log ends before: it was truncated")
        elif code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise _denied(self.split.topic)
        else:
            self._missing(self.split.next_offset, f"the leader returned {code.name}")

    def _missing(self, next_offset: int, reason: str) -> None:
        self._unreadable(next_offset, self._source, -1, reason)


def _ended(response: PartitionData, rows: Numbers) -> list[Aborted]:
    """The aborted transactions of a response: each ends at the next marker of its producer, here or later."""
    control = rows[rows[:, layout.ATTRIBUTES] & CONTROL_FLAG != 0]
    found = []
    for one in response.aborted_transactions or ():
        markers = control[
            (control[:, layout.PRODUCER_ID] == one.producer_id) & (control[:, layout.BASE_OFFSET] > one.first_offset)
        ]
        last = int(markers[0, layout.BASE_OFFSET]) if len(markers) else _FAR
        found.append(Aborted(one.producer_id, one.first_offset, last))
    return found


class LocalReader:
    """Reads a split from files, and from the brokers what the files no longer have."""

    def __init__(self, split: Split, options: ReadOptions, cluster: Cluster | None = None) -> None:
        self.split = split
        self._options = options
        self._cluster = cluster
        self._readers: list[FileReader | FetchReader] = [FileReader(split, options, stops_when_gone=True)]

    @property
    def next_offset(self) -> int:
        return self._readers[-1].next_offset

    @property
    def unread(self) -> list[Unread]:
        return [unread for reader in self._readers for unread in reader.unread]

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        yield from self._readers[0]
        rest = self._rest()
        if rest is not None:
            yield from rest

    def count(self) -> int:
        found = self._readers[0].count()
        rest = self._rest()
        return found if rest is None else found + rest.count()

    def _rest(self) -> FetchReader | None:
        if self.next_offset >= self.split.next_offset:
            return None
        rest = replace(self.split, first_offset=self.next_offset, path=None)
        self._readers.append(made := FetchReader(rest, self._options, self._cluster))
        return made


Reader: TypeAlias = "FileReader | FetchReader | LocalReader | RemoteReader"


def _log_start(cluster: Cluster | None) -> Callable[[Split], int]:
    """Asks a cluster, over a connection in use or a new one, where the log of a split starts."""

    def asked(split: Split) -> int:
        if cluster is not None:
            return cluster.log_start(split)
        assert split.client is not None
        with connected(split.client) as made:
            return made.log_start(split)

    return asked


def open_split(split: Split, options: ReadOptions, cluster: Cluster | None = None) -> Reader:
    """The reader of a split, which opens nothing before it is iterated. `cluster`: a connection in use."""
    if split.remote is not None:
        from .tier import RemoteReader

        return RemoteReader(split, options, _log_start(cluster) if split.client is not None else None)
    if split.path is None:
        if split.client is None:
            raise InvalidScan("a split needs a path or a client")
        return FetchReader(split, options, cluster)
    return FileReader(split, options) if split.client is None else LocalReader(split, options, cluster)


def read_split(
    split: Split, columns: Sequence[str], *, on_unreadable: str = "raise", check_crcs: bool = True
) -> Reader:
    """An iterable of the split's RecordBatches with these columns of SCHEMA, in this order.

    Its `next_offset` is the offset up to which the split is read, and `unread` lists the offsets that could not be.
    """
    return open_split(split, ReadOptions(columns, on_unreadable == "skip", check_crcs))
