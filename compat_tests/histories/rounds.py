"""A round: a new cluster, all workloads at once, seeded faults, rest, a last read of everything, and the verdict."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest

from compat_tests.access import connect
from compat_tests.broker_process import BrokerFailed
from compat_tests.faults.faults import heal
from compat_tests.faults.nodes import FaultyCluster
from compat_tests.recipes import eventually
from compat_tests.share_faults.group import SharedTopic

from .aiokafka_client import AiokafkaClient
from .cluster_faults import FAULTS
from .drain import drain, ends, is_caught_up
from .idle_workers import idle_workers
from .kafka_python_client import KafkaPythonClient
from .librdkafka_client import LibrdkafkaClient
from .operation import read
from .piped_client import FranzGoClient, JavaClient
from .recorder import Recorder, now_ns
from .recreation import recreator
from .verdict import Verdict, judge
from .workloads import (
    APPEND,
    CHAIN_GROUP,
    COPIES,
    QUEUE,
    SHARE_GROUP,
    SHARED,
    SOURCE,
    TOPICS,
    Setting,
    Worker,
    appender,
    copier,
    keys_of,
    raw_member,
    reader,
    register_user,
    sender,
    sharer,
    subscriber,
)

#: How long a fault lasts, and the rest between two faults.
LASTS_S = (1.0, 9.0)
REST_S = (2.0, 5.0)
#: For late transactions, locks and sessions to end after the last fault. A busy machine takes long.
SETTLE_S = 180.0
DELIVERY_LIMIT, LOCK_S = 5, 4
#: Sessions are longer than in compat_tests.faults: on a busy machine, leaderships would move without a fault.
_PROPERTIES = {
    "broker.session.timeout.ms": "6000",
    "replica.lag.time.max.ms": "6000",
    "group.share.delivery.count.limit": str(DELIVERY_LIMIT),
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": str(LOCK_S * 1000),
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
}

WORKLOADS: dict[str, Sequence[Worker]] = {
    "queue": (
        sender(LibrdkafkaClient, QUEUE),
        sender(AiokafkaClient, QUEUE),
        reader(KafkaPythonClient, (QUEUE, APPEND), "kafka-python"),
        reader(LibrdkafkaClient, (QUEUE, APPEND), "librdkafka"),
    ),
    "append": (appender(LibrdkafkaClient, "a", 0.2), appender(KafkaPythonClient, "b", 0.2)),
    "aborts": (appender(AiokafkaClient, "c", 0.7),),
    "groups": (
        subscriber(KafkaPythonClient, "kafka-python"),
        subscriber(LibrdkafkaClient, "librdkafka"),
        subscriber(LibrdkafkaClient, "KIP-848", is_consumer_protocol=True),
        raw_member(1),
        raw_member(2),
    ),
    "chain": (sender(KafkaPythonClient, SOURCE), copier(LibrdkafkaClient, "a"), copier(LibrdkafkaClient, "b")),
    "share": (sender(LibrdkafkaClient, SHARED), sharer(1), sharer(2)),
    "java": (
        sender(JavaClient, QUEUE),
        appender(JavaClient, "java", 0.3),
        subscriber(JavaClient, "java", is_consumer_protocol=True),
        copier(JavaClient, "java"),
    ),
    "franz-go": (
        sender(FranzGoClient, QUEUE),
        reader(FranzGoClient, (QUEUE, APPEND), "franz-go"),
        appender(FranzGoClient, "franz-go", 0.3),
    ),
    "recreation": (recreator(),),
    "registers": (register_user(1), register_user(2), register_user(3)),
}


#: Those whose clients need no other language.
PYTHON_WORKLOADS = tuple(name for name in WORKLOADS if name not in ("java", "franz-go"))


@dataclass(frozen=True)
class Plan:
    kind: str = "odradek"
    nodes: int = 3
    #: How long workloads run and faults come.
    seconds: float = 60
    names: Sequence[str] = tuple(FAULTS)
    workloads: Sequence[str] = tuple(WORKLOADS)
    #: Variables of the nodes' processes.
    environment: Mapping[str, str] | None = None
    lasts_s: tuple[float, float] = LASTS_S
    settle_s: float = SETTLE_S


@dataclass
class Outcome:
    seed: int
    plan: Plan
    faults: list[str] = field(default_factory=list)
    verdict: Verdict | None = None
    late: str = ""
    #: Workers, with the operations of which none had an effect: a history without them has no anomaly either.
    idle: Sequence[str] = ()
    seconds: float = 0.0

    @property
    def is_good(self) -> bool:
        return self.verdict is not None and not self.verdict.violations and not self.late and not self.idle

    def __str__(self) -> str:
        counts = Counter(fault.partition(" of ")[0] for fault in self.faults)
        head = f"seed {self.seed}, {self.plan.kind}, {self.seconds:.0f} s, faults: {dict(counts)}"
        lines = [head, *([f"late: {self.late}"] if self.late else []), *(f"idle: {one}" for one in self.idle)]
        return "\n".join([*lines, str(self.verdict or "no verdict")])


def execute(seed: int, plan: Plan, directory: Path, say: Callable[[str], None] = lambda _: None) -> Outcome:
    """Runs a round. `directory` keeps `history.jsonl` and the brokers' logs."""
    outcome, rng, began = Outcome(seed, plan), Random(seed), time.monotonic()
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "history.jsonl"
    with Recorder(path) as recorder, _cluster(plan, seed, directory) as cluster:
        make_topics(cluster)
        shared = SharedTopic(cluster.bootstrap, SHARED, SHARE_GROUP)
        eventually(lambda: shared.configure({"share.auto.offset.reset": "earliest"}), what="the group is configured")
        recorder.settings({"delivery_limit": DELIVERY_LIMIT, "lock_ns": LOCK_S * 10**9}, group=SHARE_GROUP)
        setting = Setting(cluster.bootstrap, recorder, threading.Event(), threading.Event())
        try:
            with _running(plan, seed, setting) as threads:
                outcome.faults += _faults(plan, cluster, rng, recorder, say)
                setting.stopped.set()
                _settle(plan, cluster, setting, threads, shared)
                keys = [key for topic in TOPICS for key in keys_of(topic)]
                drain(cluster.bootstrap, keys, recorder, plan.settle_s)
        except (AssertionError, BrokerFailed) as late:
            outcome.late = str(late)
    history = read(path)
    outcome.verdict = judge(history)
    outcome.idle = idle_workers(plan_workers(plan), recorder.thread_of, history)
    outcome.seconds = time.monotonic() - began
    return outcome


def plan_workers(plan: Plan) -> list[Worker]:
    workers = [worker for name in plan.workloads for worker in WORKLOADS[name]]
    assert len({worker.name for worker in workers}) == len(workers), "two workers have one name"
    return workers


@contextmanager
def _cluster(plan: Plan, seed: int, directory: Path) -> Iterator[FaultyCluster]:
    cluster = FaultyCluster(plan.kind, plan.nodes, directory, seed=seed, properties=dict(_PROPERTIES))
    cluster.environment = plan.environment
    with cluster:
        yield cluster


def make_topics(cluster: FaultyCluster) -> None:
    wanted = CreateTopicsRequest(
        [CreatableTopic(name, partitions, min(3, len(cluster.nodes))) for name, partitions in TOPICS.items()],
        timeout_ms=10_000,
    )

    def made() -> bool:
        with connect(next(iter(cluster.nodes.values())).bootstrap) as client:
            return all(topic.error_code in (0, 36) for topic in client.call(wanted, 7).topics)

    eventually(made, what="the topics are made", deadline_s=60)


@contextmanager
def _running(plan: Plan, seed: int, setting: Setting) -> Iterator[dict[Worker, threading.Thread]]:
    workers = plan_workers(plan)
    failures: list[str] = []

    def run(worker: Worker) -> None:
        try:
            worker.run(setting, Random(f"{seed} {worker.name}"))
        except Exception as error:
            failures.append(f"{worker.name}: {type(error).__name__}: {error}")

    threads = {
        worker: threading.Thread(target=run, name=worker.name, args=(worker,), daemon=True) for worker in workers
    }
    try:
        for thread in threads.values():
            thread.start()
        yield threads
    finally:
        setting.stopped.set()
        setting.caught_up.set()
        deadline = time.monotonic() + plan.settle_s
        for thread in threads.values():
            thread.join(max(0.0, deadline - time.monotonic()))
    assert not failures, failures


def _faults(
    plan: Plan, cluster: FaultyCluster, rng: Random, recorder: Recorder, say: Callable[[str], None]
) -> Iterator[str]:
    end = time.monotonic() + plan.seconds
    _rest(rng, REST_S)
    while plan.names and time.monotonic() < end:
        began = now_ns()
        text = FAULTS[rng.choice(list(plan.names))].begin(cluster, rng)
        say(text)
        yield text
        _rest(rng, plan.lasts_s)
        heal(cluster)
        recorder.fault(text, began)
        _rest(rng, REST_S)
    time.sleep(max(0.0, end - time.monotonic()))  # a round without faults lasts as long


def _rest(rng: Random, between: tuple[float, float]) -> None:
    """Sleeps while a fault lasts or the cluster recovers; there is no condition to wait for."""
    time.sleep(rng.uniform(*between))


def _settle(
    plan: Plan,
    cluster: FaultyCluster,
    setting: Setting,
    threads: Mapping[Worker, threading.Thread],
    shared: SharedTopic,
) -> None:
    """Waits for the senders to end, and then for copiers and the share group to be at the ends of their topics."""
    _join({worker: thread for worker, thread in threads.items() if not worker.catches_up}, plan.settle_s)
    if "chain" in plan.workloads:
        eventually(
            lambda: is_caught_up(cluster.bootstrap, CHAIN_GROUP, keys_of(SOURCE)),
            what=f"{SOURCE} is copied to {COPIES}",
            deadline_s=plan.settle_s,
        )
    if "share" in plan.workloads:
        eventually(
            lambda: shared.lag() == 0 or _is_empty(cluster.bootstrap, SHARED),
            what="the share group is at the end",
            deadline_s=plan.settle_s,
        )
    setting.caught_up.set()
    _join(threads, plan.settle_s)


def _is_empty(bootstrap: str, topic: str) -> bool:
    """Returns whether a topic has no record: then brokers show no lag of a share group."""
    found = ends(bootstrap, keys_of(topic))
    return found is not None and not any(found.values())


def _join(threads: Mapping[Worker, threading.Thread], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    for worker, thread in threads.items():
        thread.join(max(0.0, deadline - time.monotonic()))
        assert not thread.is_alive(), f"{worker.name} did not end in {seconds} s"
