"""Single requests by topic id, without retries: an error proves more here than in a client that tries again.

A key's topic is the id of the topic as text, so that a topic that is created again is another one. Batches have no producer
id, and readers do not leave out aborted transactions.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.records.batch import iter_headers
from odradek.protocol.records.record import Record, decode_batch, encode_batch
from odradek.protocol.schema import Message
from odradek.protocol.uuids import uuid_from_text

from compat_tests.asking import ask_any
from compat_tests.wire import WireClient

from .client import Client, Got, Identity, Key, Refused, Sending, Unknown

_PRODUCE, _FETCH, _METADATA = 13, 13, 12
_TIMEOUT_S = 8.0
_ALL = -1
_MOST_BYTES = 1 << 20
#: Errors that a broker returns before it appends.
_BEFORE_THE_APPEND = {
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}


class RawClient(Client):
    name = "raw"

    def __init__(self, identity: Identity) -> None:
        super().__init__(identity)
        self._wires: dict[Key, WireClient] = {}
        self._positions: dict[Key, int] = {}

    def _call(self, key: Key, request: Message, version: int) -> Any:
        """Sends a request to the leader of the key. Raises `Refused` if it was not sent."""
        if key not in self._wires:
            self._wires[key] = self._connected(key)
        try:
            return self._wires[key].call(request, version)
        except OSError as error:
            self._forget(key)
            raise Unknown(str(error)) from None

    def _connected(self, key: Key) -> WireClient:
        wanted = MetadataRequestTopic(topic_id=uuid_from_text(key.topic), name=None)
        found = ask_any(self.identity.bootstrap, MetadataRequest(topics=[wanted]), _METADATA)
        parts = found.topics[0].partitions if found is not None else []
        leaders = {part.leader_id for part in parts if part.partition_index == key.partition}
        for broker in found.brokers if found is not None else []:
            if broker.node_id in leaders:
                try:
                    return WireClient(f"{broker.host}:{broker.port}", timeout=_TIMEOUT_S)
                except OSError as error:
                    raise Refused(str(error)) from None
        raise Refused("no leader")

    def _forget(self, key: Key) -> None:
        wire = self._wires.pop(key, None)
        if wire is not None:
            wire.close()

    def send(self, records: Sequence[Sending]) -> list[int | None]:
        """Sends one batch; all records have one key."""
        key, now_ms = records[0].key, int(time.time() * 1000)
        batch = encode_batch(
            [Record(offset=at, timestamp=now_ms, key=None, value=one.value.encode()) for at, one in enumerate(records)]
        )
        data = [PartitionProduceData(index=key.partition, records=batch)]
        topics = [TopicProduceData(topic_id=uuid_from_text(key.topic), partition_data=data)]
        request = ProduceRequest(acks=_ALL, timeout_ms=int(_TIMEOUT_S * 500), topic_data=topics)
        response = self._call(key, request, _PRODUCE).responses[0].partition_responses[0]
        if response.error_code:
            self._forget(key)
            name = ErrorCode(response.error_code).name
            raise Refused(name) if response.error_code in _BEFORE_THE_APPEND else Unknown(name)
        return [response.base_offset + at for at in range(len(records))]

    def assign(self, offsets: Mapping[Key, int]) -> None:
        self._positions = dict(offsets)

    def seek(self, offsets: Mapping[Key, int]) -> None:
        self._positions.update(offsets)

    def poll(self, timeout_s: float) -> list[Got]:
        return [got for key in list(self._positions) for got in self._fetched(key, timeout_s)]

    def _fetched(self, key: Key, timeout_s: float) -> list[Got]:
        position = self._positions[key]
        part = FetchPartition(partition=key.partition, fetch_offset=position, partition_max_bytes=_MOST_BYTES)
        topics = [FetchTopic(topic_id=uuid_from_text(key.topic), partitions=[part])]
        request = FetchRequest(max_wait_ms=int(timeout_s * 1000), min_bytes=1, topics=topics)
        try:
            response = self._call(key, request, _FETCH)
        except Refused:
            return []
        answered = response.responses[0].partitions[0] if response.responses else None
        if answered is None or answered.error_code:
            self._forget(key)
            return []
        found = [
            Got(key, record.offset, (record.value or b"").decode())
            for at, header in iter_headers(answered.records or b"")
            for record in decode_batch(answered.records, at, header)
            if record.offset >= position
        ]
        self._positions[key] = found[-1].offset + 1 if found else position
        return found

    def begin(self) -> None:
        raise NotImplementedError

    def join_offsets(self, offsets: Mapping[Key, int]) -> None:
        raise NotImplementedError

    def end(self, *, commits: bool) -> None:
        raise NotImplementedError

    def subscribe(self, topics: Sequence[str]) -> None:
        raise NotImplementedError

    def commit(self, offsets: Mapping[Key, int]) -> None:
        raise NotImplementedError

    def close(self) -> None:
        for key in list(self._wires):
            self._forget(key)
