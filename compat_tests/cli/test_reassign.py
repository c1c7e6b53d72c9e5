"""`odradek reassign` on three nodes: plan, run with a throttle, status, rollback, cancel."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.cli.commands import odradek_command
from compat_tests.cli.three_node_cluster import three_nodes


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with three_nodes(tmp_path_factory.mktemp("reassign") / "cluster") as addresses:
        yield addresses


def replicas(cluster: str) -> dict[int, list[int]]:
    found = odradek_command("topic", "describe", "orders", "--output", "json", "-b", cluster).json[0]
    return {one["partition"]: one["replicas"] for one in found["partitions"]}


def test_plan_run_and_rollback(cluster: str, tmp_path: Path) -> None:
    assert odradek_command("topic", "create", "orders", "-p", "6", "-r", "1", "-b", cluster).status == 0
    nodes = sorted({node for held in replicas(cluster).values() for node in held})
    assert len(nodes) == 3
    away, rollback = tmp_path / "away.json", tmp_path / "rollback.json"
    done = odradek_command("reassign", "plan", "orders", "--brokers", f"{nodes[0]}", "-f", str(away), "-b", cluster)
    assert done.status == 0, done.err
    before = replicas(cluster)
    assert len(json.loads(away.read_text())["partitions"]) == sum(held != [nodes[0]] for held in before.values())
    words = ("--rollback", str(rollback), "--throttle", "10000000", "-b", cluster)
    dry = odradek_command("reassign", "run", str(away), *words, "--dry-run")
    assert dry.status == 0, dry.err
    assert replicas(cluster) == before
    done = odradek_command("reassign", "run", str(away), *words)
    assert done.status == 0, done.err
    assert all(held == [nodes[0]] for held in replicas(cluster).values())
    shown = odradek_command("config", "get", "topic", "orders", "--output", "json", "-b", cluster)
    assert "throttled" not in shown.out  # the throttle has gone with the moves
    assert odradek_command("reassign", "status", "--output", "json", "-b", cluster).json == []
    assert odradek_command("reassign", "run", str(rollback), "-b", cluster).status == 0
    assert replicas(cluster) == before
    assert set(Counter(held[0] for held in before.values()).values()) == {2}


def test_cancel_without_moves_and_wrong_plans(cluster: str, tmp_path: Path) -> None:
    assert odradek_command("reassign", "cancel", "-b", cluster).status == 0
    wrong = tmp_path / "wrong.json"
    wrong.write_text("{}")
    assert odradek_command("reassign", "run", str(wrong), "-b", cluster).status == 2
    assert odradek_command("reassign", "plan", "--brokers", "99", "-b", cluster).status == 2
