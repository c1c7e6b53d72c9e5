"""Tables that follow topics by themselves: odradek.table.enable=true, and what dies or changes meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import odradek
import pytest
from confluent_kafka import Producer
from odradek.admin.connection import Connection
from odradek.admin.group_offsets import committed
from odradek.admin.pipeline_progress import newest_progress
from odradek.server.tables.subsystem import TablesSubsystem

from compat_tests.cli.commands import odradek_command
from compat_tests.odradek_process import OdradekProcess
from compat_tests.recipes import eventually, make_replicated_topic, make_topic
from tests.archive.harness.broker import Harness
from tests.archive.harness.followed import (
    FRESH,
    await_rows,
    is_running,
    offsets,
    set_config,
    table_processes,
)
from tests.archive.harness.tables import source_of

pytestmark = pytest.mark.usefixtures("processes")

ENABLED = {"odradek.table.enable": "true"}
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
#: A program with a broker that has a place for tables, and no table.
IDLE = """
import sys
import odradek
with odradek.Broker(config={"odradek.table.warehouse": sys.argv[1]}) as broker:
    print([name for name in ("pyarrow", "numpy", "pyiceberg", "odradek.archive") if name in sys.modules])
with odradek.Broker() as broker:
    pass
"""
PLAIN = """
import sys
import odradek
with odradek.Broker():
    print([name for name in sys.modules if ".tables" in name or "table_settings" in name])
"""


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("warehouse")


@pytest.fixture(scope="module")
def followed(processes: None, tmp_path_factory: pytest.TempPathFactory, warehouse: Path) -> Iterator[Harness]:
    """A broker whose topics may have tables in `warehouse`."""
    made = Harness(tmp_path_factory.mktemp("broker"))
    made.process.properties |= {"odradek.table.warehouse": str(warehouse), **FRESH}
    with made.process:
        yield made


def the_process(broker: Harness) -> int:
    """The one process that keeps tables."""
    (found,) = eventually(lambda: table_processes(broker.process.pid), what="a process keeps tables")
    return found


def table_status(broker: Harness, *names: str) -> list[dict[str, Any]]:
    done = odradek_command("table", "status", *names, "--output", "json", "-b", broker.process.bootstrap)
    assert done.status == 0, done
    found: list[dict[str, Any]] = done.json
    return found


def end_tables(broker: Harness) -> None:
    """Ends the tables of all topics; the process ends with them."""
    for topic in odradek_command("topic", "list", "--output", "json", "-b", broker.process.bootstrap).json:
        set_config(broker.process.bootstrap, topic["name"], "odradek.table.enable=false")
    eventually(lambda: not table_processes(broker.process.pid), what="no process keeps tables")


def test_table_has_the_rows_by_its_configs_and_its_group_has_the_lag(followed: Harness, warehouse: Path) -> None:
    followed.create(
        "shop.orders", 2, odradek_table_enable="true", odradek_table_format="json", odradek_table_name="sales",
        odradek_table_partition_by="none",
    )  # fmt: skip
    followed.write("shop.orders", [b'{"id": 1}', b"broken", b'{"id": 2}'])
    followed.write("shop.orders", [b'{"id": 3}'], partition=1)
    await_rows(warehouse, "sales", 1, partition=1)
    rows = source_of("iceberg", warehouse, "sales").read(0, 0, 9)
    assert rows.column("value").to_pylist() == [{"id": 1}, {"id": 2}]
    dead = source_of("iceberg", warehouse, "sales", dead_letters=True).read(0, 0, 9)
    assert dead.column("offset").to_pylist() == [1]
    group = "odradek-archive-kafka.sales"
    with Connection(followed.client).admin() as admin:
        commits = eventually(lambda: committed(admin, group), what="the group has offsets")
    assert {place: one.offset for place, one in commits.items()} == {("shop.orders", 0): 3, ("shop.orders", 1): 1}
    progress = newest_progress(one.metadata for one in commits.values())
    assert progress is not None and (progress.name, progress.error, progress.dead_letters) == ("kafka.sales", "", 1)
    (status,) = table_status(followed, "sales")
    assert status.pop("commit_ms") == progress.at_ms
    assert status == {
        "topic": "shop.orders", "table": "kafka.sales", "broker": 1, "state": "up to date", "lag": 0, "error": "",
    }  # fmt: skip


def test_table_with_a_key_has_a_row_for_each_key(followed: Harness, warehouse: Path) -> None:
    followed.create(
        "stock", 1, odradek_table_enable="true", odradek_table_format="json", odradek_table_key="id",
        odradek_table_partition_by="bucket(2,id)",
    )  # fmt: skip
    followed.write("stock", [b'{"id": 1, "n": 1}', b'{"id": 2, "n": 2}', b'{"id": 1, "n": 3}'])
    eventually(lambda: set(offsets(warehouse, "stock")) == {1, 2}, what="the table has the last row of each key")
    set_config(followed.process.bootstrap, "stock", "odradek.table.key=n")
    error = eventually(lambda: table_status(followed, "stock")[0]["error"], what="the status has the error")
    assert "has a row for each key" in error and "odradek.table.key id" in error


@pytest.mark.parametrize(("number", "status"), [(signal.SIGKILL, -9), (signal.SIGTERM, 0)])
def test_process_that_ended_is_started_again_after_a_pause_and_continues(
    followed: Harness, warehouse: Path, number: signal.Signals, status: int
) -> None:
    topic = f"ended{abs(status)}"
    followed.create(topic, **{"odradek.table.enable": "true"})
    followed.fill(topic, 20)
    await_rows(warehouse, topic, 20)
    first = the_process(followed)
    os.kill(first, number)
    followed.fill(topic, 10)
    await_rows(warehouse, topic, 30)
    assert the_process(followed) != first
    log = followed.process.log_file.read_text()
    assert f"the process that keeps tables has ended with {status}; it is started again in " in log


def test_killed_broker_takes_its_process_along_and_both_continue(followed: Harness, warehouse: Path) -> None:
    followed.create("broker.killed", odradek_table_enable="true")
    followed.fill("broker.killed", 20)
    await_rows(warehouse, "broker_killed", 20)
    process = the_process(followed)
    followed.process.kill()
    eventually(lambda: not is_running(process), what="the process ends with its broker")
    followed.process.start()
    followed.fill("broker.killed", 10)
    await_rows(warehouse, "broker_killed", 30)


def test_process_ends_with_the_last_table_and_a_table_continues_where_it_was(
    followed: Harness, warehouse: Path
) -> None:
    bootstrap = followed.process.bootstrap
    end_tables(followed)
    for topic in ("on", "other"):
        followed.create(topic, odradek_table_enable="true")
        followed.fill(topic, 5)
        await_rows(warehouse, topic, 5)
    process = the_process(followed)
    set_config(bootstrap, "other", "--delete", "odradek.table.enable")
    followed.fill("on", 5)
    followed.fill("other", 5)
    await_rows(warehouse, "on", 10)
    assert the_process(followed) == process, "one of two tables went"
    end_tables(followed)
    assert offsets(warehouse, "other") == list(range(5))
    set_config(bootstrap, "other", "odradek.table.enable=true")
    await_rows(warehouse, "other", 10)


def test_changed_configs_open_the_table_again(followed: Harness, warehouse: Path) -> None:
    followed.create("renamed", odradek_table_enable="true")
    followed.fill("renamed", 5)
    await_rows(warehouse, "renamed", 5)
    process = the_process(followed)
    set_config(followed.process.bootstrap, "renamed", "odradek.table.name=renamed_again")
    await_rows(warehouse, "renamed_again", 5)
    assert the_process(followed) == process


def test_topic_that_was_created_again_says_which_config_names_another_table(followed: Harness, warehouse: Path) -> None:
    followed.create("steady", odradek_table_enable="true")  # the process keeps a table all along
    followed.create("again", odradek_table_enable="true")
    followed.fill("again", 3)
    await_rows(warehouse, "again", 3)
    followed.delete("again")
    followed.create("again", odradek_table_enable="true")
    followed.fill("again", 2)
    log = followed.process.log_file
    words = "was deleted and created again"
    line = eventually(
        lambda: next((one for one in log.read_text().splitlines() if words in one), None), what="the log has the reason"
    )
    assert "WARNING odradek.tables: tables: topic again" in line and "set odradek.table.name=NAME" in line
    failing = eventually(
        lambda: next((one for one in table_status(followed, "again") if one["state"] == "failing"), None),
        what="the table is failing",
    )
    assert words in failing["error"] and "set odradek.table.name=NAME" in failing["error"]
    set_config(followed.process.bootstrap, "again", "odradek.table.name=again_2")
    await_rows(warehouse, "again_2", 2)


def test_broker_without_a_table_has_no_process_and_imports_nothing_of_tables(tmp_path: Path) -> None:
    for program in (IDLE, PLAIN):
        command = [sys.executable, "-c", program, str(tmp_path / "w")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
        assert done.stdout == "[]\n"
    assert not (tmp_path / "w").exists()


def test_stopped_broker_ends_its_process(tmp_path: Path) -> None:
    process = OdradekProcess(tmp_path / "broker", {"odradek.table.warehouse": str(tmp_path / "w"), **FRESH})
    with process:
        make_topic(process.bootstrap, "stopped", configs=ENABLED)
        (child,) = eventually(lambda: table_processes(process.pid), what="a process keeps tables")
        process.stop()
        assert not is_running(child)


def test_refused_configs_say_what_to_set(harness: Harness) -> None:
    bootstrap = harness.process.bootstrap

    def refused(*words: str) -> str:
        done = odradek_command(*words, "-b", bootstrap)
        assert done.status == 1, done
        return done.err

    words = ("topic", "create", "refused", "--config")
    for place in ("odradek.table.warehouse=DIR", "odradek.table.catalog.config=FILE"):
        assert place in refused(*words, "odradek.table.enable=true")
    harness.create("plain")
    assert "odradek.table.warehouse=DIR" in refused("config", "set", "topic", "plain", "odradek.table.enable=true")
    for pair in ("table.enable=maybe", "table.format=xml", "table.partition.by=week", "table.name=a-b", "table.gone=1"):
        assert pair.partition("=")[0] in refused(*words, f"odradek.{pair}")


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"odradek.table.warehouse": "w", "odradek.table.catalog.config": "c"}, "set one of them"),
        ({"odradek.table.catalog.config": "/gone.properties"}, "odradek.table.catalog.config: cannot read"),
        (
            {"odradek.table.warehouse": "w", "odradek.table.client.config": "/gone.properties"},
            "odradek.table.client.config: cannot read",
        ),
    ],
)
def test_broker_with_wrong_keys_does_not_start(properties: dict[str, str], words: str) -> None:
    with pytest.raises(odradek.InvalidConfig, match=words):
        odradek.Broker(config=properties).start()


def secured() -> dict[str, str]:
    return {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{LOGIN} user_tables="of-tables";',
    }


def test_secured_listener_needs_a_login_and_tables_may_be_in_a_catalog(tmp_path: Path) -> None:
    file, warehouse = tmp_path / "client.properties", tmp_path / "w"
    with pytest.raises(odradek.InvalidConfig, match=r"no listener is PLAINTEXT, so set odradek\.table\.client\.config"):
        odradek.Broker(config={**secured(), "odradek.table.warehouse": str(warehouse)}).start()
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={LOGIN} username="tables" password="of-tables";\n'
    )
    catalog = tmp_path / "catalog.properties"
    warehouse.mkdir()
    catalog.write_text(f"type=sql\nuri=sqlite:///{warehouse}/catalog.db\nwarehouse=file://{warehouse}\n")
    place = {"odradek.table.catalog.config": str(catalog), "odradek.table.client.config": str(file)}
    with odradek.Broker(config={**secured(), **FRESH, **place}) as broker:
        login = ("-b", broker.bootstrap_servers, "--command-config", str(file))
        done = odradek_command("topic", "create", "safe", "--config", "odradek.table.enable=true", *login)
        assert done.status == 0, done
        done = odradek_command("produce", "safe", *login, stdin="1\n2\n")
        assert done.status == 0, done
        await_rows(warehouse, "safe", 2)


def test_one_broker_of_three_keeps_a_table_also_after_its_death(tmp_path: Path) -> None:
    config = {"odradek.table.warehouse": str(tmp_path / "w"), **FRESH}
    with odradek.Cluster(3, config=config) as cluster:
        make_replicated_topic(cluster.bootstrap_servers, "moved", 2, ENABLED)
        write(cluster, 10)
        await_rows(tmp_path / "w", "moved", 10)
        first = cluster.leader("moved")
        assert keepers(cluster) == {first} and len(table_processes(os.getpid())) == 1
        second = next(one for one in cluster.broker_ids if one != first)
        cluster.move_leader("moved", to=second)
        write(cluster, 5)
        await_rows(tmp_path / "w", "moved", 15)
        assert keepers(cluster) == {second}
        cluster.kill(second)
        write(cluster, 5)
        await_rows(tmp_path / "w", "moved", 20)
        assert keepers(cluster) == {cluster.leader("moved")}
        eventually(lambda: len(table_processes(os.getpid())) == 1, what="one process is left")


def write(cluster: odradek.Cluster, count: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(count):
        producer.produce("moved", b"%d" % number, partition=0)
    assert producer.flush(60) == 0


def keepers(cluster: odradek.Cluster) -> set[int]:
    """The brokers that keep tables."""
    return {
        node_id
        for node_id, server in cluster.servers.items()
        for one in server.subsystems
        if isinstance(one, TablesSubsystem) and one.kept
    }
