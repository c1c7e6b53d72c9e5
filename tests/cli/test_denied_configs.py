"""Configs that a user may not see: an error or a warning names them, and none of them counts as absent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import odradek
import pytest
from odradek.admin.configs import Kind, describe_topic_configs, own_configs, own_values
from odradek.admin.connection import Connection
from odradek.admin.errors import ResponseError

from compat_tests.cli.commands import Done, odradek_command

pytestmark = pytest.mark.usefixtures("sockets")

USERS = {"admin": "admin-secret", "reader": "reader-secret"}
#: Rights to read topics and to describe the cluster, without DESCRIBE_CONFIGS.
RULES = (
    ("--topic", "*", "--operation", "read"),
    ("--group", "*", "--operation", "describe"),
    ("--cluster", "--operation", "describe"),
)


@pytest.fixture(scope="module")
def secured() -> Iterator[odradek.Broker]:
    security = odradek.Security("SASL_PLAINTEXT", "SCRAM-SHA-256", users=USERS, authorizer=True)
    with odradek.Broker(security=security) as broker:
        assert run(broker, "admin", "topic", "create", "orders", "-c", "cleanup.policy=compact").status == 0
        for rule in RULES:
            assert run(broker, "admin", "acl", "create", *rule, "--allow", "User:reader").status == 0
        yield broker


def run(broker: odradek.Broker, user: str, *words: str) -> Done:
    config = str(broker.client_properties_file(user))
    return odradek_command(*words, "-b", broker.bootstrap_servers, "--command-config", config, "--timeout", "20")


def test_denied_configs_are_an_error_of_their_topic(secured: odradek.Broker) -> None:
    properties = secured.client_settings("java", user="reader")
    with Connection({**properties, "bootstrap.servers": secured.bootstrap_servers}).admin() as admin:
        with pytest.raises(ResponseError, match=r"^topic orders: .*\(TOPIC_AUTHORIZATION_FAILED\)") as raised:
            own_configs(admin, "orders")
        assert raised.value.is_denial
        with pytest.raises(ResponseError, match=r"^topic orders: "):
            describe_topic_configs(admin, ["orders"], ["cleanup.policy"])
        assert describe_topic_configs(admin, ["orders"], ["cleanup.policy"], without_denied=True) == {}


def test_configs_of_all_brokers_are_their_own(secured: odradek.Broker) -> None:
    assert run(secured, "admin", "config", "set", "broker", "default", "log.retention.ms=86400000").status == 0
    properties = secured.client_settings("java", user="admin")
    with Connection({**properties, "bootstrap.servers": secured.bootstrap_servers}).admin() as admin:
        assert own_values(admin, Kind.BROKER, "")["log.retention.ms"].value == "86400000"
        assert describe_topic_configs(admin, ["no-such-topic"], ["cleanup.policy"]) == {}


def test_backup_without_the_right_to_see_configs_fails(secured: odradek.Broker, tmp_path: Path) -> None:
    done = run(secured, "reader", "backup", str(tmp_path / "backup"), "--topic", "orders")
    assert done.status == 5 and "topic orders" in done.err and "TOPIC_AUTHORIZATION_FAILED" in done.err, done
    done = run(secured, "admin", "backup", str(tmp_path / "backup"), "--topic", "orders")
    assert done.status == 0, done


def test_description_of_a_topic_says_that_its_configs_are_not_shown(secured: odradek.Broker) -> None:
    done = run(secured, "reader", "topic", "describe", "orders", "--output", "json")
    assert done.status == 0 and "configs are not shown: topic orders" in done.err, done
    (described,) = json.loads(done.out)
    assert described["configs"] is None and len(described["partitions"]) == 1
    assert json.loads(run(secured, "admin", "topic", "describe", "orders", "--output", "json").out)[0]["configs"] == {
        "cleanup.policy": "compact"
    }


def test_doctor_says_that_it_has_not_checked_the_configs(secured: odradek.Broker) -> None:
    done = run(secured, "reader", "doctor")
    assert "its configs were not checked: broker 1: " in done.out, done
