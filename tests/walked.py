"""Counts of the Python calls, files and classes that one request touches in a real broker.

    python -m tests.walked            prints the table
    python -m tests.walked --write    writes it into docs/development/architecture.md

A broker in this process serves a client over a socket. A profile function on the thread of the loop records each call of
the product's code from a request until its response has been sent. Of many warm requests, the one with the fewest calls
counts, so that timers do not. Calls of code that the project generates (the codecs) count as calls and have no file.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import odradek
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from odradek.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.server.network import request_turns
from odradek.testing.loop_thread import LoopThread

from compat_tests.recipes import eventually
from tests.server.harness.data_path import DataPath, batch_of
from tests.server.harness.remote_broker import RemoteBroker, first_node, until
from tests.server.harness.share_member import ACCEPT, Member

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "development" / "architecture.md"
BEGIN, END = "<!-- walked: begin -->", "<!-- walked: end -->"
#: How many warm requests of a path are recorded. The first ones import modules and fill caches.
REQUESTS = 40
WARM_UP = 5
#: A start takes longer, and its timers are few.
STARTS = 3
#: Folders at the root whose code is no part of the product, or no part of a broker.
_OUTSIDE = frozenset({"tests", "compat_tests", "benchmarks", "docs", "testing", ".venv", ".tools"})
#: Names of the code that protocol/ compiles from its tables.
_GENERATED = ("<decode ", "<encode ", "<__init__ of ")


class Walk(NamedTuple):
    """The calls of one request, and its files and classes in the order of their first entry."""

    calls: int
    files: tuple[str, ...]
    classes: tuple[str, ...]


class Row(NamedTuple):
    """A row of the table."""

    calls: int
    files: int
    classes: int


class Tracer:
    """Records the calls of the product's code on the thread of a loop."""

    def __init__(self, loop: LoopThread) -> None:
        self._loop = loop
        self._codes: list[CodeType] = []
        self._paths: dict[str, str | None] = {}

    def walk(self, function: Callable[[], object]) -> Walk:
        """Returns what the loop calls from the start of `function`, which runs on this thread, until it is idle again."""
        self._on_loop(self._begin)
        try:
            function()
        finally:
            self._on_loop(self._end)
        return self._walked()

    def coroutine(self, make: Callable[[], Any]) -> Walk:
        """Returns what a coroutine calls, with what runs beside it on the loop."""

        async def run() -> None:
            self._begin()
            try:
                await make()
            finally:
                self._end()

        self._loop.run(run())
        return self._walked()

    def fewest(self, function: Callable[[], object], prepare: Callable[[], object] = lambda: None) -> Walk:
        """Returns the walk with the fewest calls of `REQUESTS` warm ones. `prepare` runs before each, unrecorded."""
        walks = []
        for number in range(WARM_UP + REQUESTS):
            prepare()
            walk = self.walk(function)
            if number >= WARM_UP:
                walks.append(walk)
        return min(walks)

    def _on_loop(self, function: Callable[[], None]) -> None:
        async def run() -> None:
            await asyncio.sleep(0)  # what the response left to the next turn belongs to the request
            function()

        self._loop.run(run())

    def _begin(self) -> None:
        self._codes = []
        sys.setprofile(self._record)

    def _end(self) -> None:
        sys.setprofile(None)

    def _record(self, frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            self._codes.append(frame.f_code)

    def _walked(self) -> Walk:
        calls = 0
        files: dict[str, None] = {}
        classes: dict[str, None] = {}
        for code in self._codes:
            path = self._path(code.co_filename)
            if path is None:
                continue
            calls += 1
            if path:
                files[path] = None
                owner = code.co_qualname.partition(".<locals>")[0].rpartition(".")[0]
                if owner:
                    classes[f"{path}:{owner}"] = None
        return Walk(calls, tuple(files), tuple(classes))

    def _path(self, name: str) -> str | None:
        """Returns the path of product code from the root, "" for generated code and None for other code."""
        if name not in self._paths:
            self._paths[name] = _product_path(name)
        return self._paths[name]


def _product_path(name: str) -> str | None:
    if name.startswith("<"):
        return "" if name.startswith(_GENERATED) else None
    try:
        path = Path(name).resolve().relative_to(ROOT)
    except ValueError:
        return None
    return None if path.parts[0] in _OUTSIDE else path.as_posix()


@contextmanager
def _running(loop: LoopThread, broker: odradek.Broker) -> Iterator[odradek.Broker]:
    async def start() -> None:
        await broker.start()

    async def stop() -> None:
        await broker.stop()

    loop.run(start())
    try:
        yield broker
    finally:
        loop.run(stop())


def walks() -> dict[str, Walk]:
    """Returns the walk of each path."""
    loop = LoopThread()
    # Profiled requests take long: no turn of the loop is to be full.
    limit_s, request_turns.REQUESTS_PER_TURN_S = request_turns.REQUESTS_PER_TURN_S, math.inf
    try:
        tracer = Tracer(loop)
        found = _walks_of_a_node(loop, tracer)
        with _running(loop, first_node()) as broker, closing(DataPath(broker)) as path:
            found |= _walks_of_produce(tracer, path)
            found["Fetch"] = _walk_of_fetch(tracer, path)
            found |= _walks_of_groups(tracer, path)
            found["CreateTopics"] = tracer.fewest(path.topic)
            found["ShareFetch"] = _walk_of_share_fetch(tracer, path)
            # Last: no internal topic has a replica on the second node.
            found["Follower's Fetch"] = _walk_of_follower(loop, tracer, path)
        return found
    finally:
        loop.end()
        request_turns.REQUESTS_PER_TURN_S = limit_s


def _walks_of_a_node(loop: LoopThread, tracer: Tracer) -> dict[str, Walk]:
    starts, stops = [], []
    for number in range(1 + STARTS):
        broker = odradek.Broker()
        start, stop = tracer.coroutine(broker.start), tracer.coroutine(broker.stop)
        if number:  # the first imports modules
            starts.append(start)
            stops.append(stop)
    return {"start of a node": min(starts), "stop of a node": min(stops)}


def _walks_of_produce(tracer: Tracer, path: DataPath) -> dict[str, Walk]:
    topic = path.topic()
    batch = batch_of(b"value")
    return {
        "Produce, acks=1": tracer.fewest(lambda: _accepted(path.produce(topic, batch, acks=1))),
        "Produce, acks=all": tracer.fewest(lambda: _accepted(path.produce(topic, batch, acks=-1))),
        "Produce, transactional": _walk_of_transaction(tracer, path, topic),
    }


def _accepted(part: Any) -> None:
    assert part.error_code == 0, part


def _walk_of_transaction(tracer: Tracer, path: DataPath, topic: str) -> Walk:
    name = "walked"
    find = FindCoordinatorRequest(key_type=1, coordinator_keys=[name])
    eventually(lambda: not path.client.call(find, 6).coordinators[0].error_code, what="the coordinator is found")
    producer = eventually(
        lambda: (made := path.client.call(InitProducerIdRequest(name, 60_000), 4)).error_code == 0 and made,
        what="the producer has an id",
    )
    identity = (producer.producer_id, producer.producer_epoch)
    add = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=identity[0],
        v3_and_below_producer_epoch=identity[1],
        v3_and_below_topics=[AddPartitionsToTxnTopic(topic, [0])],
    )
    (added,) = path.client.call(add, 3).results_by_topic_v3_and_below
    assert added.results_by_partition[0].partition_error_code == 0, added
    sequences = itertools.count()

    def produce() -> None:
        batch = batch_of(
            b"value",
            producer_id=identity[0],
            producer_epoch=identity[1],
            base_sequence=next(sequences),
            transactional=True,
        )
        _accepted(path.produce(topic, batch, acks=-1, version=11, transactional_id=name))

    return tracer.fewest(produce)


def _walk_of_fetch(tracer: Tracer, path: DataPath) -> Walk:
    topic = path.topic()
    path.produce(topic, batch_of(b"value"))

    def fetch() -> None:
        assert path.fetch(topic).records

    return tracer.fewest(fetch)


def _walk_of_follower(loop: LoopThread, tracer: Tracer, path: DataPath) -> Walk:
    """The client takes the place of the follower: the second node is registered and has no partitions."""
    server = path.broker.server
    follower = 2

    async def join() -> tuple[RemoteBroker, asyncio.Task[None]]:
        remote = await RemoteBroker.start(server, follower)
        running = asyncio.create_task(remote.join())
        await until(lambda: remote.registered is not None and not remote.registered.fenced, "the node is unfenced")
        return remote, running

    remote, running = loop.run(join())
    try:
        replicas = [CreatableReplicaAssignment(0, [server.node_id, follower])]
        request = CreateTopicsRequest(topics=[CreatableTopic("followed", -1, -1, assignments=replicas)])
        (made,) = path.client.call(request, 7).topics
        assert made.error_code == 0, made
        offsets = itertools.count()

        def fetch() -> None:
            assert path.fetch("followed", next(offsets), version=12, replica_id=follower).records

        return tracer.fewest(fetch, lambda: _accepted(path.produce("followed", batch_of(b"value"))))
    finally:
        loop.run(remote.die())
        running.cancel()


def _walks_of_groups(tracer: Tracer, path: DataPath) -> dict[str, Walk]:
    find = FindCoordinatorRequest(key_type=0, coordinator_keys=["walked"])
    eventually(lambda: not path.client.call(find, 6).coordinators[0].error_code, what="the coordinator is found")
    topic = path.topic()
    protocols = [JoinGroupRequestProtocol("range", b"")]
    join = JoinGroupRequest("walked", 30_000, 30_000, "", protocol_type="consumer", protocols=protocols)
    commit = OffsetCommitRequest(
        "committed", topics=[OffsetCommitRequestTopic(topic, partitions=[OffsetCommitRequestPartition(0, 1, -1, "")])]
    )

    def join_group() -> None:
        assert path.client.call(join, 9).member_id

    def commit_offset() -> None:
        (part,) = path.client.call(commit, 8).topics[0].partitions
        assert part.error_code == 0, part

    return {"JoinGroup without an id": tracer.fewest(join_group), "OffsetCommit": tracer.fewest(commit_offset)}


def _walk_of_share_fetch(tracer: Tracer, path: DataPath) -> Walk:
    topic = path.topic()
    with closing(Member(path.broker.bootstrap_servers, "shared", topic, [(path.topic_id(topic), 0)])) as member:
        taken = member.take(wait_ms=0)  # initializes the share partition, which starts at the end of the log

        def produce() -> None:
            if taken:
                member.acknowledge(*[(first, last, ACCEPT) for first, last, _ in taken])
            path.produce(topic, batch_of(b"value"))

        def fetch() -> None:
            nonlocal taken
            taken = member.take()

        return tracer.fewest(fetch, produce)


def rows(found: dict[str, Walk]) -> dict[str, Row]:
    return {name: Row(walk.calls, len(walk.files), len(walk.classes)) for name, walk in found.items()}


def table(counted: dict[str, Row]) -> str:
    lines = [f"| {name} | {row.calls:,} | {row.files} | {row.classes} |" for name, row in counted.items()]
    return "\n".join(["| path | calls | files | classes |", "|---|---|---|---|", *lines])


def written_rows() -> dict[str, Row]:
    """Returns the rows of the table on the page."""
    text = PAGE.read_text(encoding="utf-8")
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text[text.index(BEGIN) : text.index(END)].splitlines()
        if line.startswith("| ")
    ]
    return {name: Row(*(int(count.replace(",", "")) for count in counts)) for name, *counts in cells[1:]}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.walked", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the table into architecture.md")
    parser.add_argument("--files", metavar="PATH", help="also list the files of this path, in order")
    options = parser.parse_args()
    found = walks()
    text = table(rows(found))
    print(text)
    if options.files:
        print("", *found[options.files].files, sep="\n")
    if options.write:
        page = PAGE.read_text(encoding="utf-8")
        before, rest = page.split(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main()
