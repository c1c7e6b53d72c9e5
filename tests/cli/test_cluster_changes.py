"""`odradek cluster elect-leaders` and `set-feature` change a running cluster."""

from __future__ import annotations

import odradek
import pytest

from compat_tests.cli.commands import Done, odradek_command
from compat_tests.recipes import eventually

pytestmark = pytest.mark.usefixtures("sockets")


def test_preferred_leaders_are_elected() -> None:
    with odradek.Cluster(brokers=3, config={"auto.leader.rebalance.enable": False}) as cluster:

        def run(*words: str) -> Done:
            return odradek_command(*words, "-b", cluster.bootstrap_servers)

        def leaders() -> list[int]:
            done = run("topic", "describe", "orders", "--output", "json")
            return [one["leader"] for one in done.json[0]["partitions"]] if done.status == 0 else []

        assert run("topic", "create", "orders", "-p", "3", "-r", "3").status == 0
        preferred = leaders()
        assert sorted(preferred) == [1, 2, 3]
        moved = preferred.index(1)
        cluster.kill(1)
        eventually(lambda: 1 not in leaders(), what="other brokers lead")
        cluster.restart(1)

        def is_in_sync() -> bool:
            done = run("topic", "describe", "orders", "--output", "json")
            return done.status == 0 and all(1 in one["isr"] for one in done.json[0]["partitions"])

        eventually(is_in_sync, what="the broker is in every ISR")
        previewed = run("cluster", "elect-leaders", "--dry-run")
        assert f"would be elected: orders-{moved}" in previewed.out and leaders() != preferred
        done = run("cluster", "elect-leaders", "orders")
        assert (done.status, done.out) == (0, f"elected: orders-{moved}\n"), done
        eventually(lambda: leaders() == preferred, what="the preferred replicas lead")
        assert run("cluster", "elect-leaders").out.startswith("nothing elected: preferred replicas lead")
        assert run("cluster", "elect-leaders", "nosuch").status == 3


def test_features_are_downgraded_and_upgraded() -> None:
    with odradek.Broker() as broker:

        def run(*words: str) -> Done:
            return odradek_command("cluster", *words, "-b", broker.bootstrap_servers)

        def level() -> int:
            found = run("features", "--output", "json").json
            return int(next(one["level"] for one in found if one["feature"] == "transaction.version"))

        assert level() == 2
        assert run("set-feature", "transaction.version=1", "--dry-run").status == 0 and level() == 2
        assert run("set-feature", "transaction.version=1").out == "set: transaction.version=1\n"
        eventually(lambda: level() == 1, what="the level is lower")
        assert run("set-feature", "transaction.version=2").status == 0
        eventually(lambda: level() == 2, what="the level is as before")
        assert run("set-feature", "transaction.version=99").status == 1
        assert run("set-feature", "nosuch=1").status == 3
        assert run("set-feature", "transaction.version=high").status == 2
