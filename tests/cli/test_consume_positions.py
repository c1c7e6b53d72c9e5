"""`odradek consume -o N` where partitions have no offset N, beside kcat and in the console."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import odradek
import pytest

from compat_tests.cli.commands import odradek_command
from compat_tests.console.process import ConsoleProcess, Visitor
from compat_tests.recipes import eventually

#: Records of the partitions of the topic.
ENDS = {0: 20, 1: 5, 2: 30}
DEADLINE_S = 60


@pytest.fixture(scope="module")
def broker() -> Iterator[odradek.Broker]:
    with odradek.Broker() as running:
        command = ("topic", "create", "orders", "--partitions", "3", "-b", running.bootstrap_servers)
        assert odradek_command(*command).status == 0
        for partition, end in ENDS.items():
            running.topic("orders").send(*(f"{partition}-{n}".encode() for n in range(end)), partition=partition)
        yield running


@pytest.mark.usefixtures("processes")
def test_offset_past_the_end_ends_and_is_named(broker: odradek.Broker) -> None:
    words = ("orders", "-o", "9999", "-p", "0")
    done = odradek_command("consume", *words, "-b", broker.bootstrap_servers)
    assert (done.status, done.out) == (0, "")
    assert "9999 is past the end" in done.err and "orders-0 ends at 20" in done.err


@pytest.mark.usefixtures("processes")
def test_topics_and_partitions_named_twice_count_once(broker: odradek.Broker) -> None:
    address = ("-b", broker.bootstrap_servers)
    done = odradek_command("consume", "orders", "orders", "-o", "beginning", "-p", "1", "-p", "1", *address)
    assert (done.status, done.out.splitlines()) == (0, [f"1-{n}" for n in range(ENDS[1])]), done
    chosen = ("-t", "orders:0,0", "-t", "orders", "--create", "--dry-run", "--output", "jsonl")
    done = odradek_command("group", "reset", "twice", "--to", "0", *chosen, *address)
    assert done.status == 0 and len(done.out.splitlines()) == len(ENDS), done


@pytest.mark.usefixtures("processes")
def test_partitions_that_end_before_the_offset_print_nothing(broker: odradek.Broker) -> None:
    done = odradek_command("consume", "orders", "-o", "25", "-b", broker.bootstrap_servers)
    kcat = ["kcat", "-b", broker.bootstrap_servers, "-C", "-q", "-t", "orders", "-o", "25", "-e"]
    expected = subprocess.run(kcat, capture_output=True, text=True, check=True, timeout=DEADLINE_S).stdout
    assert done.status == 0
    assert sorted(done.out.splitlines()) == sorted(expected.splitlines()) == [f"2-{n}" for n in range(25, 30)]
    assert "orders-0 ends at 20, orders-1 ends at 5" in done.err and "orders-2" not in done.err


@pytest.mark.usefixtures("processes")
def test_offset_at_the_end_is_in_range(broker: odradek.Broker) -> None:
    done = odradek_command("consume", "orders", "-o", "20", "-p", "0", "-b", broker.bootstrap_servers)
    assert (done.status, done.out, done.err) == (0, "", "")


@pytest.mark.usefixtures("processes")
def test_follow_past_the_end_waits_for_new_records(broker: odradek.Broker) -> None:
    topic = broker.topic("followed")
    topic.send(b"old")
    command = [sys.executable, "-m", "odradek", "consume", "followed", "-o", "9999", "--follow", "-c", "1"]
    process = subprocess.Popen(
        [*command, "-b", broker.bootstrap_servers], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stderr is not None
    guard = threading.Timer(DEADLINE_S, process.kill)
    guard.start()
    try:
        assert "followed-0 ends at 1; waiting for new records" in process.stderr.readline()
        broker.topic("followed").send(b"new")
        assert process.stdout.readline() == "new\n"
        assert process.wait(DEADLINE_S) == 0
    finally:
        guard.cancel()
        process.kill()
        process.communicate()


@pytest.mark.usefixtures("processes")
def test_deleted_offset_is_named_and_reading_begins_at_the_first(broker: odradek.Broker) -> None:
    broker.topic("trimmed").send(*(f"{n}".encode() for n in range(6)))
    trim = ("topic", "trim", "trimmed", "--before", "4", "-b", broker.bootstrap_servers)
    assert odradek_command(*trim).status == 0
    done = odradek_command("consume", "trimmed", "-o", "1", "-b", broker.bootstrap_servers)
    assert (done.status, done.out) == (0, "4\n5\n")
    assert "offset 1 is deleted: trimmed-0 begins at 4" in done.err


@pytest.mark.usefixtures("processes")
def test_members_of_a_group_get_no_partition_from_its_start(broker: odradek.Broker) -> None:
    words = ("consume", "orders", "-o", "9999", "--group", "past", "-b", broker.bootstrap_servers)
    done = odradek_command(*words)
    assert (done.status, done.out) == (0, "")
    assert "orders-2 ends at 30" in done.err


@pytest.mark.usefixtures("processes")
def test_console_names_offsets_past_the_end(broker: odradek.Broker, tmp_path: Path) -> None:
    console = ConsoleProcess(broker.bootstrap_servers, tmp_path)
    try:
        visitor = Visitor(console.address)
        page = eventually(
            lambda: (found := visitor.get("/topics/orders/messages?from=9999")) and visitor.status == 200 and found,
            what="the page is served",
        )
        assert "Offset 9999 is past the end: orders-0 ends at 20" in page
        assert "0 shown of 0 read" in page and "0-0" not in page
    finally:
        console.stop()


@pytest.mark.usefixtures("processes")
def test_topic_that_does_not_exist_is_named_with_the_one_that_was_meant(broker: odradek.Broker) -> None:
    for words in (("ordres",), ("ordres", "--group", "g"), ("ordres", "--follow")):
        done = odradek_command("consume", *words, "-b", broker.bootstrap_servers)
        assert (done.status, done.err) == (3, "odradek: topic ordres does not exist, did you mean orders?\n")
    done = odradek_command("consume", "unlike", "-b", broker.bootstrap_servers)
    assert (done.status, done.err) == (
        3,
        "odradek: topic unlike does not exist; `odradek topic list` lists the topics\n",
    )
