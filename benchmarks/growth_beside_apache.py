"""Measures how costs grow, beside Apache Kafka: `python -m benchmarks.growth_beside_apache [--partitions N]
[--connections N] [--records KB] [--members N] [--producers N] [--subscribed N] [--groups N] [--rows NAME ...]
[--least N] [--warm-up N] [--only-odradek] [--write DIR]`.

Sizes double up to the given limits, and both brokers take each size in turn, as a single node with its defaults. The
table names the size from which a curve bends: at all larger ones the cost of one more is over 1.5 times the least that was
measured before. `--write` keeps the values in `growth-beside-apache.json`, which also keeps rows and sizes of earlier runs,
and writes a picture with a curve for each row (`.svg`) and the table of them (`.md`).

- `partitions`: CPU of creating them, until the broker rests, CPU of Metadata of all topics, and the time of a stop, of a
  clean start and of a start after kill -9 until every partition has a leader.
- `connections`: CPU of a small Produce, with as many producers in turn.
- `records`: CPU of a Produce of one record of so many kilobytes, and the latencies of a paced producer beside a producer
  of them.
- `members`: CPU of a record that one of so many members of a share group takes and accepts, its Produce included.
- `producers`: CPU of a transaction of one record, with so many transactional producers at once, and their rate.
- `subscription`: CPU of a Fetch of so many partitions without records, without a session and within one.
- `groups`: CPU of an OffsetCommit and a Heartbeat of one of so many groups, and of ListGroups.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import NamedTuple

from odradek.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from odradek.protocol.messages.list_groups import ListGroupsRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from odradek.protocol.records.record import Record, encode_batch

from compat_tests.broker_process import BrokerProcess
from compat_tests.recipes import eventually
from compat_tests.wire import WireClient

from .brokers import APACHE_NAME, ODRADEK_NAME, Cost, apache, odradek
from .growth_clients import ShareGroupLoad, TransactionLoad
from .share_rows import begin_with_the_first_record

PARTITIONS_PER_TOPIC = 250
#: A process's CPU is counted in hundredths of a second, so that as many requests are measured as take some of these.
METADATA_REQUESTS = 50
PRODUCE_REQUESTS = 4000
SHARED_RECORDS = 4000
TRANSACTIONS = 12_000
TRANSACTED_PARTITIONS = 10
#: Records or transactions before those that are measured: a JVM compiles what they run.
WARM_UP = 3000
#: Parts of the warm-up whose cost is printed: it falls until the JVM has compiled.
WARM_UP_PARTS = 10
PACE_S = 0.002
PACED_REQUESTS = 2000
#: For a start of many partitions on a busy machine.
START_DEADLINE_S = 600
KILOBYTE = 1000
MEGABYTE = 10**6
#: Bytes of the records of one size, where its requests would be too many.
PRODUCED_BYTES = 400 * MEGABYTE
#: Between two records of the producer beside the paced one, so that its disk and its interpreter do not fill the machine.
LARGE_PAUSE_S = 0.02
#: The factor by which the cost of one more is over the least cost where a curve bends.
BEND = 1.5
#: The unit of a row whose values are better the larger they are.
RATE = "a second"
#: The name of the files that `--write` makes.
NAME = "growth-beside-apache"
#: Curves side by side in the picture.
COLUMNS = 3
#: An idle Apache Kafka uses some 0.02 s of CPU a second.
REST_CPU_S = 0.1
#: Partitions of all the Fetch requests of one size.
FETCHED_PARTITIONS = 50_000
_CREATE, _METADATA, _PRODUCE, _FETCH = 7, 12, 9, 17
_JOIN_GROUP, _SYNC_GROUP, _HEARTBEAT, _OFFSET_COMMIT, _LIST_GROUPS = 5, 5, 4, 8, 4
_FIND_COORDINATOR = 3
_MEMBER_ID_REQUIRED = 79

BROKERS: dict[str, Callable[[Path], BrokerProcess]] = {ODRADEK_NAME: odradek, APACHE_NAME: apache}


class Point(NamedTuple):
    """A measured value. `is_total`: the value is of all, so that the cost of one is a part of it."""

    row: str
    unit: str
    size: int
    value: float
    is_total: bool


Measure = Callable[[BrokerProcess, int], Iterator[Point]]


def main() -> None:
    options = arguments()
    measured: dict[str, list[Point]] = {name: [] for name in BROKERS}
    for name, first, most in (
        ("partitions", PARTITIONS_PER_TOPIC, options.partitions),
        ("connections", 10, options.connections),
        ("records", 1, options.records),
        ("members", 1, options.members),
        ("producers", 1, options.producers),
        ("subscription", 10, options.subscribed),
        ("groups", 10, options.groups),
    ):
        sizes = [one for one in doubled(first, most) if one >= options.least] if name in options.rows else []
        # Folders stay until the row ends: ext4 is slow to make files when many were deleted in the last half minute.
        with tempfile.TemporaryDirectory(prefix="growth-") as folder:
            for size, broker in itertools.product(sizes, measured):
                if broker == ODRADEK_NAME or not options.only_odradek:
                    place = Path(folder, f"{broker.split()[0]}-{size}")
                    measured[broker] += measure(broker, measures(options.warm_up)[name], size, place)
    print(table(measured))
    if options.write:
        write(measured, options.write)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=2000, help="at most (default: 2,000)")
    parser.add_argument("--connections", type=int, default=1000, help="at most (default: 1,000)")
    parser.add_argument("--records", type=int, default=50_000, help="kilobytes of a record at most (default: 50,000)")
    parser.add_argument("--members", type=int, default=128, help="of a share group at most (default: 128)")
    parser.add_argument("--producers", type=int, default=300, help="transactional ones at most (default: 300)")
    parser.add_argument("--subscribed", type=int, default=5120, help="partitions of a Fetch at most (default: 5,120)")
    parser.add_argument("--groups", type=int, default=10_000, help="at most (default: 10,000)")
    parser.add_argument("--rows", nargs="+", choices=tuple(measures(0)), default=list(measures(0)))
    parser.add_argument("--least", type=int, default=1, metavar="N", help="no smaller sizes (default: 1)")
    parser.add_argument(
        "--warm-up", type=int, default=WARM_UP, metavar="N", help="transactions or records before (default: 3,000)"
    )
    parser.add_argument("--only-odradek", action="store_true")
    parser.add_argument("--write", type=Path, metavar="DIR", help="the folder for the curves")
    return parser.parse_args()


def doubled(first: int, most: int) -> Iterator[int]:
    """Yields sizes that double, then the largest."""
    size = first
    while size < most:
        yield size
        size *= 2
    if first <= most:
        yield most


def measure(name: str, row: Measure, size: int, folder: Path) -> list[Point]:
    with BROKERS[name](folder) as broker:
        found = []
        for point in row(broker, size):
            print(f"{name}: {point.row}, {point.size}: {point.value:.4g} {point.unit}", flush=True)
            found.append(point)
        return found


def create(client: WireClient, name: str, partitions: int, **configs: str) -> None:
    settings = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
    request = CreateTopicsRequest([CreatableTopic(name, partitions, 1, configs=settings)], 60_000)
    assert client.call(request, _CREATE).topics[0].error_code == 0


def produce_request(topic: str, size: int) -> ProduceRequest:
    batch = encode_batch([Record(0, time.time_ns() // MEGABYTE, None, os.urandom(size))])
    data = TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch)])
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data])


# ---- the rows


def of_partitions(broker: BrokerProcess, size: int) -> Iterator[Point]:
    broker.start_deadline_s = broker.stop_deadline_s = START_DEADLINE_S
    with WireClient(broker.bootstrap) as client:
        before = Cost.of(broker.pid).cpu_s
        for number in range(size // PARTITIONS_PER_TOPIC):
            create(client, f"grows-{number}", PARTITIONS_PER_TOPIC)
        await_rest(broker)  # Apache Kafka makes logs after its response
        yield Point("creating partitions", "s of CPU", size, Cost.of(broker.pid).cpu_s - before, True)
        before = Cost.of(broker.pid).cpu_s
        for _ in range(METADATA_REQUESTS):
            client.call(MetadataRequest(None), _METADATA)
        spent_ms = (Cost.of(broker.pid).cpu_s - before) / METADATA_REQUESTS * 1000
        yield Point("Metadata of all topics", "ms of CPU", size, spent_ms, True)
    yield Point("stop", "s", size, timed(broker.stop), True)
    yield Point("clean start", "s", size, timed(lambda: start(broker, size)), True)
    broker.kill()
    yield Point("start after kill -9", "s", size, timed(lambda: start(broker, size)), True)


def await_rest(broker: BrokerProcess) -> None:
    """Returns when the broker has used less than REST_CPU_S in a second."""
    used, deadline = -1.0, time.monotonic() + START_DEADLINE_S
    while (now := Cost.of(broker.pid).cpu_s) - used > REST_CPU_S:
        assert time.monotonic() < deadline, "the broker does not come to rest"
        used = now
        time.sleep(1)


def timed(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def start(broker: BrokerProcess, size: int) -> None:
    broker.start()
    with WireClient(broker.bootstrap) as client:

        def led() -> bool:
            topics = client.call(MetadataRequest(None), _METADATA).topics
            return sum(one.leader_id >= 0 for topic in topics for one in topic.partitions) >= size

        eventually(led, what="every partition has a leader", deadline_s=START_DEADLINE_S)


def of_connections(broker: BrokerProcess, size: int) -> Iterator[Point]:
    with ExitStack() as stack:
        clients = [stack.enter_context(WireClient(broker.bootstrap)) for _ in range(size)]
        create(clients[0], "small", 1)
        request, before = produce_request("small", 100), 0.0
        rounds = max(1, PRODUCE_REQUESTS // size)
        for number in range(rounds + 1):
            if number == 1:  # the first round makes what is made once
                before = Cost.of(broker.pid).cpu_s
            sent = [client.send(request, _PRODUCE) for client in clients]
            for client, correlation_id in zip(clients, sent, strict=True):
                client.receive(request, _PRODUCE, correlation_id)
        spent_us = (Cost.of(broker.pid).cpu_s - before) / rounds / size * 1e6
        yield Point("a Produce of so many connections", "us of CPU", size, spent_us, False)


def of_records(broker: BrokerProcess, size: int) -> Iterator[Point]:
    with WireClient(broker.bootstrap) as client:
        create(client, "small", 1)
        create(client, "large", 1, max_message_bytes=str(MEGABYTE + 2 * KILOBYTE * size))
        request = produce_request("large", size * KILOBYTE)
        requests = max(10, min(PRODUCE_REQUESTS, PRODUCED_BYTES // (size * KILOBYTE)))
        for _ in range(requests):  # a JVM compiles meanwhile
            client.call(request, _PRODUCE)
        each_us = cpu_us(broker, requests, lambda: client.call(request, _PRODUCE))
        yield Point("a Produce of a record of so many KB", "us of CPU", size, each_us, True)
        is_over = threading.Event()
        bulk = threading.Thread(target=send_large, args=(broker.bootstrap, request, is_over))
        bulk.start()
        try:
            latencies = sorted(paced(client, PACED_REQUESTS))
        finally:
            is_over.set()
            bulk.join()
    for name, share in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)):
        yield Point(f"{name} beside records of so many KB", "ms", size, latencies[int(len(latencies) * share)], False)


def send_large(bootstrap: str, request: ProduceRequest, is_over: threading.Event) -> None:
    with WireClient(bootstrap) as client:
        while not is_over.is_set():
            client.call(request, _PRODUCE)
            time.sleep(LARGE_PAUSE_S)


def paced(client: WireClient, count: int) -> Iterator[float]:
    """Yields the latencies of Produce requests at a steady pace, in milliseconds."""
    request, due = produce_request("small", 100), time.perf_counter()
    for _ in range(count):
        due += PACE_S
        time.sleep(max(0.0, due - time.perf_counter()))
        yield timed(lambda: client.call(request, _PRODUCE)) * 1000


def of_members(broker: BrokerProcess, size: int, warm_up: int) -> Iterator[Point]:
    with WireClient(broker.bootstrap) as client:
        create(client, "shared", 1)
    begin_with_the_first_record(broker.bootstrap, "shared")
    with closing(ShareGroupLoad(broker.bootstrap, "shared", size)) as load:
        load.run(warm_up)
        before = Cost.of(broker.pid).cpu_s
        load.run(SHARED_RECORDS)
        spent_us = (Cost.of(broker.pid).cpu_s - before) / SHARED_RECORDS * 1e6
    yield Point("a record of a share group of so many members", "us of CPU", size, spent_us, False)


def of_producers(broker: BrokerProcess, size: int, warm_up: int) -> Iterator[Point]:
    with WireClient(broker.bootstrap) as client:
        create(client, "transacted", TRANSACTED_PARTITIONS)
    words = "" if warm_up == WARM_UP else f", {warm_up:,} before"
    with closing(TransactionLoad(broker.bootstrap, "transacted", TRANSACTED_PARTITIONS, size)) as load:
        for _ in range(WARM_UP_PARTS):
            before = Cost.of(broker.pid).cpu_s
            load.run(warm_up // WARM_UP_PARTS)
            part_us = (Cost.of(broker.pid).cpu_s - before) * WARM_UP_PARTS / warm_up * 1e6
            print(f"warm-up: {part_us:.0f} us of CPU a transaction", flush=True)
        before = Cost.of(broker.pid).cpu_s
        seconds = timed(lambda: load.run(TRANSACTIONS))
        spent_us = (Cost.of(broker.pid).cpu_s - before) / TRANSACTIONS * 1e6
    yield Point(f"a transaction of so many producers{words}", "us of CPU", size, spent_us, False)
    yield Point(f"transactions of so many producers{words}", RATE, size, TRANSACTIONS / seconds, False)


def of_subscription(broker: BrokerProcess, size: int) -> Iterator[Point]:
    with WireClient(broker.bootstrap) as client:
        create(client, "subscribed", size)
        topic = client.call(MetadataRequest([MetadataRequestTopic(name="subscribed")]), _METADATA).topics[0]
        partitions = [FetchPartition(one.partition_index, partition_max_bytes=MEGABYTE) for one in topic.partitions]
        asked = [FetchTopic(topic_id=topic.topic_id, partitions=partitions)]
        eventually(
            lambda: not errors_of(client.call(fetch_request(-1, 0, asked), _FETCH)),
            what="all can be fetched",
            deadline_s=120,
        )
        requests = max(FETCHED_PARTITIONS // size, 10)
        each_us = cpu_us(broker, requests, lambda: client.call(fetch_request(-1, 0, asked), _FETCH))
        yield Point("a Fetch without a session", "us of CPU", size, each_us, True)
        session = client.call(fetch_request(0, 0, asked), _FETCH).session_id
        epochs = iter(range(1, MEGABYTE))
        each_us = cpu_us(broker, 1000, lambda: client.call(fetch_request(next(epochs), session, []), _FETCH))
        yield Point("a Fetch in a session of so many partitions", "us of CPU", size, each_us, False)


def fetch_request(epoch: int, session: int, topics: list[FetchTopic]) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=MEGABYTE, session_id=session, session_epoch=epoch, topics=topics
    )


def errors_of(response: FetchResponse) -> set[int]:
    return {one.error_code for topic in response.responses for one in topic.partitions} - {0}


def of_groups(broker: BrokerProcess, size: int) -> Iterator[Point]:
    with WireClient(broker.bootstrap) as client:
        create(client, "consumed", 1)
        names = [f"group-{number}" for number in range(size)]
        members = {name: joined(client, name) for name in names}
        for name in names:
            client.call(commit_request(name, members[name]), _OFFSET_COMMIT)
        turns = itertools.cycle(names)

        def commit() -> None:
            name = next(turns)
            response = client.call(commit_request(name, members[name]), _OFFSET_COMMIT)
            assert response.topics[0].partitions[0].error_code == 0, response

        def beat() -> None:
            name = next(turns)
            assert client.call(HeartbeatRequest(name, *members[name]), _HEARTBEAT).error_code == 0

        yield Point("an OffsetCommit of one of so many groups", "us of CPU", size, cpu_us(broker, 4000, commit), False)
        yield Point("a Heartbeat of one of so many groups", "us of CPU", size, cpu_us(broker, 4000, beat), False)
        rounds = max(20, 4000 // size)
        spent_us = cpu_us(broker, rounds, lambda: client.call(ListGroupsRequest(), _LIST_GROUPS))
        yield Point("ListGroups", "us of CPU", size, spent_us, True)


def joined(client: WireClient, name: str) -> tuple[int, str]:
    """Returns the generation and the member id of the group's one member."""
    protocol = [JoinGroupRequestProtocol("range", b"")]

    def join(member: str) -> JoinGroupResponse:
        return client.call(JoinGroupRequest(name, 600_000, 600_000, member, None, "consumer", protocol), _JOIN_GROUP)

    client.call(FindCoordinatorRequest(name, 0), _FIND_COORDINATOR)  # it creates __consumer_offsets
    eventually(lambda: join("").error_code == _MEMBER_ID_REQUIRED, what="the coordinator of the group is there")
    given = join(join("").member_id)
    assert given.error_code == 0, given
    assignments = [SyncGroupRequestAssignment(given.member_id, b"")]
    synced = client.call(
        SyncGroupRequest(name, given.generation_id, given.member_id, None, "consumer", "range", assignments),
        _SYNC_GROUP,
    )
    assert synced.error_code == 0, synced
    return given.generation_id, given.member_id


def commit_request(name: str, member: tuple[int, str]) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(0, committed_offset=0, committed_metadata="")
    return OffsetCommitRequest(name, *member, topics=[OffsetCommitRequestTopic("consumed", partitions=[partition])])


def cpu_us(broker: BrokerProcess, calls: int, call: Callable[[], object]) -> float:
    """Returns the CPU of the broker for one call, after a tenth of the calls as a warm-up."""
    for _ in range(calls // 10):
        call()
    before = Cost.of(broker.pid).cpu_s
    for _ in range(calls):
        call()
    return (Cost.of(broker.pid).cpu_s - before) / calls * 1e6


def measures(warm_up: int) -> dict[str, Measure]:
    """Returns the rows. `warm_up`: records or transactions before those that are measured."""
    return {
        "partitions": of_partitions,
        "connections": of_connections,
        "records": of_records,
        "members": partial(of_members, warm_up=warm_up),
        "producers": partial(of_producers, warm_up=warm_up),
        "subscription": of_subscription,
        "groups": of_groups,
    }


# ---- results


def curves(points: list[Point]) -> dict[tuple[str, str], list[Point]]:
    found: dict[tuple[str, str], list[Point]] = {}
    for point in points:
        found.setdefault((point.row, point.unit), []).append(point)
    return found


def bend(curve: list[Point]) -> int | None:
    """Returns the size from which one more costs over `BEND` times the least cost before, at all larger sizes; None for a
    curve without one.
    """
    costs = list(_costs(curve))
    for number in range(1, len(costs)):
        least = min(costs[:number])
        if least > 0 and all(cost > BEND * least for cost in costs[number:]):
            return curve[number - 1].size
    return None


def _costs(curve: list[Point]) -> Iterator[float]:
    """Yields the cost of one more at each size; of a rate, the time that one takes."""
    last = Point("", "", 0, 0.0, True)
    for point in curve:
        if point.is_total:
            yield (point.value - last.value) / (point.size - last.size)
        else:
            yield 1 / point.value if point.unit == RATE else point.value
        last = point


def write(measured: dict[str, list[Point]], folder: Path) -> None:
    """Writes values, picture and table; rows and sizes that were not measured now are those of the file."""
    folder.mkdir(parents=True, exist_ok=True)
    values = folder / f"{NAME}.json"
    earlier = json.loads(values.read_text(encoding="utf-8")) if values.exists() else {}
    for broker, points in measured.items():
        found = {
            (point.row, point.size): point for point in (*(Point(*one) for one in earlier.get(broker, [])), *points)
        }
        rows = list(dict.fromkeys(row for row, _ in found))
        measured[broker] = sorted(found.values(), key=lambda point: (rows.index(point.row), point.size))
    values.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    draw(measured, folder / f"{NAME}.svg")
    words = "`python -m benchmarks.growth_beside_apache --write DIR` writes the values, this table and the picture."
    page = ["# Growth beside Apache Kafka", words, f"![curves]({NAME}.svg)", table(measured)]
    (folder / f"{NAME}.md").write_text("\n\n".join(page) + "\n", encoding="utf-8")


def table(measured: dict[str, list[Point]]) -> str:
    """Returns Markdown with both brokers' values of a row, one below the other."""
    found = {broker: curves(points) for broker, points in measured.items()}
    lines = ["| row | broker | size: value | bends at |", "|---|---|---|---|"]
    for row, unit in dict.fromkeys(key for one in found.values() for key in one):
        for broker, curve in ((broker, one[row, unit]) for broker, one in found.items() if (row, unit) in one):
            values = ", ".join(f"{point.size:,}: {shown(point.value)}" for point in curve)
            lines.append(f"| {row}, {unit} | {broker} | {values} | {bend(curve) or '-'} |")
    return "\n".join(lines)


def shown(value: float) -> str:
    """Returns a value with three digits at least, and no exponent."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def draw(measured: dict[str, list[Point]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = list(dict.fromkeys(key for points in measured.values() for key in curves(points)))
    figure, axes = plt.subplots(-(-len(rows) // COLUMNS), COLUMNS, figsize=(5 * COLUMNS, len(rows)), squeeze=False)
    for axis in axes.flat[len(rows) :]:
        axis.remove()
    for axis, (row, unit) in zip(axes.flat, rows, strict=False):
        for broker, points in measured.items():
            curve = curves(points).get((row, unit), [])
            (line,) = axis.plot([one.size for one in curve], [one.value for one in curve], marker=".", label=broker)
            bends_at = bend(curve)
            if bends_at is not None:
                value = next(one.value for one in curve if one.size == bends_at)
                axis.plot([bends_at], [value], marker="o", markersize=9, fillstyle="none", color=line.get_color())
        axis.set(ylabel=unit, xscale="log", ylim=(0, None))
        sizes = sorted({one.size for points in measured.values() for one in curves(points).get((row, unit), [])})
        axis.set_xticks(sizes, [f"{size:,}" for size in sizes], fontsize="small", rotation=30)
        axis.minorticks_off()
        axis.set_title(row, fontsize="medium")
        axis.legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


if __name__ == "__main__":
    main()
