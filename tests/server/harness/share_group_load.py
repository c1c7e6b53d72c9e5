"""A load of a share group: one record at a time, which any of many waiting members may take."""

from __future__ import annotations

import time
import uuid

from odradek.protocol.messages.acknowledgement_batches import AcknowledgementBatch
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.messages.share_fetch import ShareFetchPartition, ShareFetchRequest, ShareFetchTopic
from odradek.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from odradek.protocol.records.record import Record, encode_batch

from benchmarks.many_clients import WAIT_MS, Clients, Requesting
from compat_tests.recipes import eventually
from compat_tests.wire import WireClient

_PRODUCE, _METADATA, _FIND = 12, 12, 6
_HEARTBEAT, _SHARE_FETCH = 1, 2
_GROUP_KEY = 0
_ACCEPT = 1
_VALUE = bytes(100)


class ShareMember(Requesting):
    """A member that acquires one record at a time, and accepts it with its next fetch."""

    def __init__(self, bootstrap: str, topic: str, topic_id: bytes) -> None:
        super().__init__(bootstrap)
        self._group, self._topic, self._topic_id = topic, topic, topic_id
        self._id = str(uuid.uuid4())
        self._member_epoch = self._session_epoch = 0
        self._acknowledged: list[AcknowledgementBatch] = []
        request = FindCoordinatorRequest(key_type=_GROUP_KEY, coordinator_keys=[topic])
        eventually(lambda: not self.client.call(request, _FIND).coordinators[0].error_code, what="a coordinator")
        eventually(self._is_assigned, what="an assignment")

    def _is_assigned(self) -> bool:
        request = ShareGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self._id,
            member_epoch=self._member_epoch,
            subscribed_topic_names=None if self._member_epoch else [self._topic],
        )
        response = self.client.call(request, _HEARTBEAT)
        self._member_epoch = max(self._member_epoch, response.member_epoch)
        return response.assignment is not None and bool(response.assignment.topic_partitions)

    def fetch(self, wait_ms: int = WAIT_MS) -> None:
        partition = ShareFetchPartition(partition_index=0, acknowledgement_batches=self._acknowledged)
        request = ShareFetchRequest(
            group_id=self._group,
            member_id=self._id,
            share_session_epoch=self._session_epoch,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_records=1,
            batch_size=1,
            topics=[ShareFetchTopic(topic_id=self._topic_id, partitions=[partition])],
        )
        self.send(request, _SHARE_FETCH)

    def acquired(self) -> int:
        """Receives the response. Returns its number of records."""
        response = self.receive()
        assert not response.error_code, response
        self._session_epoch += 1
        parts = [part for topic in response.responses for part in topic.partitions]
        assert not any(part.error_code or part.acknowledge_error_code for part in parts), parts
        found = [one for part in parts for one in part.acquired_records]
        self._acknowledged = [AcknowledgementBatch(one.first_offset, one.last_offset, [_ACCEPT]) for one in found]
        return sum(one.last_offset - one.first_offset + 1 for one in found)


class ShareGroupLoad:
    """One record at a time, which any of the waiting members may take, whatever their number."""

    def __init__(self, bootstrap: str, topic: str, members: int) -> None:
        self._producer = WireClient(bootstrap)
        topic_id = (
            self._producer.call(MetadataRequest([MetadataRequestTopic(name=topic)]), _METADATA).topics[0].topic_id
        )
        made = [ShareMember(bootstrap, topic, topic_id) for _ in range(members)]
        for one in made:
            one.fetch(wait_ms=0)  # a session; the first loads the share partition
            one.acquired()
            one.fetch()
        self.clients = Clients(made)
        batch = encode_batch([Record(0, time.time_ns() // 10**6, None, _VALUE)])
        data = TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch)])
        self._request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data])

    def run(self, records: int) -> None:
        for _ in range(records):
            self._producer.call(self._request, _PRODUCE)
            acquired = 0
            while not acquired:
                for one in self.clients.ready():
                    acquired += one.acquired()
                    one.fetch()

    def close(self) -> None:
        self._producer.close()
        self.clients.__exit__(None, None, None)
