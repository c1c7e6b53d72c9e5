"""The batches of a partition's log, fetched without a client that would hide some of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.records.batch import BatchHeader, iter_headers
from odradek.protocol.records.record import Record, decode_batch

from .wire import WireClient

_FETCH_VERSION, _METADATA_VERSION = 12, 9
_MOST_BYTES = 16 << 20


def read_batches(
    bootstrap: str, topic: str, partition: int, offset: int = 0
) -> Iterator[tuple[BatchHeader, list[Record]]]:
    """Yields the batches from `offset` up to the high watermark with read_uncommitted, markers included."""
    with WireClient(leader_of(bootstrap, topic, partition)) as client:
        while data := _fetched(client, topic, partition, offset):
            for position, header in iter_headers(data):
                if header.next_offset > offset:
                    offset = header.next_offset
                    yield header, decode_batch(data, position, header)


def partition_count(bootstrap: str, topic: str) -> int:
    return len(_described(bootstrap, topic).topics[0].partitions)


def leader_of(bootstrap: str, topic: str, partition: int) -> str:
    """Returns the address of the partition's leader, as the first answering broker of `bootstrap` describes it."""
    if "," not in bootstrap:
        return bootstrap
    reported = _described(bootstrap, topic)
    leader = next(one.leader_id for one in reported.topics[0].partitions if one.partition_index == partition)
    found = [f"{broker.host}:{broker.port}" for broker in reported.brokers if broker.node_id == leader]
    assert found, f"{topic}-{partition} is not led"
    return found[0]


def _described(bootstrap: str, topic: str) -> Any:
    for server in bootstrap.split(","):
        with contextlib.suppress(OSError), WireClient(server) as client:
            reported = client.call(MetadataRequest([MetadataRequestTopic(name=topic)], False), _METADATA_VERSION)
            assert reported.topics[0].error_code == 0, reported
            return reported
    raise AssertionError(f"nobody answers at {bootstrap}")


def topic_names(bootstrap: str) -> list[str]:
    with WireClient(bootstrap) as client:
        return [topic.name for topic in client.call(MetadataRequest(None, False), _METADATA_VERSION).topics]


def _fetched(client: WireClient, topic: str, partition: int, offset: int) -> bytes:
    asked = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=_MOST_BYTES)
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic, partitions=[asked])])
    (response,) = client.call(request, _FETCH_VERSION).responses[0].partitions
    assert response.error_code == 0, response
    return bytes(response.records or b"")
