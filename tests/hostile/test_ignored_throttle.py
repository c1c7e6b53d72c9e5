"""Clients over their quota that send on and read no responses: the broker throttles them and serves other clients."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from odradek.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntryDataRequest, OpData
from odradek.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.messages.quota_entities import EntityData
from odradek.protocol.records.record import Record, encode_batch

from compat_tests.broker_process import BrokerProcess
from compat_tests.odradek_process import OdradekProcess
from compat_tests.recipes import make_topic
from compat_tests.wire import WireClient, request_frame
from tests.hostile.harness.loop_work import MOST_WORK_S, least_p99_work_s, p99_work_s

pytestmark = pytest.mark.usefixtures("processes")

QUOTA = 10_000
#: The window of a rate (`quota.window.num` samples of a second): a client may send this much at once.
WINDOW_S = 11
VALUE_BYTES = 10_000
CONNECTIONS = 4
#: Each connection has a request in progress when it exceeds the quota.
SLACK = 2 * CONNECTIONS
MOST_GROWTH_BYTES = 30 << 20


class Verbose(OdradekProcess):
    """A broker that also logs below the level of warnings."""

    def command(self) -> list[str]:
        return [*super().command(), "-v"]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with Verbose(tmp_path) as running:
        yield running


def limit(broker: BrokerProcess) -> None:
    entity = [EntityData(entity_type="client-id", entity_name="greedy")]
    entry = EntryDataRequest(entity=entity, ops=[OpData(key="producer_byte_rate", value=float(QUOTA), remove=False)])
    with WireClient(broker.bootstrap) as client:
        response = client.call(AlterClientQuotasRequest(entries=[entry], validate_only=False), 1)
    assert {one.error_code for one in response.entries} == {0}


def end_offset(broker: BrokerProcess) -> int:
    ends = [ListOffsetsPartition(partition_index=0, timestamp=-1)]
    asked = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="held", partitions=ends)])
    with WireClient(broker.bootstrap) as client:
        return int(client.call(asked, 7).topics[0].partitions[0].offset)


class Flood:
    """A connection that sends as fast as the broker reads, and reads nothing."""

    def __init__(self, broker: BrokerProcess, acks: int) -> None:
        self._socket = socket.create_connection((broker.host, broker.port), timeout=1)
        self._acks = acks
        self.sent = 0
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self._send, daemon=True)
        self.thread.start()

    def _send(self) -> None:
        batch = encode_batch([Record(0, int(time.time() * 1000), None, b"x" * VALUE_BYTES, [])])
        data = [TopicProduceData("held", partition_data=[PartitionProduceData(0, batch)])]
        request = ProduceRequest(acks=self._acks, timeout_ms=1000, topic_data=data)
        for number in itertools.count(1):
            frame = memoryview(request_frame(request, 12, number, "greedy"))
            while frame:
                if self.is_over.is_set():
                    return
                with contextlib.suppress(TimeoutError):
                    frame = frame[self._socket.send(frame) :]
            self.sent += 1

    def end(self) -> None:
        self.is_over.set()
        self.thread.join(30)
        assert not self.thread.is_alive()
        self._socket.close()


@pytest.mark.parametrize("acks", [0, 1])
def test_throttled_clients_that_send_on_are_held_and_a_good_client_is_served(acks: int, broker: BrokerProcess) -> None:
    make_topic(broker.bootstrap, "held")
    limit(broker)
    process = psutil.Process(broker.pid)
    with WireClient(broker.bootstrap, client_id="good") as client:
        before_s, memory = p99_work_s(client, broker.pid), process.memory_info().rss
        began = time.monotonic()
        floods = [Flood(broker, acks) for _ in range(CONNECTIONS)]
        try:
            during_s = least_p99_work_s(client, broker.pid, max(2 * before_s, MOST_WORK_S))
            assert process.memory_info().rss - memory < MOST_GROWTH_BYTES
            written, lasted_s = end_offset(broker), time.monotonic() - began
        finally:
            for flood in floods:
                flood.end()
    assert 0 < written <= QUOTA / VALUE_BYTES * (lasted_s + WINDOW_S) + SLACK
    assert during_s < max(2 * before_s, MOST_WORK_S), (before_s, during_s)
    logged = broker.log_file.read_text()
    assert "Traceback" not in logged
    (line,) = [one for one in logged.splitlines() if "INFO odradek.quotas: throttling client" in one]
    assert line.endswith("throttling client greedy of 127.0.0.1 (User:ANONYMOUS), which exceeds a quota")
