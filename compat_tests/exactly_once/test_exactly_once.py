"""Exactly once under kill -9 of brokers and clients: short runs of the programs in this folder."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.broker_process import BrokerProcess
from compat_tests.exactly_once import checker, cluster_steps, commit_steps, dying_client, held_steps, transactors
from compat_tests.exactly_once.cluster import ThreeBrokers
from compat_tests.exactly_once.readers import READ_COMMITTED, READ_UNCOMMITTED, read_all
from compat_tests.exactly_once.reference_log import last_stable_offset, reference_log_of
from compat_tests.oracle import ApacheKafka
from compat_tests.recipes import eventually, make_topic

ROOT = Path(__file__).resolve().parents[2]
#: Many processes start one after the other; each wait has its own deadline.
pytestmark = pytest.mark.timeout(1_200)
#: The duration of the faults.
SECONDS = 6.0


@pytest.fixture(scope="module")
def patient(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that often checks for timed-out transactions; its tests kill and restart it."""
    with checker.BROKERS[target](tmp_path_factory.mktemp("patient"), checker.PROPERTIES) as running:
        yield running


@pytest.fixture(scope="module")
def between(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[held_steps.Gated]:
    """A broker behind a gate that can hold frames."""
    with held_steps.gated(target, tmp_path_factory.mktemp("gated")) as made:
        yield made


@pytest.mark.parametrize("client", transactors.TRANSACTORS)
def test_a_broker_that_dies_at_any_step_of_a_transaction_carries_it_out_as_a_whole(
    client: str, tmp_path: Path, java_tools: None
) -> None:
    # The program also has aborts, and deaths `before` and `after`; `torn` is the hardest of the three.
    with transactors.TRANSACTORS[client]() as transactor:
        harness = commit_steps.LoneHarness(tmp_path, transactor)
        deaths = commit_steps.execute_all(harness, ("torn",), commit_steps.COMMIT)
    # Appends: the producer id, the joined partitions and group (one or two), two records, the offset, the decision, three
    # markers.
    assert deaths >= 9


def test_the_others_carry_out_as_a_whole_what_a_coordinator_or_a_leader_dies_in(tmp_path: Path) -> None:
    # The program also has aborts, deaths `before` and `after`, and deaths of followers.
    with cluster_steps.ClusterHarness(tmp_path, transactors.Librdkafka()) as harness:
        deaths = cluster_steps.execute_roles(
            harness, cluster_steps.ROLES, (cluster_steps.LED,), ("torn",), (commit_steps.COMMIT,)
        )
    # Coordinator: joined partitions, joined group, decision, completion. Leader: two records and their markers. Groups: an
    # offset and its marker.
    least = {cluster_steps.COORDINATOR: 4, cluster_steps.LEADER: 4, cluster_steps.GROUPS: 2}
    assert all(count >= least[role] for (role, *_), count in deaths.items()), deaths


@pytest.mark.parametrize("step", dying_client.STEPS)
def test_a_producer_that_dies_at_any_step_leaves_its_transaction_whole_or_not_at_all(
    step: str, patient: BrokerProcess, topic: str
) -> None:
    """The producer has no successor: the coordinator ends the transaction at its timeout."""
    bootstrap = patient.bootstrap
    make_topic(bootstrap, topic)
    command = [sys.executable, "-m", "compat_tests.exactly_once.dying_client", bootstrap, topic, step]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, timeout=240).returncode == -signal.SIGKILL
    eventually(
        lambda: last_stable_offset(bootstrap, topic, 0) == reference_log_of(bootstrap, topic, 0).end_offset,
        what="its transaction is ended",
        deadline_s=120,
    )
    reference = reference_log_of(bootstrap, topic, 0)
    offset = commit_steps.committed(bootstrap, topic, topic)
    shown = list(read_all(bootstrap, topic, 1, READ_COMMITTED)[0].values())
    assert shown == list(reference.committed.values())
    if step == "committing":
        assert (shown, offset) in (([dying_client.VALUE], 7), ([], commit_steps.NO_OFFSET))
    elif step == "committed":
        assert (shown, offset) == ([dying_client.VALUE], 7)
    else:
        assert (shown, offset) == ([], commit_steps.NO_OFFSET)


@pytest.mark.parametrize("step, fate", held_steps.CASES, ids=lambda one: getattr(one, "name", one))
def test_a_producer_that_dies_while_a_request_or_its_response_is_under_way_leaves_its_successor_all_or_nothing(
    step: held_steps.Step, fate: str, between: held_steps.Gated, topic: str
) -> None:
    held_steps.execute(between, topic, step, fate)


def test_copiers_copy_each_record_once_when_any_of_three_brokers_is_killed(tmp_path: Path) -> None:
    # The first and the third fault of this seed hit a broker. The program runs longer, with other seeds.
    seed = 3
    with ThreeBrokers(tmp_path / "brokers", checker.PROPERTIES, seed) as brokers:
        finding = checker.run(brokers, tmp_path, seed=seed, seconds=SECONDS / 2, copiers=1, rate=100)
    assert not finding.problems, str(finding)
    assert finding.records and finding.faults["broker killed"], str(finding)


@pytest.mark.oracle
def test_copiers_copy_each_record_once_and_kafka_shows_of_the_same_logs_what_we_showed(
    patient: BrokerProcess, tmp_path: Path, java_tools: None
) -> None:
    """Runs the checker; then Apache Kafka opens the directory, and readers of both isolation levels get the same records."""
    seed = int(time.time())
    finding = checker.run(patient, tmp_path, seed=seed, seconds=SECONDS, copiers=2, rate=200)
    assert not finding.problems, f"seed {seed}: {finding}"
    assert finding.records and finding.aborted and finding.faults
    ours = shown_by(patient)
    patient.stop()
    kafka = ApacheKafka(tmp_path / "kafka", {**checker.PROPERTIES, "log.dirs": str(patient.data_dir)})
    kafka.cluster_id = cluster_id(patient.data_dir)
    try:
        assert shown_by(kafka.start()) == ours
    finally:
        kafka.kill()


def cluster_id(data_dir: Path) -> str:
    lines = (data_dir / "meta.properties").read_text().splitlines()
    return next(line.partition("=")[2] for line in lines if line.startswith("cluster.id="))


def shown_by(broker: BrokerProcess) -> dict[tuple[str, str], object]:
    return {
        (topic, isolation): read_all(broker.bootstrap, topic, checker.PARTITIONS, isolation)
        for topic in checker.TOPICS
        for isolation in (READ_COMMITTED, READ_UNCOMMITTED)
    }
