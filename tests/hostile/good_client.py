"""A well-behaved client beside an attack: it measures how long it waits and checks that nothing acknowledged is lost.

The client runs in its own process, so an attacker's interpreter lock does not delay it. It produces with acks=1 on a fixed
schedule, whether or not earlier requests are answered, and consumes these records. It sends no record twice: a value that
appears twice in the log was doubled by the broker.

`GoodClient` in good_report.py starts the process and reads its report. The program itself:

    python -m tests.hostile.good_client --bootstrap 127.0.0.1:9092 --rate 100

It prints `ready` when it has consumed its first records. It reads `mark` and `stop` from standard input, and answers each
with one line of JSON: the waits since the last mark, and the whole report.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import itertools
import json
import struct
import sys
import time
from collections import Counter
from dataclasses import replace
from typing import Any

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.records.batch import iter_headers
from odradek.protocol.records.record import Record, decode_batch, encode_batch

from tests.hostile.good_connection import GoodConnection
from tests.hostile.good_report import GoodReport

CREATE_VERSION, METADATA_VERSION, PRODUCE_VERSION, FETCH_VERSION = 7, 9, 9, 11
#: A fetch waits at most this long for records.
FETCH_WAIT_MS = 500
FETCH_BYTES = 1 << 20
RECONNECT_S = 0.02
#: The time for the last responses and records after `stop`.
DRAIN_S = 60
#: Records that the client consumes before it reports that it is ready.
WARM_UP_RECORDS = 20
#: Makes a record about as large as an order or a log line.
PADDING = b"." * 100
_SEQUENCE = struct.Struct(">q")


class GoodProgram:
    """The client on a topic with one partition: a producer with a schedule, a consumer, and what both measured."""

    def __init__(self, bootstrap: list[str], topic: str, rate: float, replicas: int) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self.replicas = replicas
        self.period_s = 1 / rate
        self.leader: str | None = None
        self.report = GoodReport()
        self.stopping = asyncio.Event()
        self.ready = asyncio.Event()
        #: Set when every acknowledged record is consumed; only awaited after the producer has ended.
        self.drained = asyncio.Event()
        self._draining = False
        self.acknowledged: dict[int, float] = {}
        self.consumed: Counter[int] = Counter()
        self.sent_at: dict[int, float] = {}
        self.waits: list[float] = []
        self.deliveries: list[float] = []
        self.errors: Counter[str] = Counter()
        self._responses: set[asyncio.Task[None]] = set()
        #: The requests without a response, and the times when they were sent.
        self._waiting: dict[int, float] = {}
        #: The time of the first failed request without a later successful one.
        self._failing_since: float | None = None

    async def run(self) -> GoodReport:
        await self._create_topic()
        began = time.monotonic()
        consumer = asyncio.create_task(self._consume())
        await self._produce()
        if self._responses:
            await asyncio.wait(self._responses, timeout=DRAIN_S)
        seconds = time.monotonic() - began
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._until_consumed(), DRAIN_S)
        consumer.cancel()
        stored = await self._read_all()
        return self._finish(seconds, stored)

    def mark(self) -> GoodReport:
        """Returns the waits since the last mark and starts new measurements. A wait that goes on counts in both."""
        now = time.monotonic()
        waiting = [now - sent for sent in self._waiting.values()]
        if self._failing_since is not None:
            waiting.append(now - self._failing_since)
        so_far = replace(self.report, acknowledged=len(self.acknowledged), errors=dict(self.errors))
        so_far.measure(self.waits + waiting, self.deliveries)
        self.waits.clear()
        self.deliveries.clear()
        self.report.own_delay_ms = 0.0
        return so_far

    # The partition's leader.

    async def _ask(self, request: Any, version: int, address: str) -> Any:
        connection = await GoodConnection.open(address)
        try:
            return await asyncio.wait_for(connection.call(request, version), 30)
        finally:
            connection.close()

    async def _create_topic(self) -> None:
        topic = CreatableTopic(self.topic, 1, self.replicas)
        accepted = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
        for address in itertools.cycle(self.bootstrap):
            with contextlib.suppress(OSError, EOFError, TimeoutError):
                request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
                response = await self._ask(request, CREATE_VERSION, address)
                if response.topics[0].error_code in accepted and await self._find_leader():
                    return
            await asyncio.sleep(RECONNECT_S)

    async def _find_leader(self) -> bool:
        for address in self.bootstrap:
            with contextlib.suppress(OSError, EOFError, TimeoutError):
                topics = [MetadataRequestTopic(name=self.topic)]
                request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
                response = await self._ask(request, METADATA_VERSION, address)
                brokers = {broker.node_id: f"{broker.host}:{broker.port}" for broker in response.brokers}
                leaders = [partition.leader_id for partition in response.topics[0].partitions]
                if leaders and leaders[0] in brokers:
                    self.leader = brokers[leaders[0]]
                    return True
        return False

    async def _connect(self) -> GoodConnection:
        """Returns a connection to the leader, however long that takes."""
        while True:
            with contextlib.suppress(OSError):
                if await self._find_leader():
                    assert self.leader is not None
                    return await GoodConnection.open(self.leader)
            self.report.reconnects += 1
            await asyncio.sleep(RECONNECT_S)

    # The producer.

    async def _produce(self) -> None:
        connection = await self._connect()
        due = time.monotonic()
        for sequence in itertools.count():
            due += self.period_s
            delay = due - time.monotonic()
            await asyncio.sleep(max(0.0, delay))
            late = time.monotonic() - due
            self.report.own_delay_ms = max(self.report.own_delay_ms, late * 1000)
            if self.stopping.is_set():
                break
            if connection.is_closed:
                self.report.reconnects += 1
                connection = await self._connect()
                due = time.monotonic()
            self._send(connection, sequence)
        await asyncio.sleep(0)

    def _send(self, connection: GoodConnection, sequence: int) -> None:
        record = Record(0, time.time_ns() // 1_000_000, None, _SEQUENCE.pack(sequence) + PADDING)
        batch = encode_batch([record])
        data = TopicProduceData(self.topic, partition_data=[PartitionProduceData(0, batch)])
        request = ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[data])
        self.report.sent += 1
        now = time.monotonic()
        self.sent_at[sequence] = self._waiting[sequence] = now
        response = asyncio.create_task(self._acknowledge(connection.call(request, PRODUCE_VERSION), sequence, now))
        self._responses.add(response)
        response.add_done_callback(self._responses.discard)

    async def _acknowledge(self, response: asyncio.Future[Any], sequence: int, sent: float) -> None:
        try:
            (topic,) = (await response).responses
        except (OSError, EOFError):
            self.report.unanswered += 1
            self._failed(sent)
            return
        finally:
            self._waiting.pop(sequence, None)
        code = topic.partition_responses[0].error_code
        if code:
            self.errors[ErrorCode(code).name] += 1
            self._failed(sent)
            return
        now = time.monotonic()
        self.acknowledged[sequence] = now
        since, self._failing_since = self._failing_since, None
        self.waits.append(now - (sent if since is None else min(since, sent)))

    def _failed(self, sent: float) -> None:
        self._failing_since = sent if self._failing_since is None else min(self._failing_since, sent)

    # The consumer.

    async def _consume(self) -> None:
        offset = 0
        while True:
            connection = await self._connect()
            with contextlib.suppress(OSError, EOFError):
                while True:
                    offset = await self._fetch(connection, offset, self._received)
            connection.close()
            self.report.reconnects += 1
            await asyncio.sleep(RECONNECT_S)

    async def _fetch(self, connection: GoodConnection, offset: int, received: Any) -> int:
        partition = FetchPartition(0, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
        topics = [FetchTopic(self.topic, partitions=[partition])]
        request = FetchRequest(max_wait_ms=FETCH_WAIT_MS, min_bytes=1, max_bytes=FETCH_BYTES, topics=topics)
        response = await connection.call(request, FETCH_VERSION)
        (data,) = response.responses[0].partitions
        if data.error_code:
            self.errors[f"FETCH_{ErrorCode(data.error_code).name}"] += 1
            raise ConnectionError(data.error_code)
        for position, header in iter_headers(data.records or b""):
            for record in decode_batch(data.records, position, header):
                assert record.value is not None
                received(_SEQUENCE.unpack_from(record.value)[0])
            offset = header.last_offset + 1
        return offset

    def _received(self, sequence: int) -> None:
        self.consumed[sequence] += 1
        if (sent := self.sent_at.pop(sequence, None)) is not None:
            self.deliveries.append(time.monotonic() - sent)
        if len(self.consumed) >= WARM_UP_RECORDS:
            self.ready.set()
        if self._draining and self._is_drained():
            self.drained.set()

    async def _until_consumed(self) -> None:
        self._draining = True
        if not self._is_drained():
            await self.drained.wait()

    def _is_drained(self) -> bool:
        return self.acknowledged.keys() <= self.consumed.keys()

    async def _read_all(self) -> Counter[int]:
        """Reads the log from its beginning. Returns each sequence number and how often it occurs."""
        stored: Counter[int] = Counter()
        connection = await self._connect()
        offset, end = -1, 0
        while end != offset:
            offset = end
            end = await self._fetch(connection, offset, lambda sequence: stored.update([sequence]))
        connection.close()
        return stored

    def _finish(self, seconds: float, stored: Counter[int]) -> GoodReport:
        report = self.report
        report.seconds = seconds
        report.acknowledged = len(self.acknowledged)
        report.consumed = sum(self.consumed.values())
        report.unanswered += len(self._responses)
        report.lost = sorted(number for number in self.acknowledged if number not in stored)
        report.unread = sorted(number for number in self.acknowledged if number not in self.consumed)
        report.doubled = sorted({number for seen in (stored, self.consumed) for number in seen if seen[number] > 1})
        report.errors = dict(self.errors)
        report.measure(self.waits, self.deliveries)
        return report


async def _commands(program: GoodProgram) -> None:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        if line.strip() == b"mark":
            print(json.dumps(program.mark().as_json()), flush=True)
        elif line.strip() == b"stop":
            break
    program.stopping.set()


async def _say_ready(program: GoodProgram) -> None:
    await program.ready.wait()
    print("ready", flush=True)


async def _main(options: argparse.Namespace) -> None:
    topic = options.topic or f"good-{time.time_ns()}"
    program = GoodProgram(options.bootstrap.split(","), topic, options.rate, options.replicas)
    beside = [asyncio.create_task(_commands(program)), asyncio.create_task(_say_ready(program))]
    report = await program.run()
    for task in beside:
        task.cancel()
    print(json.dumps(report.as_json()), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.good_client", description=__doc__)
    parser.add_argument("--bootstrap", required=True, help="host:port of one or more brokers, separated by commas")
    parser.add_argument("--topic", help="its topic, of one partition; a new one unless given")
    parser.add_argument("--rate", type=float, default=100, help="requests a second")
    parser.add_argument("--replicas", type=int, default=1)
    options = parser.parse_args()
    gc.disable()  # the client's own collections must not look like the broker's waits
    asyncio.run(_main(options))


if __name__ == "__main__":
    main()
