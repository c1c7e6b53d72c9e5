"""`odradek acl`, `user` and `quota` on one broker with an authorizer: Odradek, and Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compat_tests.broker_process import BrokerProcess
from compat_tests.cli.commands import Done, odradek_command
from compat_tests.odradek_process import OdradekProcess
from compat_tests.oracle import ApacheKafka

SECURED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module", params=["odradek", "apache"])
def secured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("secured")
    if request.param == "apache":
        request.getfixturevalue("java_tools")
    made: BrokerProcess = (OdradekProcess if request.param == "odradek" else ApacheKafka)(directory, SECURED)
    with made as broker:
        yield broker.bootstrap


def on(secured: str, *words: str, stdin: str = "") -> Done:
    return odradek_command(*words, "-b", secured, stdin=stdin)


def test_rules_are_created_listed_and_deleted(secured: str, request: pytest.FixtureRequest) -> None:
    if not on(secured, "acl", "list").status or request.node.callspec.id == "apache":
        _use_rules(secured)
        return
    # Without an authorizer a broker refuses every question about rules, and so do the commands, in one line.
    for words in (("list",), ("create", "--allow", "x", "--operation", "read", "--topic", "t"), ("delete", "--all")):
        done = on(secured, "acl", *words)
        assert done.status == 1 and done.err.count("\n") == 1 and "uthorizer" in done.err, done


def _use_rules(secured: str) -> None:
    rule = (
        "acl",
        "create",
        "--allow",
        "alice",
        "--operation",
        "read",
        "--operation",
        "write",
        "--topic",
        "orders",
        "--prefixed",
    )
    assert "would be created" in on(secured, *rule, "--dry-run").out
    assert on(secured, "acl", "list", "--output", "json").json == []
    made = on(secured, *rule)
    assert (made.status, made.out.count("created: allow User:alice")) == (0, 2), made.err
    found = on(secured, "acl", "list", "--principal", "alice", "--output", "json").json
    assert [(one["operation"], one["pattern"], one["host"]) for one in found] == [
        ("read", "prefixed", "*"),
        ("write", "prefixed", "*"),
    ]
    gone = ("acl", "delete", "--principal", "alice", "--operation", "write")
    assert on(secured, *gone, "--dry-run").out.startswith("would be deleted: allow User:alice write topic orders")
    assert on(secured, *gone).status == 0
    assert len(on(secured, "acl", "list", "--output", "json").json) == 1
    assert on(secured, "acl", "delete", "--all").status == 0
    assert on(secured, "acl", "list", "--output", "json").json == []
    assert on(secured, "acl", "delete").status == 2
    assert "read, write" in on(secured, *rule[:4], "--operation", "fly", "--cluster").err


def test_users_are_set_listed_and_deleted_without_showing_passwords(secured: str) -> None:
    made = on(secured, "user", "set", "bob", "--mechanism", "SCRAM-SHA-256", stdin="hunter2\n")
    assert made.status == 0 and "hunter2" not in made.out + made.err, made
    (found,) = on(secured, "user", "list", "--output", "json").json
    assert found == {"user": "bob", "mechanism": "SCRAM-SHA-256", "iterations": 8192}
    assert on(secured, "user", "delete", "bob", "--dry-run").status == 0
    assert on(secured, "user", "delete", "bob").out == "deleted: bob SCRAM-SHA-256\n"
    assert on(secured, "user", "list", "--output", "json").json == []
    assert on(secured, "user", "delete", "bob").status == 3
    assert on(secured, "user", "set", "bob", stdin="").status == 2


def test_quotas_are_set_listed_and_deleted(secured: str) -> None:
    change = ("quota", "set", "producer_byte_rate=1024", "--user", "carol", "--client-id", "<default>")
    assert "would be set" in on(secured, *change, "--dry-run").out
    assert on(secured, "quota", "list", "--output", "json").json == []
    assert on(secured, *change).status == 0
    (found,) = on(secured, "quota", "list", "--user", "carol", "--output", "json").json
    assert found == {"entity": "user=carol client-id=<default>", "key": "producer_byte_rate", "value": 1024.0}
    done = on(secured, "quota", "set", "--delete", "producer_byte_rate", "--user", "carol", "--client-id", "<default>")
    assert done.status == 0
    assert on(secured, "quota", "list", "--output", "json").json == []
    bad = on(secured, "quota", "set", "no_such_key=1", "--user", "carol")
    assert bad.status == 1 and bad.err.count("\n") == 1
    assert on(secured, "quota", "set", "producer_byte_rate=1").status == 2
