"""Fetches of more partitions than there are descriptors, and readers that do not read their responses."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

from compat_tests.wire import WireClient
from tests.hostile.floods import limited_node, open_descriptors
from tests.hostile.requests import create, produce
from tests.server.harness.data_path import batch_of

pytestmark = pytest.mark.usefixtures("processes")

ROOT = Path(__file__).resolve().parents[2]
_LIMIT = 64
#: Twice as many partitions as descriptors; each has more than the broker copies into a response.
_PARTITIONS = 2 * _LIMIT
_RECORD_BYTES = 100_000
_RECEIVED_BYTES = 64 * 1024


def fetch_of_all(first: int) -> FetchRequest:
    """Returns a fetch as consumers send it: partitions that the last response left out come first."""
    indexes = [*range(first, _PARTITIONS), *range(first)]
    partitions = [FetchPartition(index, fetch_offset=0, partition_max_bytes=1_000_000) for index in indexes]
    return FetchRequest(
        max_wait_ms=100, min_bytes=1, max_bytes=50_000_000, topics=[FetchTopic(topic="wide", partitions=partitions)]
    )


def fill(client: WireClient) -> None:
    create(client, "wide", partitions=_PARTITIONS)
    batch = batch_of(bytes(_RECORD_BYTES))
    for first in range(0, _PARTITIONS, 8):
        data = [
            TopicProduceData("wide", partition_data=[PartitionProduceData(first + index, batch) for index in range(8)])
        ]
        (response,) = client.call(ProduceRequest(acks=1, timeout_ms=30_000, topic_data=data), 9).responses
        assert [partition.error_code for partition in response.partition_responses] == [0] * 8


def read_all(client: WireClient) -> None:
    """Reads every partition's records without an error."""
    first, read = 0, set()
    while len(read) < _PARTITIONS:
        (response,) = client.call(fetch_of_all(first), 11).responses
        errors = {one.partition_index: one.error_code for one in response.partitions if one.error_code}
        assert not errors
        found = {partition.partition_index for partition in response.partitions if partition.records}
        assert found - read, "each response brings something new"
        read |= found
        first = next((index for index in range(_PARTITIONS) if index not in read), 0)


def test_more_partitions_than_descriptors_are_read_beside_readers_that_take_nothing(tmp_path: Path) -> None:
    with limited_node(tmp_path, _LIMIT) as node, WireClient(node.bootstrap) as client:
        fill(client)
        read_all(client)
        slow = []
        for _ in range(5):
            reader = WireClient(node.bootstrap)
            reader._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVED_BYTES)
            reader.send(fetch_of_all(0), 11)
            slow.append(reader)
        read_all(client)
        assert open_descriptors(node.pid) < _LIMIT
        create(client, "made-meanwhile", partitions=3)
        produce(client, "made-meanwhile", b"v")
        # Creates the fifty partitions of the consumers' offsets.
        assert client.call(FindCoordinatorRequest(key="group", key_type=0), 1).error_code in (0, 15)
        read_all(client)
        for reader in slow:
            reader.close()
        assert node.is_running
        assert "Too many open files" not in node.log_file.read_text()


def test_broker_serves_on_when_the_program_around_it_leaves_no_descriptor() -> None:
    command = [sys.executable, "-m", "tests.hostile.leaking_program"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert ended.stdout == "served\n", ended.stderr
    assert "offline" not in ended.stderr
