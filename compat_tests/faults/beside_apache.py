"""The fault table of Odradek and Apache Kafka: `python -m compat_tests.faults.beside_apache` prints both, with differences.

Odradek makes its own faults (`broker.faults`); a proxy makes the same ones in front of Apache Kafka (`fault_proxy.py`).
The exceptions are MESSAGE_TOO_LARGE, a limit of the topic, and SIGSTOP and kill -9 with a start, which hit the process.
Five clients run against each fault. A producer's reaction is its application's result, the number of its requests, and
the number of records afterwards. A consumer's is its application's result, and the requests with which it recovers.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import odradek
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.protocol.records.record import Record
from odradek.testing.faults import Fault
from odradek.testing.sending import send

from compat_tests.asking import coordinator_of
from compat_tests.batches import read_batches, topic_names
from compat_tests.broker_process import free_port
from compat_tests.faults.fault_proxy import FaultProxy, ProxyFault
from compat_tests.oracle import ApacheKafka
from compat_tests.recipes import eventually, make_topic
from compat_tests.wire import WireClient
from tests.testing.clients.python_clients import LAST
from tests.testing.fault_table import (
    CONSUMED,
    GIVEN_UP,
    NAMES,
    PASSED_OVER,
    RETRIED,
    Client,
    Make,
    Recovery,
    all_clients,
    consume_through,
)

_TOPIC, _GROUP = "orders", "billing"
#: The resource type of topics in AlterConfigs, and the operation that removes a key.
_TOPIC_RESOURCE, _DELETE = 2, 1
#: The errors of DeleteGroups once the group is deleted, or if it never existed.
_GONE = (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND)


class Reaction(NamedTuple):
    """A client's reaction. `requests`: a producer's Produce requests, or a consumer's requests of the table's API, up to
    the count there, since later ones depend on timing. `records`: the number in the topic.
    """

    outcome: str
    struck: int
    requests: int
    records: int

    def __str__(self) -> str:
        return f"{self.outcome}; struck {self.struck}, {self.requests} requests, {self.records} records"


@dataclass(frozen=True)
class Case:
    """A fault on both sides. `configs`: configs of Apache Kafka's topic, in place of a fault of the proxy. `api`: the API
    whose requests are counted, up to `most`.
    """

    name: str
    make: Make | None
    proxied: ProxyFault | None
    configs: tuple[tuple[str, str], ...] = ()
    consumes: bool = False
    api: str = "Produce"
    most: int = 100

    def __str__(self) -> str:
        return f"{'consumer' if self.consumes else 'producer'}, {self.name}"


def _produced(name: str, make: Make, **fault: object) -> Case:
    return Case(name, make, ProxyFault(**fault))  # type: ignore[arg-type]


def _consumed(name: str, **fault: object) -> Case:
    make, api, most = CONSUMED[name]
    return Case(name, make, ProxyFault(**fault), (), True, api, most)  # type: ignore[arg-type]


def _given_up(error: str) -> Make:
    assert error in GIVEN_UP
    return lambda faults: faults.fail("Produce", error=error)


PAUSED, KILLED = "broker paused", "broker killed and started"
_PAUSE_S = 0.2
#: The whole fault table, except the slow disk: there is none for Apache Kafka here.
CASES = (
    _produced("leader moved", RETRIED["leader moved"][0], kind="refuse", error=ErrorCode.NOT_LEADER_OR_FOLLOWER, times=2),
    _produced("too few replicas", RETRIED["too few replicas"][0], kind="refuse", error=ErrorCode.NOT_ENOUGH_REPLICAS,
              times=2),
    _produced("disk failed", RETRIED["disk failed"][0], kind="refuse", error=ErrorCode.KAFKA_STORAGE_ERROR),
    _produced("timed out after the write", RETRIED["timed out after the write"][0], kind="answer_error",
              error=ErrorCode.REQUEST_TIMED_OUT),
    _produced("request lost", RETRIED["request lost"][0], kind="drop"),
    _produced("answer lost", RETRIED["answer lost"][0], kind="drop_answer"),
    _produced("answer cut", RETRIED["answer cut"][0], kind="cut_answer"),
    _produced("slow answer", PASSED_OVER["slow answer"], kind="delay", seconds=0.1),
    _produced("throttled", PASSED_OVER["throttled"], kind="throttle", seconds=0.05),
    _produced("no leader in metadata", PASSED_OVER["no leader in metadata"], kind="answer_error", api="Metadata",
              error=ErrorCode.LEADER_NOT_AVAILABLE, naming=_TOPIC.encode()),
    Case("MESSAGE_TOO_LARGE", _given_up("MESSAGE_TOO_LARGE"), None, (("max.message.bytes", "10"),)),
    _produced("TOPIC_AUTHORIZATION_FAILED", _given_up("TOPIC_AUTHORIZATION_FAILED"), kind="refuse",
              error=ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    Case(PAUSED, lambda faults: faults.pause(), None),
    Case(KILLED, None, ProxyFault("drop")),
    _consumed("leader moved", kind="answer_error", api="Fetch", error=ErrorCode.NOT_LEADER_OR_FOLLOWER),
    _consumed("offset out of range", kind="answer_error", api="Fetch", error=ErrorCode.OFFSET_OUT_OF_RANGE),
    _consumed("connection lost", kind="drop", api="Fetch"),
    _consumed("coordinator moved", kind="answer_error", api="Heartbeat", error=ErrorCode.NOT_COORDINATOR),
    _consumed("coordinator starts", kind="answer_error", api="FindCoordinator",
              error=ErrorCode.COORDINATOR_NOT_AVAILABLE),
    _consumed("rebalance", kind="answer_error", api="Heartbeat", error=ErrorCode.REBALANCE_IN_PROGRESS,
              times=sys.maxsize),
)  # fmt: skip


class Side:
    """A broker behind a proxy. A subclass makes the faults and a new topic."""

    name = ""

    def __init__(self, proxy: FaultProxy, direct: str) -> None:
        self.proxy = proxy
        #: The broker's own address.
        self.direct = direct

    def reaction(self, case: Case, client: Client, name: str) -> Reaction:
        """Runs a client against a fault, and returns its reaction."""
        self.renew(dict(case.configs))
        if case.consumes:
            self.send()
        self.proxy.clear()
        self.make(case)
        with ThreadPoolExecutor(1) as beside:
            over = beside.submit(self._end_pause, name) if case.name == PAUSED else None
            outcome = self._consume(case, client, name) if case.consumes else client.produce(self.proxy.address)
            if over is not None:
                over.result()
        struck = min(self.unmake(), 1) if case.consumes else self.unmake()
        requests = min(case.most, self.proxy.asked(name, case.api))
        return Reaction(outcome, struck, requests, self._records())

    def _consume(self, case: Case, client: Client, name: str) -> str:
        recovery = Recovery(case.api, case.most, self.has_struck, self.end_fault, lambda: self.send(LAST))
        return consume_through(client, self.proxy.address, lambda api: self.proxy.asked(name, api), recovery)

    def send(self, value: bytes = b"order 1") -> None:
        """Puts a record into the topic."""
        now_ms = int(time.time() * 1000)  # retention deletes older ones
        send(self.direct, _TOPIC, 0, [Record(timestamp=now_ms, key=None, value=value, headers=[])])

    def _end_pause(self, client_id: str) -> None:
        eventually(lambda: self.proxy.asked(client_id), what=f"{client_id} asks for anything")
        time.sleep(_PAUSE_S)  # how long the pause lasts
        self.resume()

    def resume(self) -> None:
        """Ends the pause."""
        raise NotImplementedError

    def kill_and_start(self) -> None:
        """Kills the broker and starts it on its data."""
        raise NotImplementedError

    def renew(self, configs: dict[str, str]) -> None:
        raise NotImplementedError

    def make(self, case: Case) -> None:
        raise NotImplementedError

    def has_struck(self) -> bool:
        raise NotImplementedError

    def end_fault(self) -> None:
        """Ends a consumer's fault."""
        raise NotImplementedError

    def unmake(self) -> int:
        """Ends the fault, and returns how often it struck."""
        raise NotImplementedError

    def _records(self) -> int:
        return sum(len(records) for _, records in read_batches(self.direct, _TOPIC, 0))


class OdradekSide(Side):
    name = "Odradek"

    def __init__(self, proxy: FaultProxy, broker: odradek.Broker, direct: str) -> None:
        super().__init__(proxy, direct)
        self._broker = broker
        self._made: Fault | None = None
        self._proxied: ProxyFault | None = None

    def renew(self, configs: dict[str, str]) -> None:
        self._broker.reset()
        self._broker.topic(_TOPIC).create()

    def make(self, case: Case) -> None:
        self._made = self._proxied = None
        if case.make is not None:
            self._made = case.make(self._broker.faults)
        else:
            self._proxied = self.proxy.strike(replace(case.proxied), self.kill_and_start)  # type: ignore[type-var]

    def has_struck(self) -> bool:
        assert self._made is not None
        return self._made.count > 0

    def end_fault(self) -> None:
        assert self._made is not None
        self._made.cancel()

    def unmake(self) -> int:
        self._broker.faults.clear()
        if self._made is not None:
            return min(self._made.count, self._made.times or 1)
        assert self._proxied is not None
        return self._proxied.count

    def resume(self) -> None:
        assert self._made is not None
        self._made.cancel()

    def kill_and_start(self) -> None:
        self._broker.kill()
        self._broker.restart()


class ApacheSide(Side):
    name = "Apache Kafka"

    def __init__(self, proxy: FaultProxy, broker: ApacheKafka) -> None:
        super().__init__(proxy, broker.bootstrap)
        self._broker = broker
        self._fault: ProxyFault | None = None

    def renew(self, configs: dict[str, str]) -> None:
        with WireClient(self.direct) as wire:
            if _TOPIC in topic_names(self.direct):
                deleted = wire.call(DeleteTopicsRequest(topic_names=[_TOPIC], timeout_ms=10_000), 5)
                assert deleted.responses[0].error_code == ErrorCode.NONE, deleted
            groups = DeleteGroupsRequest(groups_names=[_GROUP])
            eventually(
                lambda: wire.call(groups, 2).results[0].error_code in _GONE,
                what="the group has neither members nor name",
            )
        make_topic(self.direct, _TOPIC, configs=configs)

    def make(self, case: Case) -> None:
        self._fault = None
        if case.name == PAUSED:
            os.kill(self._broker.pid, signal.SIGSTOP)
        elif case.proxied is not None:
            effect = self.kill_and_start if case.name == KILLED else None
            self._fault = self.proxy.strike(replace(case.proxied), effect)

    def has_struck(self) -> bool:
        assert self._fault is not None
        return self._fault.count > 0

    def end_fault(self) -> None:
        self.proxy.end_fault()

    def unmake(self) -> int:
        # After a kill and a start, Apache Kafka 4.3 gives a new topic the configs of a deleted topic of the same name.
        resource = AlterConfigsResource(_TOPIC_RESOURCE, _TOPIC, [AlterableConfig("max.message.bytes", _DELETE, None)])
        with WireClient(self.direct) as wire:
            altered = wire.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert altered.responses[0].error_code == ErrorCode.NONE, altered
        # Without a fault of the proxy it is the topic's limit, which hits the only request, or the pause: 1.
        return 1 if self._fault is None else self._fault.count

    def resume(self) -> None:
        os.kill(self._broker.pid, signal.SIGCONT)

    def kill_and_start(self) -> None:
        self._broker.kill()
        self._broker.start()


@contextmanager
def both_sides(directory: Path) -> Iterator[tuple[Side, Side]]:
    """Starts Odradek and Apache Kafka, each behind a proxy."""
    with ExitStack() as stack:
        mine, theirs = stack.enter_context(FaultProxy()), stack.enter_context(FaultProxy())
        common = {"auto.create.topics.enable": "false"}
        port = free_port()
        config = {
            **common,
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "advertised.listeners": f"PLAINTEXT://{mine.address}",
        }
        broker = stack.enter_context(odradek.Broker(config=config))
        mine.target = f"127.0.0.1:{port}"
        apache = ApacheKafka(directory, {**common, "advertised.listeners": f"PLAINTEXT://{theirs.address}"})
        stack.enter_context(apache)
        theirs.target = apache.bootstrap
        yield OdradekSide(mine, broker, mine.target), ApacheSide(theirs, apache)


def warm_up(side: Side, client: Client) -> None:
    """Has the broker create its offsets topic, and a client join the group."""
    eventually(lambda: coordinator_of(side.direct, _GROUP), what="the group has a coordinator")
    side.renew({})
    side.send(LAST)
    assert client.consume(side.proxy.address) == "ok"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m compat_tests.faults.beside_apache", description=__doc__)
    parser.add_argument("--client", action="append", choices=NAMES, help="of these clients only")
    parser.add_argument("--case", action="append", choices=[str(case) for case in CASES], help="these faults only")
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    names, cases = options.client or NAMES, [case for case in CASES if str(case) in (options.case or map(str, CASES))]
    different = 0
    with tempfile.TemporaryDirectory() as folder, both_sides(Path(folder)) as sides, all_clients() as clients:
        for side in sides:
            warm_up(side, clients["kafka-python"])
        for case in cases * options.rounds:
            for name in names:
                here, there = (side.reaction(case, clients[name], name) for side in sides)
                different += here != there
                shown = f"{here}" if here == there else f"ODRADEK {here}; APACHE {there}"
                print(f"{case!s:36} {name:13} {shown}", flush=True)
    print(f"{options.rounds * len(cases) * len(names)} reactions, {different} differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
