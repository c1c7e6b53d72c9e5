"""Other work of a broker, each kind in a process of its own: `python -m benchmarks.tails.neighbours NAME BOOTSTRAP [TLS]`.

It prints "running" once the work goes on, and works until it is killed. TLS is `PORT:DIRECTORY`: a listener with mutual
TLS, and the directory of its certificates. The clients are bare sockets, so that they leave the machine to the broker.
"""

from __future__ import annotations

import itertools
import os
import socket
import ssl
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.records.record import Record, encode_batch

from compat_tests.recipes import eventually
from compat_tests.wire import WireClient, request_frame

from ..many_clients import Clients, Requesting

MEGABYTE = 10**6
BULK_BYTES_A_S = 20 * MEGABYTE
READERS, HISTORY_BYTES = 20, 1000 * MEGABYTE
IDLE, BUSY, BUSY_INTERVAL_S = 500, 200, 0.05
TOPICS, MEMBERS, MEMBER_INTERVAL_S = 2000, 100, 0.05
HANDSHAKES_A_S = 20
_TOPICS_AT_ONCE = 250
_CREATE, _METADATA, _PRODUCE, _FETCH, _HEARTBEAT, _FIND = 7, 12, 9, 12, 0, 3
_BATCH_BYTES = 200_000
_GROUP = "restless"


def create(client: WireClient, *names: str, **configs: str) -> None:
    settings = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
    made = client.call(
        CreateTopicsRequest([CreatableTopic(name, 1, 1, configs=settings) for name in names], 60_000), _CREATE
    )
    assert not any(one.error_code for one in made.topics), made


def paced(interval_s: float) -> Iterator[None]:
    """Yields at a steady pace, without making up for turns that were late."""
    due = time.monotonic()
    while True:
        yield
        due = max(due + interval_s, time.monotonic() - interval_s)
        time.sleep(max(0.0, due - time.monotonic()))


def produce_request(topic: str, records: list[Record]) -> ProduceRequest:
    data = TopicProduceData(topic, partition_data=[PartitionProduceData(0, encode_batch(records))])
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data])


def bulk_request(topic: str) -> ProduceRequest:
    now_ms = time.time_ns() // 10**6
    records = [Record(number, now_ms, None, os.urandom(1000)) for number in range(_BATCH_BYTES // 1000)]
    return produce_request(topic, records)


def produce(client: WireClient, request: ProduceRequest) -> None:
    response = client.call(request, _PRODUCE)
    assert response.responses[0].partition_responses[0].error_code == 0, response


def none(bootstrap: str) -> Iterator[None]:
    while True:
        yield
        time.sleep(1)


def bulk(bootstrap: str, topic: str = "bulk", **configs: str) -> Iterator[None]:
    with WireClient(bootstrap) as client:
        create(client, topic, **configs)
        request = bulk_request(topic)
        for turn in paced(_BATCH_BYTES / BULK_BYTES_A_S):
            produce(client, request)
            yield turn


def retention(bootstrap: str) -> Iterator[None]:
    yield from bulk(bootstrap, "short", segment_bytes=str(2 * MEGABYTE), retention_bytes=str(4 * MEGABYTE))


class Reader(Requesting):
    """Reads a partition from its beginning to its end, again and again."""

    def __init__(self, bootstrap: str, topic: str, end: int) -> None:
        super().__init__(bootstrap)
        self._topic, self._end = topic, end
        self.offset = 0

    def fetch(self) -> None:
        asked = FetchPartition(0, fetch_offset=self.offset, partition_max_bytes=MEGABYTE)
        self.send(FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=50 * MEGABYTE, session_epoch=-1,
                               topics=[FetchTopic(self._topic, partitions=[asked])]), _FETCH)  # fmt: skip

    def advance(self) -> None:
        part = self.receive().responses[0].partitions[0]
        assert not part.error_code, part.error_code
        self.offset = (self.offset + whole_records(bytes(part.records))) % self._end


def whole_records(batches: bytes) -> int:
    """Returns the number of records in the whole batches, which are without gaps."""
    position = count = 0
    while position + 61 <= len(batches):
        size = int.from_bytes(batches[position + 8 : position + 12], "big") + 12
        if position + size > len(batches):
            break
        count += int.from_bytes(batches[position + 57 : position + 61], "big")
        position += size
    return count


def catch_up(bootstrap: str) -> Iterator[None]:
    with WireClient(bootstrap) as client:
        create(client, "history")
        request = bulk_request("history")
        for _ in range(HISTORY_BYTES // _BATCH_BYTES):
            produce(client, request)
    readers = [Reader(bootstrap, "history", HISTORY_BYTES // 1000) for _ in range(READERS)]
    with Clients(readers) as clients:
        for one in readers:
            one.fetch()
        while True:
            yield
            for one in clients.ready():
                one.advance()
                one.fetch()


def compaction(bootstrap: str) -> Iterator[None]:
    with WireClient(bootstrap) as client:
        create(client, "compacted", cleanup_policy="compact", segment_bytes=str(2 * MEGABYTE),
               min_cleanable_dirty_ratio="0.01")  # fmt: skip
        numbers = itertools.cycle(range(20_000))
        for turn in paced(0.05):
            now_ms = time.time_ns() // 10**6
            records = [Record(offset, now_ms, b"%d" % next(numbers), os.urandom(1000)) for offset in range(100)]
            produce(client, produce_request("compacted", records))
            yield turn


def connections(bootstrap: str) -> Iterator[None]:
    idle = [WireClient(bootstrap) for _ in range(IDLE)]
    for client in idle:
        client.call(ApiVersionsRequest(), 0)
    busy = [Requesting(bootstrap) for _ in range(BUSY)]
    create(busy[0].client, "small")
    request = produce_request("small", [Record(0, time.time_ns() // 10**6, None, bytes(100))])
    for turn in paced(BUSY_INTERVAL_S):
        for one in busy:
            one.send(request, _PRODUCE)
        for one in busy:
            response = one.receive()
            assert response.responses[0].partition_responses[0].error_code == 0, response
        yield turn


def lists(bootstrap: str) -> Iterator[None]:
    with WireClient(bootstrap) as client:
        for first in range(0, TOPICS, _TOPICS_AT_ONCE):
            create(client, *(f"listed-{number}" for number in range(first, first + _TOPICS_AT_ONCE)))
        eventually(
            lambda: len(client.call(MetadataRequest(None), _METADATA).topics) >= TOPICS, what="all topics are listed"
        )
        for turn in paced(1.0):
            client.call(MetadataRequest(None), _METADATA)
            yield turn


class Member:
    def __init__(self, client: WireClient) -> None:
        self._client, self._id, self._epoch = client, str(uuid.uuid4()), 0

    def beat(self, epoch: int | None = None) -> Any:
        is_first = epoch is None and self._epoch == 0
        request = ConsumerGroupHeartbeatRequest(
            group_id=_GROUP,
            member_id=self._id if not is_first else "",
            member_epoch=self._epoch if epoch is None else epoch,
            rebalance_timeout_ms=60_000 if is_first else -1,
            subscribed_topic_names=["watched"] if is_first else None,
            topic_partitions=[] if is_first else None,
        )
        response = self._client.call(request, _HEARTBEAT)
        if response.member_id:
            self._id = response.member_id
        self._epoch = max(0, response.member_epoch)
        return response

    def join(self) -> None:
        self._epoch = 0
        eventually(lambda: self.beat().error_code == 0, what="a member joins")

    def leave(self) -> None:
        self.beat(-1)


def group(bootstrap: str) -> Iterator[None]:
    clients = [WireClient(bootstrap) for _ in range(MEMBERS)]
    create(clients[0], "watched")
    find = FindCoordinatorRequest(_GROUP, 0)
    eventually(lambda: not clients[0].call(find, _FIND).error_code, what="the coordinator is there")
    members = [Member(client) for client in clients]
    for one in members:
        one.join()
    for _, leaver in zip(paced(MEMBER_INTERVAL_S), itertools.cycle(members), strict=False):
        leaver.leave()
        leaver.join()
        yield


def handshakes(bootstrap: str, tls: str) -> Iterator[None]:
    port, _, directory = tls.partition(":")
    context = ssl.create_default_context(cafile=str(Path(directory) / "authority.pem"))
    context.load_cert_chain(Path(directory) / "client.pem")
    request = request_frame(ApiVersionsRequest(), 0, 1, "handshakes")
    for turn in paced(1 / HANDSHAKES_A_S):
        plain = socket.create_connection(("127.0.0.1", int(port)), timeout=30)
        with context.wrap_socket(plain, server_hostname="127.0.0.1") as secured:
            secured.sendall(request)
            assert secured.recv(4)
        yield turn


NEIGHBOURS: dict[str, Callable[..., Iterator[None]]] = {
    "none": none,
    "bulk": bulk,
    "catch-up": catch_up,
    "compaction": compaction,
    "connections": connections,
    "lists": lists,
    "group": group,
    "retention": retention,
    "handshakes": handshakes,
}


def main() -> None:
    name, *arguments = sys.argv[1:]
    turns = NEIGHBOURS[name](*(arguments if name == "handshakes" else arguments[:1]))
    next(turns)
    print("running", flush=True)
    for _ in turns:
        pass


if __name__ == "__main__":
    main()
