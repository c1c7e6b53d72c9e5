"""A cluster of three nodes with a killed broker, inspected and operated with `odradek` alone."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from odradek.admin.connection import connection_of
from odradek.admin.errors import CoordinatorError, NoResponse, ResponseError, UnknownNode
from odradek.cli.sampler import Sampler
from odradek.protocol.errors import ErrorCode

from compat_tests.cli.commands import Done, odradek_command
from compat_tests.cli.three_node_cluster import three_nodes
from tests.cli.harness.clusters import asked

DEADLINE_S = 60
#: Codes of a partition whose leader was killed.
_LEADER_MOVES = (ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER)


def test_killed_broker_is_found_and_started_again(tmp_path: Path) -> None:
    directory = tmp_path / "three"
    with contextlib.ExitStack() as stack:
        bootstrap = stack.enter_context(three_nodes(directory))

        def run(*words: str, stdin: str = "") -> Done:
            done = odradek_command(*words, "-b", bootstrap, stdin=stdin)
            assert done.status in (0, 1) and "Traceback" not in done.err, done
            return done

        assert run("topic", "create", "orders", "--partitions", "6").status == 0
        assert run("produce", "orders", "--create", stdin="1\n2\n3\n").status == 0
        groups = [f"group-{number}" for number in range(6)]  # each node coordinates some
        for group in groups:
            words = ("group", "reset", group, "--create", "--to", "beginning", "--topic", "orders")
            awaited(lambda words=words: run(*words).status == 0)
        sampler = Sampler(stack.enter_context(connection_of(bootstrap, None, None, [], DEADLINE_S).admin()), None)
        awaited(lambda: lags(sampler) == dict.fromkeys(groups, 3))
        os.kill(pid_of(directory, "3"), signal.SIGKILL)
        awaited(lambda: len(lacking(run)) == 6, lambda: run("topic", "describe", "orders").out)
        # `top` continues: the groups have new coordinators now.
        awaited(lambda: lags(sampler) == dict.fromkeys(groups, 3))
        assert [one["finding"] for one in findings(run, "partition")] == ["brokers 3 are out of sync"] * 6
        assert run("topic", "list", "--under-replicated", "--output", "plain").out.startswith("orders\t6")
        assert run("produce", "orders", "--create", stdin="4\n").status == 0
        assert sorted(run("consume", "orders", "--from-beginning").out.split()) == ["1", "2", "3", "4"]
        assert run("group", "list").status == 0
        (described,) = run("cluster", "describe", "--output", "json").json
        assert [one["broker"] for one in described["brokers"] if not one["fenced"]] == [1, 2]
        command = [sys.executable, "-m", "odradek", "start", str(directory / "node-3" / "server.properties")]
        node = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            awaited(lambda: not lacking(run))
            assert findings(run, "partition") == []
        finally:
            node.terminate()
            node.wait(DEADLINE_S)


def lags(sampler: Sampler) -> dict[str, int]:
    """Returns the lag of each group that has a coordinator now."""
    try:
        return {one["group"]: one["lag"] for one in sampler.sample()["groups"]}
    except (NoResponse, UnknownNode, CoordinatorError):  # until the metadata has no dead broker
        return {}
    except ResponseError as error:
        if error.code not in _LEADER_MOVES and not error.is_of_moving_coordinator:
            raise
        return {}


def lacking(run: Callable[..., Done]) -> list[dict[str, object]]:
    (topic,) = run("topic", "describe", "orders", "--output", "json").json
    return [one for one in topic["partitions"] if len(one["isr"]) < 3 or one["leader"] < 0]


def findings(run: Callable[..., Done], check: str) -> list[dict[str, str]]:
    return [
        one
        for one in run("doctor", "--output", "jsonl").lines
        if one["check"] == check and one["subject"].startswith("orders")
    ]


def pid_of(directory: Path, node: str) -> int:
    rows = [line.split() for line in asked("status", directory).stdout.splitlines()]
    pid = rows[0].index("PID")
    (row,) = [row for row in rows[1:] if row and row[0] == node]
    return int(next(word for word in row[pid - 1 : pid + 2] if word.isdigit() and int(word) > 100))


def awaited(holds: Callable[[], bool], seen: Callable[[], str] = str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline, seen()
