"""The fixtures in a user's test suite, which pytest runs in its own process, also with xdist."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.testing.harness.pytest_runs import pytest_of

pytestmark = pytest.mark.usefixtures("processes")

SUITE = """
from kafka import KafkaProducer


def send(place, topic, value):
    producer = KafkaProducer(**place.client_settings("kafka-python"), acks="all", client_id="checkout")
    producer.send(topic, value).get(timeout=60)
    producer.close()


def test_topic(odradek_broker, odradek_topic):
    assert odradek_topic.name == "test_topic"
    send(odradek_broker, odradek_topic.name, b"1")
    assert odradek_topic.values() == [b"1"]


def test_a_topic_of_the_same_broker_is_new(odradek_broker, odradek_topic):
    assert odradek_topic.values() == [] and not odradek_broker.topic("test_topic").exists


def test_faults(odradek_broker, odradek_faults):
    fault = odradek_faults.fail("Produce", error="NOT_LEADER_OR_FOLLOWER", times=2)
    send(odradek_broker, "orders", b"1")
    assert fault.count == 2


def test_faults_are_over(odradek_broker):
    assert len(odradek_broker.faults) == 0


def test_cluster(odradek_cluster):
    send(odradek_cluster, "orders", b"1")
    odradek_cluster.kill(odradek_cluster.leader("orders"))
    assert [one.value for one in odradek_cluster.topic("orders").wait_for(records=1, timeout=60)] == [b"1"]


async def test_coroutine(odradek_topic):
    assert odradek_topic.exists
"""

FAILING = """
from kafka import KafkaProducer


def test_that_fails(odradek_broker, odradek_faults):
    odradek_faults.fail("Fetch", error="NOT_LEADER_OR_FOLLOWER")
    producer = KafkaProducer(bootstrap_servers=odradek_broker.bootstrap_servers, client_id="checkout")
    producer.send("orders", b"1").get(timeout=60)
    assert odradek_broker.topic("orders").values() == [b"2"]
"""


def test_a_suite_uses_the_fixtures_under_xdist(tmp_path: Path) -> None:
    text = pytest_of(tmp_path, SUITE, "-q", "-n", "2")
    assert "6 passed" in text, text


def test_a_suite_is_secured_by_a_fixture_of_its_own(tmp_path: Path) -> None:
    fixture = 'import pytest\n\n\n@pytest.fixture(scope="session")\ndef odradek_security():\n    return "scram"\n'
    (tmp_path / "conftest.py").write_text(fixture)
    check = '\n\ndef test_address(odradek_broker):\n    assert odradek_broker.users == {"admin": "admin-secret"}\n'
    text = pytest_of(tmp_path, SUITE + check, "-q")
    assert "7 passed" in text, text


def test_the_report_of_a_failing_test_shows_the_broker(tmp_path: Path) -> None:
    text = pytest_of(tmp_path, FAILING)
    topics, rest = text.split("odradek topics", 1)[1].split("odradek faults", 1)
    faults, requests = rest.split("odradek last requests", 1)
    assert "orders  0: 0..1" in topics
    assert "Fetch: fail with NOT_LEADER_OR_FOLLOWER; struck 0" in faults
    assert "checkout > 1: Produce" in requests


def test_pytest_describes_each_fixture(tmp_path: Path) -> None:
    text = pytest_of(tmp_path, "", "--fixtures", "-q")
    for name in (
        "broker",
        "cluster",
        "topic",
        "faults",
        "session",
        "new_broker",
        "config",
        "security",
        "cluster_session",
    ):
        described = text.split(f"odradek_{name}", 1)[1].splitlines()
        assert len(described[1].strip()) > 20, described[:2]
