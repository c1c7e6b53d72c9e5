"""Kafka's metrics of the authorizer on the Prometheus port: number of ACLs, and decisions per minute."""

from __future__ import annotations

import urllib.request

import odradek
import pytest
from odradek.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest
from odradek.server.access.authorization.recent_decisions import WINDOW_MS, RecentDecisions

from compat_tests.wire import WireClient

CLASS = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
LABELS = '{class="StandardAuthorizer",config="authorizer.class.name",role="broker"}'


def scrape(broker: odradek.Broker) -> dict[str, float]:
    assert broker.server.observability is not None
    host, port = broker.server.observability.address
    with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=30) as response:
        found = (line.rpartition(" ") for line in response.read().decode().splitlines() if not line.startswith("#"))
        return {name: float(value) for name, _, value in found}


@pytest.mark.usefixtures("sockets")
def test_rules_and_decisions_are_counted() -> None:
    config = {"authorizer.class.name": CLASS, "super.users": "User:ANONYMOUS", "odradek.metrics.port": 0}
    with odradek.Broker(config=config) as broker, WireClient(broker.bootstrap_servers) as client:
        first = scrape(broker)
        rules = [AclCreation(2, f"t{number}", 3, "User:alice", "*", 3, 3) for number in range(5)]
        assert {one.error_code for one in client.call(CreateAclsRequest(creations=rules), 3).results} == {0}
        found = scrape(broker)
    assert first[f"kafka_server_plugins_acls_total_count{LABELS}"] == 0
    assert found[f"kafka_server_plugins_acls_total_count{LABELS}"] == 5
    rates = {
        name: found[f"kafka_server_plugins_authorization_{name}_rate_per_minute{LABELS}"]
        for name in ("request", "allowed", "denied")
    }
    assert rates["request"] == rates["allowed"] > 0
    assert rates["denied"] == 0
    assert found['odradek_authorization_decisions_total{decision="allowed"}'] >= 1


@pytest.mark.usefixtures("sockets")
def test_a_denial_is_counted() -> None:
    config = {"authorizer.class.name": CLASS, "odradek.metrics.port": 0}
    with odradek.Broker(config=config) as broker, WireClient(broker.bootstrap_servers) as client:
        client.call(DeleteTopicsRequest(topic_names=["a", "b"], timeout_ms=1000), 4)
        found = scrape(broker)
    assert found['odradek_authorization_decisions_total{decision="denied"}'] >= 2
    assert found[f"kafka_server_plugins_authorization_denied_rate_per_minute{LABELS}"] > 0
    assert found[f"kafka_server_plugins_authorization_allowed_rate_per_minute{LABELS}"] == 0


@pytest.mark.usefixtures("sockets")
def test_without_an_authorizer_there_are_none() -> None:
    with odradek.Broker(config={"odradek.metrics.port": 0}) as broker:
        assert not [name for name in scrape(broker) if "authorization" in name or "acls" in name]


def test_a_rate_is_that_of_the_last_minute() -> None:
    recent = RecentDecisions(0)
    assert recent.since(1_000, 10, 0) == (10, 0, 1_000)
    assert recent.since(WINDOW_MS, 20, 2) == (20, 2, WINDOW_MS)
    assert recent.since(WINDOW_MS + 1_000, 20, 2) == (10, 2, WINDOW_MS)
    assert recent.since(10 * WINDOW_MS, 20, 5) == (0, 3, 9 * WINDOW_MS - 1_000)
