"""Single requests to coordinators, by no client that retries or hides: members of a classic group, offsets, producer ids."""

from __future__ import annotations

from typing import Any

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from odradek.protocol.schema import Message

from compat_tests.asking import GROUP, coordinator_of
from compat_tests.wire import WireClient

from .client import SESSION_S, Refused, Unknown

TRANSACTION = 1
#: The subscription of version 0 to no topic, and an assignment without partitions.
_SUBSCRIPTION = _NOTHING = bytes(6) + b"\xff\xff\xff\xff"
_TIMEOUT_S = 8.0
#: Errors that a coordinator returns before it writes anything. COORDINATOR_NOT_AVAILABLE is none of them: it also stands for
#: a write that was not replicated in time, and may still be.
_BEFORE_A_WRITE = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.FENCED_INSTANCE_ID,
}


class CoordinatorClient:
    """Requests to the coordinator of one group or transactional id. A method raises `Refused` or `Unknown`."""

    def __init__(self, bootstrap: str, key: str, key_type: int = GROUP) -> None:
        self._bootstrap, self._key, self._key_type = bootstrap, key, key_type
        self._wire: WireClient | None = None

    def call(self, request: Message, version: int) -> Any:
        try:
            return self._connected().call(request, version)
        except OSError as error:
            self.close()
            raise Unknown(str(error)) from None

    def _connected(self) -> WireClient:
        if self._wire is None:
            found = coordinator_of(self._bootstrap, self._key, self._key_type)
            if found is None:
                raise Refused("no coordinator")
            try:
                self._wire = WireClient(f"{found.host}:{found.port}", timeout=_TIMEOUT_S)
            except OSError as error:
                raise Refused(str(error)) from None
        return self._wire

    def check(self, code: int) -> None:
        if code != ErrorCode.NONE:
            self.close()
            raise Refused(str(code)) if code in _BEFORE_A_WRITE else Unknown(str(code))

    def close(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    def commit(self, topic: str, offset: int, generation: int = -1, member_id: str = "") -> None:
        """Commits the offset of partition 0."""
        part = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
        response = self.call(
            OffsetCommitRequest(
                group_id=self._key,
                generation_id_or_member_epoch=generation,
                member_id=member_id,
                topics=[OffsetCommitRequestTopic(name=topic, partitions=[part])],
            ),
            8,
        )
        self.check(response.topics[0].partitions[0].error_code)

    def committed(self, topic: str, partition: int = 0) -> int | None:
        """Returns the offset of the partition, None if there is none."""
        topics = [OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])]
        group = OffsetFetchRequestGroup(group_id=self._key, topics=topics)
        response = self.call(OffsetFetchRequest(groups=[group], require_stable=True), 8).groups[0]
        self.check(response.error_code)
        part = response.topics[0].partitions[0]
        self.check(part.error_code)
        return None if part.committed_offset < 0 else part.committed_offset

    def init_producer(self) -> int:
        """Begins a new epoch of the transactional id, and returns producer id and epoch as one number."""
        request = InitProducerIdRequest(transactional_id=self._key, transaction_timeout_ms=10_000)
        response = self.call(request, 4)
        self.check(response.error_code)
        return int(response.producer_id << 16 | response.producer_epoch)


class RawMember:
    """A member of a classic group. It has no thread: it is silent between calls."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self._client = CoordinatorClient(bootstrap, group)
        self._group = group
        self.member_id, self.generation = "", -1

    def join(self) -> None:
        """Joins and syncs; returns in a new generation. Raises `Refused` if another try is needed."""
        protocols = [JoinGroupRequestProtocol(name="range", metadata=_SUBSCRIPTION)]
        request = JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=int(SESSION_S * 1000),
            rebalance_timeout_ms=int(SESSION_S * 1000),
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=protocols,
        )
        joined = self._client.call(request, 5)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
            raise Refused("joins with its id")
        self._renewed(joined.error_code)
        self.member_id = joined.member_id
        members = joined.members if joined.leader == joined.member_id else []
        synced = self._client.call(
            SyncGroupRequest(
                group_id=self._group,
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                assignments=[SyncGroupRequestAssignment(one.member_id, _NOTHING) for one in members],
            ),
            3,
        )
        self._renewed(synced.error_code)
        self.generation = joined.generation_id

    def heartbeat(self) -> bool:
        """Returns whether the generation goes on."""
        request = HeartbeatRequest(group_id=self._group, generation_id=self.generation, member_id=self.member_id)
        return bool(self._client.call(request, 3).error_code == ErrorCode.NONE)

    def commit(self, topic: str, offset: int) -> None:
        self._client.commit(topic, offset, self.generation, self.member_id)

    def _renewed(self, code: int) -> None:
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        self._client.check(code)

    def close(self) -> None:
        self._client.close()
