"""Commands, pages and scans that only read need READ on the topic and nothing more: no rule of a group."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import odradek
import pytest
from odradek.admin.connection import Connection
from odradek.console.cluster.masks import Masks
from odradek.console.cluster.query import Query
from odradek.console.cluster.record_reader import RecordReader
from odradek.console.cluster.records import RecordMaker

from compat_tests.cli.commands import Done, odradek_command

pytestmark = pytest.mark.usefixtures("sockets")

USERS = {"admin": "admin-secret", "reader": "reader-secret"}
#: Each reads both records of `orders`, and prints or writes them.
READING = (
    "consume orders -o beginning",
    "consume orders -o -2",
    "consume orders -o 0",
    "consume orders -o -1h",
    "consume orders -p 0 -o beginning",
    "consume orders -o beginning --until 2",
    "consume orders -o beginning --key k --output jsonl",
    "consume --regex ord.* -o beginning --isolation-level read_uncommitted",
    "record orders --file FILE",
    "query 'select value from orders'",
)


@pytest.fixture(scope="module")
def secured() -> Iterator[odradek.Broker]:
    security = odradek.Security("SASL_PLAINTEXT", "SCRAM-SHA-256", users=USERS, authorizer=True)
    with odradek.Broker(security=security) as broker:
        broker.topic("orders").send(b"first", b"second", key=b"k")
        rule = ("acl", "create", "--topic", "orders", "--allow", "User:reader", "--operation", "read")
        assert run(broker, "admin", *rule).status == 0
        yield broker


def run(broker: odradek.Broker, user: str, *words: str) -> Done:
    config = str(broker.client_properties_file(user))
    return odradek_command(*words, "-b", broker.bootstrap_servers, "--command-config", config, "--timeout", "20")


@pytest.mark.parametrize("command", READING)
def test_reading_needs_no_rule_of_a_group(secured: odradek.Broker, command: str, tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl"
    done = run(secured, "reader", *shlex.split(command.replace("FILE", str(file))))
    assert (done.status, done.err) == (0, ""), done
    text = done.out + (file.read_text() if file.exists() else "")
    assert "first" in text and "second" in text


def test_reader_of_the_console_needs_no_rule_of_a_group(secured: odradek.Broker) -> None:
    properties = secured.client_settings("java", user="reader")
    connection = Connection({**properties, "bootstrap.servers": secured.bootstrap_servers})
    reader = RecordReader(connection, RecordMaker(connection, Masks(()), None))
    assert len(reader.read(Query("orders")).records) == 2
    assert sum(map(len, reader.batches(Query("orders")))) == 2


def test_following_is_not_ended_by_the_denied_group(secured: odradek.Broker) -> None:
    done = run(secured, "reader", "consume", "orders", "-o", "beginning", "--follow", "-c", "2")
    assert (done.status, done.out, done.err) == (0, "first\nsecond\n", "")


def test_without_the_rule_of_the_topic_the_error_names_it(secured: odradek.Broker) -> None:
    secured.topic("payroll").send(b"secret")
    done = run(secured, "reader", "consume", "payroll", "-o", "beginning")
    assert done.status == 5 and "payroll" in done.err and "None" not in done.err and done.err.count("\n") == 1


def test_member_of_a_group_needs_its_rule(secured: odradek.Broker) -> None:
    done = run(secured, "reader", "consume", "orders", "-o", "beginning", "--group", "billing")
    assert done.status == 5 and "billing" in done.err and "None" not in done.err and done.err.count("\n") == 1
