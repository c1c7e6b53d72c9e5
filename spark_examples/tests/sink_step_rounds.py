"""Rounds of kills placed at the steps of a batch's commit: `python -m spark_examples.tests.sink_step_rounds --rounds 40`.

copy_once.py copies a topic in small batches, with executors on two hosts, with speculation and with retries of
tasks. All of its requests pass a proxy. In each round a request of a task is delayed, so that Spark starts a
speculative attempt; then a request that is a step of the batch is awaited. Before it, within it or after it, the driver with
all its processes, an executor, the broker, or driver and broker are killed, and started again.

At the end librdkafka, Java's consumer and Spark's connector, which read committed records, have each one once, in each
partition in the order of the source. With --target apache the broker is Apache Kafka.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import psutil
import pyspark
from odradek.admin.connection import Connection
from odradek.admin.nodes import describe_cluster
from odradek.protocol.messages.list_transactions import ListTransactionsRequest

sys.path.append(str(Path(__file__).resolve().parents[1]))  # the programs import each other by bare names

from jars import connector_jars
from session import spark_session

from compat_tests.broker_process import BrokerProcess, free_port
from compat_tests.faults.fault_proxy import FaultProxy, ProxyFault
from compat_tests.java.tool import run_tool
from spark_examples.tests.quick_jvm import QUICK_JVM
from spark_examples.tests.sink_rounds import PARTITIONS, SOURCE, TARGET, CopyingQuery, by_partition

#: Records are left to copy behind those of the batches that a round may take.
_LEFT_BATCHES = 40
_DEADLINE_S, _SPECULATIVE_S, _READ_S = 600, 1.5, 120
#: A response to a request that was struck comes within this time, or never.
_RESPONSE_S = 10
_EXECUTOR = "CoarseGrainedExecutorBackend"
_SETTINGS = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.2",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "200ms",
    "spark.task.maxFailures": "8",
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.executor.memory": "512m",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}


class Step(NamedTuple):
    """A request of a batch. `naming`: bytes in it. `is_of_task`: a task sends it, others the driver."""

    name: str
    api: str
    naming: bytes = b""
    after: str = ""
    is_of_task: bool = False


STEPS = (
    Step("a task takes its id", "InitProducerId", b".1.0", is_of_task=True),
    Step("a task adds partitions", "AddPartitionsToTxn", b".1.0", is_of_task=True),
    Step("a task writes", "Produce", TARGET.encode(), is_of_task=True),
    Step("the driver takes the ledger", "InitProducerId", b".ledger"),
    Step("the driver reads the ledger", "OffsetFetch"),
    Step("the driver lists transactions", "ListTransactions"),
    Step("the driver describes transactions", "DescribeTransactions"),
    Step("the driver writes the ledger", "TxnOffsetCommit"),
    Step("the driver decides", "EndTxn", b".ledger"),
    Step("the driver ends a task's transaction", "EndTxn", b".1.0"),
    Step("the driver notes the end", "EndTxn", b".ledger", after="EndTxn"),
)
#: Kinds of faults by the moment of the kill.
MOMENTS = {"before": "drop", "within": "first", "after": "drop_answer"}


class SteppedCopies(CopyingQuery):
    """The query with its broker behind the proxy, and the kills."""

    def __init__(
        self, broker: BrokerProcess, proxy: FaultProxy, cluster: SparkCluster, folder: Path, seed: int
    ) -> None:
        super().__init__(broker, folder, proxy.address, cluster.launcher)
        self._proxy, self._cluster = proxy, cluster
        self._rng = random.Random(seed)
        self.kills: Counter[str] = Counter()
        self.moments: Counter[str] = Counter()
        self._is_killed = False
        self._met_s = math.inf

    def run(self, rounds: int, minutes: float) -> int:
        """Returns the number of rounds."""
        began = time.monotonic()
        self._fill(_LEFT_BATCHES)
        places = [(step, moment) for step in STEPS for moment in MOMENTS]
        self._rng.shuffle(places)
        try:
            self._start()
            for number in range(rounds):
                if time.monotonic() - began > 60 * minutes:
                    rounds = number
                    break
                self._round(*places[number % len(places)])
                print(f"round {number + 1} at {time.monotonic() - began:.0f} s", flush=True)
            self._end()
        finally:
            if self.program is not None:
                self.program.kill()
        return rounds

    def _round(self, step: Step, moment: str) -> None:
        self._fill(self._batches() + _LEFT_BATCHES)
        self._proxy.clear()
        delayed = self._proxy.strike(ProxyFault("delay", naming=TARGET.encode(), seconds=_SPECULATIVE_S))
        self._wait(lambda: delayed.count == 1, "a task writes")
        kill = self._rng.choice(("executor", "broker") if step.is_of_task else ("driver", "driver", "broker", "both"))
        self._proxy.clear()
        self._is_killed = False
        fault = ProxyFault(MOMENTS[moment], step.api, naming=step.naming, after=step.after)
        self._proxy.strike(fault, lambda: self._kill(kill))
        self._wait(lambda: self._has_killed(fault), f"{moment} {step.name}")
        self.kills[kill] += 1
        self.moments[f"{moment} {step.name}"] += 1
        print(f"{kill}, {moment} {step.name}:", end=" ", flush=True)
        if not self.broker.is_running:
            self.broker.start()
        if not self.running.is_running:
            self._start()
        before, self._is_killed = self._batches(), False
        self._wait(lambda: self._batches() > before, "a batch after the kill")

    def _has_killed(self, fault: ProxyFault) -> bool:
        """Returns whether the kill came. A request whose connection ends before its response brings none: the next one is
        struck.
        """
        if not fault.count:
            self._met_s = math.inf
        elif math.isinf(self._met_s):
            self._met_s = time.monotonic()
        elif not self._is_killed and time.monotonic() - self._met_s > _RESPONSE_S:
            fault.count = 0
        return self._is_killed

    def _kill(self, kill: str) -> None:
        """Kills at once, in the thread of the proxy, which holds the request back meanwhile."""
        if kill in ("broker", "both"):
            self.broker.kill()
        if kill in ("driver", "both"):
            self.running.kill()
        if kill == "executor":
            self._rng.choice(self._cluster.executors()).kill()
        self._is_killed = True

    def _wait(self, holds: Callable[[], bool], what: str) -> None:
        """Waits until a condition holds. A driver that ends by itself, without its broker, starts again."""
        give_up = time.monotonic() + _DEADLINE_S
        while not holds():
            assert time.monotonic() < give_up, f"not in {_DEADLINE_S} s: {what}\n{self.running.last_words()}"
            if not self.running.is_running and self.broker.is_running and not self._is_killed:
                self._start()
            time.sleep(0.05)

    def further_attempts(self) -> int:
        """The attempts of tasks after the first, by the transactional ids that the broker keeps."""
        with Connection({"bootstrap.servers": self.broker.bootstrap}).admin() as admin:
            request = ListTransactionsRequest(state_filters=[], producer_id_filters=[])
            names = [
                one.transactional_id
                for node in describe_cluster(admin).running
                for one in admin.ask(request, node).transaction_states
            ]
        return sum(name.rpartition(".")[2] not in ("0", "ledger") for name in names)

    def check(self) -> dict[str, int]:
        """The records by each reader. Raises AssertionError where one has others than the source, or another order."""
        source = by_partition(self.broker.bootstrap, SOURCE)
        assert sum(map(len, source.values())) == self.written
        readers = {
            "librdkafka": by_partition(self.broker.bootstrap, TARGET),
            "Java": _by_java(self.broker.bootstrap),
            "connector": _by_connector(self.broker.bootstrap),
        }
        for reader, found in readers.items():
            for index in range(PARTITIONS):
                assert sorted(found[index], key=int) == sorted(source[index], key=int), (
                    f"{reader}: partition {index} has {len(found[index])} records of {len(source[index])}"
                )
                assert found[index] == source[index], f"{reader}: the order of partition {index} changed"
        return {reader: sum(map(len, found.values())) for reader, found in readers.items()}


def _is_executor(process: psutil.Process) -> bool:
    try:
        return any(_EXECUTOR in word for word in process.cmdline())
    except psutil.Error:
        return False


class SparkCluster:
    """A master and two workers of Spark's own cluster, each of a host of its own: Spark starts no speculative attempt on the
    host of the first one.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._home = Path(pyspark.__file__).parent
        self._processes: list[subprocess.Popen[bytes]] = []
        self.url = f"spark://127.0.0.1:{free_port()}"

    @property
    def launcher(self) -> list[str]:
        settings = [word for key, value in _SETTINGS.items() for word in ("--conf", f"{key}={value}")]
        jars = ",".join(map(str, connector_jars()))
        return [str(self._home / "bin" / "spark-submit"), "--master", self.url, "--jars", jars, *settings]

    def executors(self) -> list[psutil.Process]:
        children = [one for process in self._processes for one in psutil.Process(process.pid).children(recursive=True)]
        return [one for one in children if _is_executor(one)]

    def _begin(self, name: str, *words: str) -> None:
        command = [
            str(self._home / "bin" / "spark-class"),
            f"org.apache.spark.deploy.{name}",
            "--webui-port",
            "0",
            *words,
        ]
        with (self._folder / "cluster.log").open("ab") as log:
            made = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=os.environ | QUICK_JVM
            )
        self._processes.append(made)

    def __enter__(self) -> SparkCluster:
        self._begin("master.Master", "--host", "127.0.0.1", "--port", self.url.rpartition(":")[2])
        for number in (1, 2):
            place = ("--host", f"127.0.0.{number}", "--work-dir", str(self._folder / f"worker-{number}"))
            self._begin("worker.Worker", *place, "--cores", "2", "--memory", "1g", self.url)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.executors():
            process.kill()
        for one in self._processes:
            one.kill()
            one.wait()


def _by_java(bootstrap: str) -> dict[int, list[bytes]]:
    found: dict[int, list[bytes]] = {}
    for partition in range(PARTITIONS):
        done = run_tool(
            "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", bootstrap, "--topic", TARGET,
            "--partition", str(partition), "--offset", "earliest", "--isolation-level", "read_committed",
            "--timeout-ms", "15000", timeout=_READ_S,
        )  # fmt: skip
        found[partition] = done.out.encode().split()
    return found


def _by_connector(bootstrap: str) -> dict[int, list[bytes]]:
    spark = spark_session("sink-step-rounds")
    try:
        options = {"kafka.bootstrap.servers": bootstrap, "subscribe": TARGET, "kafka.isolation.level": "read_committed"}
        rows = spark.read.format("kafka").options(**options).load().select("partition", "offset", "value").collect()
    finally:
        spark.stop()
    rows.sort(key=lambda row: row.offset)
    return {index: [bytes(row.value) for row in rows if row.partition == index] for index in range(PARTITIONS)}


def main() -> None:
    from compat_tests.odradek_process import OdradekProcess
    from compat_tests.oracle import ApacheKafka

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--minutes", type=float, default=600.0, help="no round begins after this time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", choices=("odradek", "apache"), default="odradek")
    options = parser.parse_args()
    os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parents[2])  # where Spark finds `pyspark_odradek`
    os.environ["PYSPARK_PYTHON"] = sys.executable
    kind: type[BrokerProcess] = ApacheKafka if options.target == "apache" else OdradekProcess
    with tempfile.TemporaryDirectory() as place, FaultProxy() as proxy:
        folder = Path(place)
        properties = {"advertised.listeners": f"PLAINTEXT://{proxy.address}"}
        if kind is OdradekProcess:
            properties["listeners"] = f"PLAINTEXT://127.0.0.1:{free_port()}"
        with kind(folder / "broker", properties) as broker:
            proxy.target = broker.bootstrap
            with SparkCluster(folder) as cluster:
                copies = SteppedCopies(broker, proxy, cluster, folder, options.seed)
                rounds = copies.run(options.rounds, options.minutes)
            print(f"further attempts of tasks: {copies.further_attempts()}", flush=True)
            counts = copies.check()
    print(f"{rounds} rounds, {copies.written} records, each once: {counts}")
    print(f"kills: {dict(copies.kills)}; {len(copies.moments)} places: {dict(copies.moments)}")


if __name__ == "__main__":
    main()
