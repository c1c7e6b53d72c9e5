"""A cluster of three brokers with something for every page of the console, and one of them to kill: the active controller,
which also leads partitions and coordinates a group and a transaction.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from odradek.admin.connection import Connection
from odradek.admin.features import Change, update_features
from odradek.admin.metadata_quorum import describe_quorum
from odradek.admin.session import Admin
from odradek.cli.local_cluster.node_processes import node_pids
from odradek.cli.local_cluster.plan import read_plan
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest

from compat_tests.authorization.harness import STANDARD_AUTHORIZER
from compat_tests.cli.commands import odradek_command
from compat_tests.cli.three_node_cluster import three_nodes
from compat_tests.console.harness.dead_letters import rejected
from compat_tests.console.harness.hanging_transaction import write_hanging
from compat_tests.console.harness.streams_group import answered
from compat_tests.console.process import DEADLINE_S
from compat_tests.recipes import eventually
from compat_tests.streams.application import TOPIC as STREAMS_TOPIC
from compat_tests.streams.application import join
from compat_tests.wire import WireClient

RECORDS = 60
REPLICAS = ("--replicas", "3", "--config", "min.insync.replicas=2")
#: Transactions without a coordinator are accepted, so that one can hang; every request is a superuser's. The member of the
#: streams group sends one heartbeat, and is there to the end.
_PROPERTIES = {
    **STANDARD_AUTHORIZER,
    "super.users": "User:ANONYMOUS",
    "transaction.partition.verification.enable": "false",
    "group.streams.max.session.timeout.ms": "3600000",
    "group.streams.session.timeout.ms": "3600000",
    "transaction.max.timeout.ms": "3600000",
}
#: The transaction is open until a test aborts it, however late that is on a slow machine.
_TRANSACTION, _TRANSACTION_TIMEOUT_MS = 1, 3_600_000


@dataclass
class FilledCluster:
    """`victim` is the broker to kill. Of `orders` and `alone`, which has one replica each, it leads the partitions named."""

    bootstrap: str
    directory: Path
    victim: int = 0
    survivor: int = 0
    orders_partition: int = 0
    alone_partition: int = 0
    group: str = ""
    doomed_group: str = ""
    transaction: str = ""
    producer: Any = None
    restarted: subprocess.Popen[bytes] | None = None

    def run(self, *words: str, stdin: str = "") -> Any:
        done = odradek_command(*words, "-b", self.bootstrap, stdin=stdin)
        assert done.status == 0, done
        return done

    def client(self) -> AdminClient:
        """Keep it in a variable until its responses are there."""
        return AdminClient({"bootstrap.servers": self.bootstrap})

    def partitions(self, topic: str) -> Any:
        """The partitions by index, as a new client reads them."""
        return self.client().list_topics(topic, timeout=DEADLINE_S).topics[topic].partitions

    def under_replicated(self) -> int:
        topics = self.client().list_topics(timeout=DEADLINE_S).topics.values()
        return sum(len(one.isrs) < len(one.replicas) for topic in topics for one in topic.partitions.values())

    def victim_first(self) -> str:
        """The addresses, in an order in which clients try the victim before the others."""
        return ",".join(
            sorted(self.bootstrap.split(","), key=lambda one: one != self.bootstrap.split(",")[self.victim - 1])
        )

    def kill(self, node: int) -> None:
        os.kill(self.pids()[node], signal.SIGKILL)

    def pids(self) -> dict[int, int]:
        """The processes of the nodes that run."""
        plan = read_plan(self.directory)
        assert plan is not None
        return node_pids(plan, self.directory)

    @contextlib.contextmanager
    def stopped(self, node: int) -> Iterator[None]:
        """Stops a broker's process: its port accepts connections, and nothing answers."""
        pid = self.pids()[node]
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    @contextlib.contextmanager
    def killed_behind_a_proxy(self, node: int) -> Iterator[None]:
        """Kills a broker, whose port goes on accepting connections and closes them, as that of a proxy does.

        So the controller waits for the end of the broker's session, as Apache Kafka always does.
        """
        address = self.bootstrap.split(",")[node - 1]
        others = self.pids()
        dying = others.pop(node)
        for pid in others.values():
            os.kill(pid, signal.SIGSTOP)  # until the port accepts: one refused connection would tell them
        try:
            os.kill(dying, signal.SIGKILL)
            port = eventually(lambda: _listening(int(address.rpartition(":")[2])), what="the port is free")
        finally:
            for pid in others.values():
                os.kill(pid, signal.SIGCONT)
        with contextlib.closing(port):
            threading.Thread(target=_close_connections, args=(port,), daemon=True).start()
            yield
            port.shutdown(socket.SHUT_RDWR)

    def coordinator(self) -> int:
        """The broker that coordinates the group."""
        with Connection({"bootstrap.servers": self.bootstrap}).admin() as admin:
            return admin.coordinator(self.group)

    def restart(self) -> None:
        properties = self.directory / f"node-{self.victim}" / "server.properties"
        with (self.directory / "restarted.log").open("w") as output:
            command = [sys.executable, "-m", "odradek", "start", str(properties)]
            self.restarted = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)


@contextlib.contextmanager
def filled_cluster(directory: Path) -> Iterator[FilledCluster]:
    properties = (f"{key}={value}" for key, value in _PROPERTIES.items())
    with three_nodes(directory, *properties) as bootstrap:
        made = FilledCluster(bootstrap, directory)
        try:
            _fill(made)
            yield made
        finally:
            if made.restarted is not None:
                made.restarted.terminate()
                made.restarted.wait(DEADLINE_S)


def _listening(port: int) -> socket.socket | None:
    with contextlib.suppress(OSError):
        return socket.create_server(("127.0.0.1", port))
    return None


def _close_connections(port: socket.socket) -> None:
    with contextlib.suppress(OSError):  # until the port is closed
        while True:
            port.accept()[0].close()


def _fill(made: FilledCluster) -> None:
    made.run("topic", "create", "work", "dlq.work", STREAMS_TOPIC, "--partitions", "1", *REPLICAS)
    with Connection({"bootstrap.servers": made.bootstrap}).admin() as admin, _dead_letter(made, admin):
        made.victim = describe_quorum(admin).leader_id
        made.survivor = made.victim % 3 + 1
        made.run("topic", "create", "orders", "doomed", "ledger", "--partitions", "3", *REPLICAS)
        made.run("topic", "create", "alone", "--partitions", "3", "--replicas", "1")
        made.orders_partition = _led_by(made, "orders")
        made.alone_partition = _led_by(made, "alone")
        values = "".join(f'k{number}:{{"id": {number}}}\n' for number in range(RECORDS))
        made.run("produce", "orders", "--create", "-K", ":", stdin=values)
        made.group, made.doomed_group = _coordinated(made.victim, admin.coordinator)
        for group in (made.group, made.doomed_group):
            made.run("group", "reset", group, "--create", "--to", "end", "--topic", "orders")
        assert answered(made.bootstrap, join(), 1).error_code == 0
        write_hanging(made.bootstrap, *REPLICAS)
        _open_transaction(made)


def _led_by(made: FilledCluster, topic: str) -> int:
    """A partition of the topic that the victim leads."""
    return next(index for index, one in made.partitions(topic).items() if one.leader == made.victim)


def _coordinated(node: int, coordinator: Callable[[str], int]) -> tuple[str, str]:
    """Two names that the node coordinates."""
    names = (name for name in map("billing-{}".format, itertools.count()) if coordinator(name) == node)
    return next(names), next(names)


@contextlib.contextmanager
def _dead_letter(made: FilledCluster, admin: Admin) -> Iterator[None]:
    """A share group rejects a record while the block runs. Then it has no members, and its dead-letter queue the record."""
    update_features(admin, {"share.version": (2, Change.UPGRADE)})
    queue = ("errors.deadletterqueue.topic.name=dlq.work", "errors.deadletterqueue.copy.record.enable=true")
    made.run("config", "set", "topic", "dlq.work", "errors.deadletterqueue.group.enable=true")
    made.run("config", "set", "group", "sharers", "share.auto.offset.reset=earliest", *queue)
    made.run("produce", "work", "--create", stdin='{"job": "broken"}\n')
    with ThreadPoolExecutor(1) as beside:
        rejecting = beside.submit(lambda: rejected(made.bootstrap).close())
        yield
        rejecting.result(DEADLINE_S)
    eventually(lambda: watermarks(made.bootstrap, "dlq.work", 0)[1] == 1, what="the queue has the record")


def watermarks(bootstrap: str, topic: str, partition: int) -> tuple[int, int]:
    """The first offset of a partition, and its high watermark."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "watermarks"})
    try:
        found: tuple[int, int] = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=DEADLINE_S)
        return found
    finally:
        consumer.close()


def _open_transaction(made: FilledCluster) -> None:
    """A transaction with a record in each partition of the topic, which only an administrator ends."""

    def coordinator(name: str) -> int:
        with WireClient(made.bootstrap.split(",")[0]) as client:
            asked = FindCoordinatorRequest(key_type=_TRANSACTION, coordinator_keys=[name])
            return int(eventually(lambda: _found(client, asked), what="transactions have a coordinator"))

    made.transaction, _ = _coordinated(made.victim, coordinator)
    made.producer = Producer(
        {
            "bootstrap.servers": made.bootstrap,
            "transactional.id": made.transaction,
            "transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS,
            "log_level": 0,
        }
    )
    made.producer.init_transactions(DEADLINE_S)
    made.producer.begin_transaction()
    for partition in range(3):
        made.producer.produce("ledger", b"unfinished", partition=partition)
    assert made.producer.flush(DEADLINE_S) == 0


def _found(client: WireClient, request: FindCoordinatorRequest) -> int:
    """The node of the coordinator, 0 while there is none."""
    (response,) = client.call(request, 4).coordinators
    return int(response.node_id) if response.error_code == 0 else 0
