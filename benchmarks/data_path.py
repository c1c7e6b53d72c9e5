"""Measures the CPU time of a broker with prepared frames over bare sockets, so that the client costs nearly nothing.

    python -m benchmarks.data_path HOST:PORT PID [--only small,batches,megabytes,fetch,tail] [--seconds 3] [--tls CA.pem]

Drives any broker (Odradek or Apache Kafka) at this address, and reads the CPU time of process PID from the scheduler's
counters. `against_kafka` compares clients with foreign load programs; this program finds the reasons.
"""

from __future__ import annotations

import argparse
import os
import socket
import ssl
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

from odradek.protocol.apis import APIS
from odradek.protocol.codec import decode, encode
from odradek.protocol.headers import RequestHeader
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from odradek.protocol.records.record import Record, encode_batch
from odradek.protocol.schema import Message

CREATE_TOPICS_VERSION = 7
METADATA_VERSION = 12
PRODUCE_VERSION = 9
FETCH_VERSION = 12

_LENGTH = struct.Struct(">i")
MIB = 1 << 20


def cpu_s(pid: int) -> float:
    """Returns the CPU time of all live threads of a process in seconds, to the nanosecond."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            total += int((task / "schedstat").read_text().split()[0])
        except FileNotFoundError:
            continue
    return total / 1e9


def frame(request: Message, version: int, correlation_id: int = 7) -> bytes:
    key = type(request).SCHEMA.key
    assert key is not None
    header = RequestHeader(key, version, correlation_id, "bench")
    body = encode(header, APIS[key].request_header_version(version)) + encode(request, version)
    return _LENGTH.pack(len(body)) + body


class Peer:
    """A blocking connection."""

    def __init__(self, address: tuple[str, int], tls: ssl.SSLContext | None = None) -> None:
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname=address[0])
        self._buffer = bytearray(MIB)

    def receive(self) -> memoryview:
        """Returns the next response, without its length. It is valid until the next call."""
        view = memoryview(self._buffer)
        self._fill(view[:4])
        (size,) = _LENGTH.unpack_from(view)
        if size > len(view):
            self._buffer = bytearray(size)
            view = memoryview(self._buffer)
        self._fill(view[:size])
        return view[:size]

    def _fill(self, view: memoryview) -> None:
        while view:
            count = self.socket.recv_into(view)
            if not count:
                raise ConnectionError("the broker closed the connection")
            view = view[count:]

    def ask(self, request: Message, version: int) -> memoryview:
        self.socket.sendall(frame(request, version))
        return self.receive()

    def pipeline(self, data: bytes, depth: int, seconds: float) -> int:
        """Sends the frame repeatedly with `depth` requests in flight. Returns the number of responses."""
        end = time.monotonic() + seconds
        self.socket.sendall(data * depth)
        count = 0
        while time.monotonic() < end:
            self.receive()
            count += 1
            self.socket.sendall(data)
        for _ in range(depth):
            self.receive()
            count += 1
        return count


class Bench:
    def __init__(self, address: tuple[str, int], pid: int, seconds: float, tls: ssl.SSLContext | None = None) -> None:
        self.address = address
        self.tls = tls
        self.pid = pid
        self.seconds = seconds
        self.topic = f"data-path-{time.time_ns()}"
        self._create_topic()

    def _create_topic(self) -> None:
        peer = Peer(self.address, self.tls)
        request = CreateTopicsRequest(topics=[CreatableTopic(self.topic, 1, 1)], timeout_ms=30_000)
        response = peer.ask(request, CREATE_TOPICS_VERSION)
        created = decode(CreateTopicsResponse, CREATE_TOPICS_VERSION, response, 5)[0]
        assert created.topics[0].error_code == 0, created
        deadline = time.monotonic() + 10
        while True:
            request_metadata = MetadataRequest([MetadataRequestTopic(name=self.topic)], False)
            found = decode(MetadataResponse, METADATA_VERSION, peer.ask(request_metadata, METADATA_VERSION), 5)[0]
            if found.topics[0].error_code == 0 and found.topics[0].partitions[0].leader_id >= 0:
                return
            assert time.monotonic() < deadline, found
            time.sleep(0.05)

    def produce_frame(self, record_bytes: int, count: int, acks: int = 1) -> bytes:
        now_ms = time.time_ns() // 1_000_000
        records = [Record(number, now_ms, None, os.urandom(record_bytes)) for number in range(count)]
        data = PartitionProduceData(0, encode_batch(records))
        request = ProduceRequest(None, acks, 30_000, [TopicProduceData(self.topic, partition_data=[data])])
        return frame(request, PRODUCE_VERSION)

    def report(self, name: str, count: int, size: int, took_s: float, used_s: float) -> None:
        gigabytes = count * size / 1e9
        print(
            f"{name:34s} {count:9d} requests {count / took_s:9.0f} /s {gigabytes * 1000 / took_s:8.1f} MB/s   "
            f"CPU {used_s / count * 1e6:7.2f} us/request {used_s / gigabytes:6.2f} s/GB",
            flush=True,
        )

    def measure(self, name: str, size: int, work: Callable[[], int]) -> None:
        before, began = cpu_s(self.pid), time.monotonic()
        count = work()
        took = time.monotonic() - began
        self.report(name, count, size, took, cpu_s(self.pid) - before)

    # ---- the loads

    def small(self) -> None:
        data = self.produce_frame(100, 1)
        for depth in (1, 5, 50):
            peer = Peer(self.address, self.tls)
            peer.pipeline(data, depth, 0.3)
            name = f"produce 1 x 100 B, {depth} in flight"
            self.measure(name, 100, lambda peer=peer, depth=depth: peer.pipeline(data, depth, self.seconds))

    def batches(self) -> None:
        data = self.produce_frame(1024, 15)
        peer = Peer(self.address, self.tls)
        self.measure("produce 15 x 1 KiB, 5 in flight", 15 * 1024, lambda: peer.pipeline(data, 5, self.seconds))

    def megabytes(self) -> None:
        data = self.produce_frame(1000, 1000)
        peer = Peer(self.address, self.tls)
        self.measure("produce 1000 x 1 kB, 5 in flight", MIB, lambda: peer.pipeline(data, 5, self.seconds))

    def fetch(self) -> None:
        """Reads the log from the start, repeatedly."""
        peer = Peer(self.address, self.tls)
        self.fill(peer)
        for limit in (MIB, 65_536, 4096):
            self.measure(f"fetch {limit // 1024} KiB", limit, lambda limit=limit: self.fetch_all(peer, limit))

    def fill(self, peer: Peer) -> None:
        data = self.produce_frame(1000, 15)
        peer.socket.sendall(data * 5)
        for _ in range(8000):
            peer.receive()
            peer.socket.sendall(data)
        for _ in range(5):
            peer.receive()

    def fetch_all(self, peer: Peer, limit: int) -> int:
        offset, count, received = 0, 0, 0
        end = time.monotonic() + self.seconds
        while time.monotonic() < end:
            asked = FetchPartition(0, -1, offset, -1, -1, limit)
            request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=[FetchTopic(self.topic, partitions=[asked])])
            response = peer.ask(request, FETCH_VERSION)
            found, _ = decode(FetchResponse, FETCH_VERSION, response, 5)
            partition = found.responses[0].partitions[0]
            assert partition.error_code == 0, partition.error_code
            offset, whole = _whole_batches(partition.records)
            received += whole
            if offset >= partition.high_watermark:
                offset = 0
            count += 1
        # Counts full responses, so that bytes and requests agree. A partial batch at the end of a response (Apache Kafka's
        # have one) does not count: clients drop it and fetch that batch again.
        return round(received / limit) or count

    def tail(self) -> None:
        """Sends one record at a time to a waiting consumer."""
        producer, consumer = Peer(self.address, self.tls), Peer(self.address, self.tls)
        data = self.produce_frame(100, 1)
        response = decode(ProduceResponse, PRODUCE_VERSION, producer_ask(producer, data), 5)[0]
        offset = response.responses[0].partition_responses[0].base_offset + 1
        latencies: list[float] = []

        def work() -> int:
            nonlocal offset
            end = time.monotonic() + self.seconds
            while time.monotonic() < end:
                asked = FetchPartition(0, -1, offset, -1, -1, MIB)
                request = FetchRequest(
                    max_wait_ms=5000, min_bytes=1, topics=[FetchTopic(self.topic, partitions=[asked])]
                )
                consumer.socket.sendall(frame(request, FETCH_VERSION))
                time.sleep(0.0003)  # long enough for the broker to park the fetch; the load's pace, not a condition
                began = time.perf_counter()
                producer.socket.sendall(data)
                consumer.receive()
                latencies.append(time.perf_counter() - began)
                producer.receive()
                offset += 1
            return 2 * len(latencies)

        self.measure("tail: produce and fetch, 1 x 100 B", 100, work)
        latencies.sort()
        p50, p99 = latencies[len(latencies) // 2], latencies[len(latencies) * 99 // 100]
        print(f"{'':34s} latency p50 {p50 * 1000:.3f} ms, p99 {p99 * 1000:.3f} ms")


def producer_ask(peer: Peer, data: bytes) -> memoryview:
    peer.socket.sendall(data)
    return peer.receive()


def _whole_batches(batches: memoryview) -> tuple[int, int]:
    """Returns the offset after the last whole batch, 0 if there is none, and the bytes of the whole batches."""
    position, offset = 0, 0
    while position + 61 <= len(batches):
        base, length = struct.unpack_from(">qi", batches, position)
        if position + 12 + length > len(batches):
            break
        (delta,) = struct.unpack_from(">i", batches, position + 23)
        offset = base + delta + 1
        position += 12 + length
    return offset, position


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address")
    parser.add_argument("pid", type=int)
    parser.add_argument("--only", default="small,batches,megabytes,fetch,tail")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument(
        "--tls", metavar="CA.pem", help="connect over TLS to a broker whose certificate this authority issued"
    )
    options = parser.parse_args()
    host, _, port = options.address.rpartition(":")
    tls = ssl.create_default_context(cafile=options.tls) if options.tls else None
    bench = Bench((host, int(port)), options.pid, options.seconds, tls)
    for name in options.only.split(","):
        getattr(bench, name)()


if __name__ == "__main__":
    sys.exit(main())
