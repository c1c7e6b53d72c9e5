"""`odradek migrate` on a cluster of Apache Kafka and Odradek: the plan, the check, and the nodes of this machine changed."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from odradek.storage.files.lock_holder import lock_holder

from compat_tests.cli.commands import odradek_command
from compat_tests.cluster.mixed import MixedCluster
from compat_tests.odradek_process import OdradekProcess
from compat_tests.oracle import formatted_node_command
from tests.server.harness.cluster_process import COMBINED

pytestmark = [pytest.mark.timeout(600), pytest.mark.oracle]

TOPIC = "orders"


@pytest.fixture(scope="module")
def cluster(java_tools: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    """Two nodes of Apache Kafka and one of Odradek."""
    keys = {"num_io_threads": "4", "remote_log_manager_thread_pool_size": "3", "broker_heartbeat_interval_ms": "500"}
    made = MixedCluster(tmp_path_factory.mktemp("migrate"), [COMBINED] * 3, **keys)
    made.node(1).is_apache = made.node(2).is_apache = True
    with made:
        made.create_topic(TOPIC, [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
        yield made
        for node in made.nodes.values():
            pid = lock_holder(node.data_dir / ".lock")
            if pid is not None and not node.is_running:
                os.kill(pid, signal.SIGKILL)


def migrate(cluster: MixedCluster, *words: str, status: int = 0) -> dict[str, object]:
    done = odradek_command("migrate", *words, "-b", cluster.bootstrap, "--output", "json")
    assert done.status == status, (done.out, done.err)
    found: dict[str, object] = done.json[0]
    return found


def planned(cluster: MixedCluster, *words: str) -> tuple[int, dict[str, object]]:
    """Returns the active controller, and a plan that was made while it was active: a slow machine may elect another one."""

    def found() -> tuple[int, dict[str, object]] | None:
        controller, plan = cluster.controller(), migrate(cluster, "plan", *words)
        return (controller, plan) if cluster.controller() == controller > 0 else None

    made: tuple[int, dict[str, object]] = cluster.until(found, "a controller stays active during a plan")
    return made


def test_plan_names_programs_levels_keys_and_the_order(cluster: MixedCluster) -> None:
    files = [word for node in (1, 2) for word in ("--config", str(cluster.nodes[node].file))]
    controller, plan = planned(cluster, *files)
    nodes = {node["node"]: node for node in plan["nodes"]}  # type: ignore[attr-defined]
    assert {id: (one["program"], one["release"]) for id, one in nodes.items()} == {
        1: ("Apache Kafka", "4.3"), 2: ("Apache Kafka", "4.3"), 3: ("Odradek", "4.4"),
    }  # fmt: skip
    assert "active controller" in nodes[controller]["roles"]
    assert plan["order"] == sorted((1, 2), key=lambda node: (node == controller, node))
    findings = plan["findings"]
    assert {one["verdict"] for one in findings} == {"works", "differs"}  # type: ignore[attr-defined]
    words = [f"{one['subject']}: {one['words']}" for one in findings]  # type: ignore[attr-defined]
    assert any("metadata.version: level 30" in one for one in words)
    assert any("quorum: static voters" in one for one in words)
    assert any("without effect:" in one and "remote.log.manager.thread.pool.size" in one for one in words)
    assert any(str(cluster.nodes[1].data_dir) in one and "a log directory of node 1" in one for one in words)


def test_plan_without_files_has_the_properties_of_running_brokers(cluster: MixedCluster) -> None:
    findings = migrate(cluster, "plan")["findings"]
    subjects = {
        one["subject"]
        for one in findings  # type: ignore[attr-defined]
        if one["verdict"] == "differs" and "remote.log.manager.thread.pool.size" in one["words"]
    }
    assert subjects == {"broker 1", "broker 2"}


def test_plan_back_has_the_other_order_and_stops_at_levels_above_the_release(
    cluster: MixedCluster, tmp_path: Path
) -> None:
    assert migrate(cluster, "plan", "--to", "apache")["order"] == [3]
    single = OdradekProcess(tmp_path)
    assert odradek_command("format", "--data-dir", str(single.data_dir), "-f", "share.version=2").status == 0
    with single:
        done = odradek_command("migrate", "plan", "--to", "apache", "-b", single.bootstrap, "--output", "json")
    stops = [one for one in done.json[0]["findings"] if one["verdict"] == "stops"]
    assert done.status == 1
    assert [one["words"] for one in stops] == ["level 2; Apache Kafka 4.3 supports levels up to 1"]


def test_plan_stops_at_java_classes_tiers_and_mechanisms_of_a_node(cluster: MixedCluster, tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    text = cluster.nodes[3].file.read_text()
    text += "client.quota.callback.class=com.example.Quotas\nremote.log.storage.system.enable=true\n"
    file.write_text(text + "sasl.enabled.mechanisms=PLAIN,DIGEST-MD5\n")
    plan = migrate(cluster, "plan", "--config", str(file), status=1)
    stops = [one["words"] for one in plan["findings"] if one["verdict"] == "stops"]  # type: ignore[attr-defined]
    assert len(stops) == 3
    assert "client.quota.callback.class=com.example.Quotas is a class in Java" in stops
    assert any("remote.log.storage.system.enable=true" in words for words in stops)
    assert any("DIGEST-MD5" in words for words in stops)


def test_check_waits_for_a_node_that_is_down_and_names_the_next(cluster: MixedCluster) -> None:
    assert migrate(cluster, "check")["ready"] is True
    cluster.nodes[3].kill()
    cluster.until(lambda: 3 not in {p.leader_id for p in cluster.partitions(TOPIC).values()}, "others lead")
    waits = migrate(cluster, "check", "--wait", "0", status=1)
    assert waits["next"] is None and any("not in sync" in words for words in waits["waits_for"])  # type: ignore[attr-defined]
    cluster.nodes[3].start()
    ready = migrate(cluster, "check")
    assert ready["changed"] == 1 and ready["next"] in (1, 2)


def test_run_changes_the_nodes_of_this_machine_and_back(cluster: MixedCluster) -> None:
    """The two nodes that ran Apache Kafka change; then one of them goes back."""
    files = {id: cluster.nodes[id].file for id in (1, 2)}
    words = [word for file in files.values() for word in ("--config", str(file))]
    done = odradek_command("migrate", "plan", "--run", *words, "-b", cluster.bootstrap)
    assert done.status == 0, done.err
    assert "node 1 runs Odradek" in done.out and "node 2 runs Odradek" in done.out
    assert migrate(cluster, "check")["changed"] == 3
    start = shlex.join(formatted_node_command(Path("x"))[:-1])
    back = ("--to", "apache", "--config", str(files[1]), "--apache-start", start)
    done = odradek_command("migrate", "plan", "--run", *back, "-b", cluster.bootstrap)
    assert done.status == 0, done.err
    assert "node 1 runs Apache Kafka" in done.out
    check = migrate(cluster, "check", "--to", "apache")
    assert (check["changed"], check["next"]) in ((1, 2), (1, 3))
