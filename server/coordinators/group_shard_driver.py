"""Drives the shard of one partition of `__consumer_offsets`.

In addition to the common shard driver it handles topic deletions, the metadata image for assignments, generated
member ids, and transaction markers. A shard gets the published image with each request and timer; only groups that are
assigned partitions of topics follow changes of topics.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from ...coordinator.groups.group_counters import GroupCounters
from ...coordinator.groups.kinds import Kinds
from ...coordinator.groups.offsets_topic_records import encode_record
from ...coordinator.groups.shard import GroupShard, group_error_response
from ...coordinator.groups.shard_loader import ShardLoader
from ...coordinator.groups_config import GroupsConfig
from ...coordinator.result import GroupRequest, MetadataChanged, TopicsDeleted
from ...protocol.records.compression import Compression
from ..runtime.metadata_cache import MetadataCache
from .group_kinds import broker_kinds
from .open_requests import Client, DescribingClient, Pending
from .shard_driver import ShardDriver

if TYPE_CHECKING:
    from ...metadata.delta import Part
    from ..partitions.hosted_partition import HostedPartition
    from ..partitions.transaction_marker import Marker


@dataclass(frozen=True, slots=True)
class SharedByShards:
    """The common parts of all group shards on a broker. `interest`: the parts of the metadata that their groups follow."""

    metadata: MetadataCache
    kinds: Kinds = field(default_factory=broker_kinds)
    interest: set[Part] = field(default_factory=set)
    counters: GroupCounters = field(default_factory=GroupCounters)


class GroupShardDriver(ShardDriver[GroupShard]):
    """Drives the shard of one partition of `__consumer_offsets`."""

    def __init__(
        self,
        partition: HostedPartition,
        config: GroupsConfig,
        clock: Callable[[], int],
        commit_timeout_ms: int,
        compression: Compression = Compression.NONE,
        shared: SharedByShards | None = None,
    ) -> None:
        shared = shared or SharedByShards(MetadataCache())
        self._kinds = kinds = shared.kinds
        self._encode = partial(encode_record, kinds)
        self._error_response = partial(group_error_response, kinds)
        super().__init__(partition, config, clock, commit_timeout_ms, compression)
        self._metadata, self._interest, self._counters = shared.metadata, shared.interest, shared.counters
        #: Topic deletions that arrived while the log was loading.
        self._deletions: list[TopicsDeleted] = []

    def _new_loader(self) -> ShardLoader:
        return ShardLoader(self._config, self._kinds, self.partition.name)

    def _loaded(self, loader: ShardLoader) -> None:
        state = loader.shard.state
        self._interest |= state.interest
        state.image, state.interest, state.counters = self._metadata.newest, self._interest, self._counters
        super()._loaded(loader)
        deletions, self._deletions = self._deletions, []
        for deletion in deletions:
            self.topics_deleted(deletion)

    def _message(self, pending: Pending, version: int, client: Client) -> GroupRequest:
        assert self._shard is not None, "the shard is not loaded"
        self._shard.state.image = self._metadata.newest
        request: Any = pending.request
        member_uuid = str(uuid.uuid4()) if type(request) in self._kinds.joins and not request.member_id else ""
        message = GroupRequest(pending, request, version, client.client_id or "", client.client_host, member_uuid)
        if isinstance(client, DescribingClient):
            message.describable = client.describable
        return message

    def end_transaction(self, marker: Marker, done: Callable[[int], None]) -> None:
        """Writes a transaction's marker after all earlier decisions. `done` gets an error code, or 0."""
        self._turn()
        shard = self._shard
        if shard is None:
            done(self._unavailable_error)
            return
        result = self.partition.end_transaction(marker, self._clock())
        if result.error:
            done(result.error)
            return
        shard.end_of_transaction(marker.producer_id, marker.committed)
        shard.state.next_offset += 1
        self.partition.when_committed(result.end_offset, done)

    def hand_over(self, done: Callable[[int], None]) -> None:
        """Writes what the next coordinator is to know. `done` gets an error code, or 0 when that is committed."""
        shard, now_ms = self._shard, self._clock()
        if shard is None:
            done(self._unavailable_error)
            return
        shard.state.image = self._metadata.newest
        try:
            shard.hand_over(now_ms)
        except Exception:
            self._failed_by_bug("the handover")
            done(self._unavailable_error)
            return
        self._collect_output(shard, now_ms)
        self._turn()
        self.partition.when_committed(self.partition.log_end_offset, done)

    def metadata_changed(self, message: MetadataChanged) -> None:
        """Has the groups follow changes of topics. A shard that is loading begins with the image of its end."""
        if self._shard is not None:
            self.tell(message)

    def _expire(self, shard: GroupShard, now_ms: int) -> None:
        shard.state.image = self._metadata.newest
        shard.expire(now_ms)

    def topics_deleted(self, message: TopicsDeleted) -> None:
        """Applies topic deletions. While the log is loading, they are kept until the shard is loaded."""
        if self._shard is None:
            self._deletions.append(message)
        else:
            self.tell(message)
