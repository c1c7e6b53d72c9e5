"""User-defined classes in place of Kafka's: policies, quotas, and principals."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import odradek
import pytest
from odradek.metadata.configs import InvalidConfig
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_configs import AlterConfigsRequest
from odradek.protocol.messages.alter_configs import LegacyAlterableConfig as LegacyConfig
from odradek.protocol.messages.alter_configs import LegacyAlterConfigsResource as LegacyResource
from odradek.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest

from compat_tests.wire import ConnectionClosed, WireClient
from tests.security.exchanges import plain
from tests.server.harness.certificates import Authority, pem_properties
from tests.server.harness.data_path import DataPath, wait_until
from tests.server.harness.quotas import WINDOWS, StillClock, produced
from tests.server.harness.tls_clients import client_context

pytestmark = pytest.mark.usefixtures("sockets")

MODULE = """
from odradek.server.access.quotas.client_quotas import QuotaKind
from odradek.server.access.policies import PolicyViolation

asked = []


class Topics:
    def validate(self, request):
        asked.append(request)
        if request.topic.startswith("bad"):
            raise PolicyViolation(f"{request.topic} is a bad name")
        if request.topic.startswith("broken"):
            raise RuntimeError("s3cret")


class Configs:
    def configure(self, properties):
        self.most = int(properties["own.most"])

    def validate(self, request):
        asked.append(request)
        if int(request.configs.get("max.message.bytes") or 0) > self.most:
            raise PolicyViolation("that is too large")


class Principals:
    def build(self, context):
        asked.append(context)
        if context.authorization_id == "nobody":
            raise KeyError("s3cret")
        if context.authorization_id == "odd":
            return "no type"
        return f"Team:{context.listener}-{context.default_principal}"


class Quotas:
    limits = {"slow": 10_000.0}
    changed = False

    def quota_tags(self, kind, principal, client_id):
        if client_id == "broken":
            raise RuntimeError("s3cret")
        return {"team": client_id.partition("-")[0]}

    def quota_limit(self, kind, tags):
        return self.limits.get(tags["team"]) if kind is QuotaKind.PRODUCE else None

    def quota_reset_required(self, kind):
        changed, Quotas.changed = Quotas.changed, False
        return changed

    def quotas_changed(self, quotas):
        asked.append(quotas)
"""
TOPIC = 2


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Makes the module importable. Yields its name, as configurations have it."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "own_classes.py").write_text(MODULE)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield "python:own_classes"


@pytest.fixture
def policed(own: str) -> Iterator[WireClient]:
    config = {
        "create.topic.policy.class.name": f"{own}:Topics",
        "alter.config.policy.class.name": f"{own}:Configs",
        "own.most": "2000",
        "num.partitions": "3",
    }
    with odradek.Broker(config=config) as broker, WireClient(broker.bootstrap_servers) as client:
        requests().clear()
        yield client


def requests() -> list[object]:
    import own_classes  # type: ignore[import-not-found]

    asked: list[object] = own_classes.asked
    return asked


def created(client: WireClient, *topics: CreatableTopic, validate_only: bool = False) -> list[tuple[int, str | None]]:
    request = CreateTopicsRequest(topics=list(topics), timeout_ms=5000, validate_only=validate_only)
    return [(one.error_code, one.error_message) for one in client.call(request, 7).topics]


def test_a_policy_decides_which_topics_are_created(policed: WireClient) -> None:
    configs = [CreatableTopicConfig("retention.ms", "1000")]
    assert created(policed, CreatableTopic("good", -1, -1, configs=configs), CreatableTopic("bad", 1, 1)) == [
        (0, None),
        (ErrorCode.POLICY_VIOLATION, "bad is a bad name"),
    ]
    assigned = CreatableTopic("assigned", -1, -1, assignments=[CreatableReplicaAssignment(0, [1])])
    assert created(policed, assigned, validate_only=True) == [(0, None)]
    creations = [one for one in requests() if type(one).__name__ == "TopicCreation"]
    assert creations == [
        ("good", 3, 1, None, {"retention.ms": "1000"}),
        ("bad", 1, 1, None, {}),
        ("assigned", None, None, {0: (1,)}, {}),
    ]


def test_a_policy_is_asked_after_every_other_check(policed: WireClient) -> None:
    assert created(policed, CreatableTopic("bad", 1, 2))[0][0] == ErrorCode.INVALID_REPLICATION_FACTOR
    assert created(policed, CreatableTopic("bad", 0, 1))[0][0] == ErrorCode.INVALID_PARTITIONS
    assert requests() == []


def test_a_policy_that_fails_refuses_and_shows_nothing(policed: WireClient, caplog: pytest.LogCaptureFixture) -> None:
    assert created(policed, CreatableTopic("broken", 1, 1)) == [(ErrorCode.UNKNOWN_SERVER_ERROR, None)]
    assert "your own policy failed" in caplog.text


def altered(client: WireClient, topic: str, key: str, value: str | None) -> tuple[int, str | None]:
    config = AlterableConfig(name=key, config_operation=1 if value is None else 0, value=value)
    request = IncrementalAlterConfigsRequest(resources=[AlterConfigsResource(TOPIC, topic, [config])])
    (found,) = client.call(request, 1).responses
    return found.error_code, found.error_message


def test_a_policy_decides_which_configurations_are_altered(policed: WireClient) -> None:
    assert created(policed, CreatableTopic("good", 1, 1)) == [(0, None)]
    requests().clear()
    assert altered(policed, "good", "max.message.bytes", "2000") == (0, None)
    refused = (ErrorCode.POLICY_VIOLATION, "that is too large")
    assert altered(policed, "good", "max.message.bytes", "2001") == refused
    assert altered(policed, "good", "max.message.bytes", None) == (0, None)
    legacy = [LegacyResource(TOPIC, "good", [LegacyConfig("max.message.bytes", "3000")])]
    (found,) = policed.call(AlterConfigsRequest(resources=legacy), 2).responses
    assert (found.error_code, found.error_message) == refused
    assert [request[2] for request in requests()] == [  # type: ignore[index]
        {"max.message.bytes": value} for value in ("2000", "2001", None, "3000")
    ]


def test_the_configs_of_a_new_topic_are_an_alteration(policed: WireClient) -> None:
    large = CreatableTopic("large", 1, 1, configs=[CreatableTopicConfig("max.message.bytes", "2001")])
    assert created(policed, large) == [(ErrorCode.POLICY_VIOLATION, "that is too large")]


def test_clients_with_the_same_tags_share_a_quota(own: str) -> None:
    import own_classes

    config = {"client.quota.callback.class": f"{own}:Quotas", **WINDOWS}
    with odradek.Broker(config=config) as broker, StillClock(broker):
        paths = {name: DataPath(broker, client_id=name) for name in ("slow-1", "slow-2", "fast-1", "broken")}
        topic = paths["slow-1"].topic()
        assert produced(paths["slow-1"], topic, 9_000).throttle_time_ms == 0
        assert produced(paths["slow-2"], topic, 9_000).throttle_time_ms > 0
        assert produced(paths["fast-1"], topic, 50_000).throttle_time_ms == 0
        assert produced(paths["broken"], topic, 50_000).throttle_time_ms == 0
        own_classes.Quotas.limits["fast"] = 1000.0
        assert produced(paths["fast-1"], topic, 9_000).throttle_time_ms == 0
        own_classes.Quotas.changed = True
        assert produced(paths["fast-1"], topic, 9_000).throttle_time_ms > 0
        for path in paths.values():
            path.close()


def test_a_builder_makes_the_principals_of_every_listener(
    own: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "odradek.audit")
    authority = Authority()
    stores = pem_properties(authority.issue(name="node"), authority, tmp_path)
    config = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,LOGIN://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,LOGIN:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.login.plain.sasl.jaas.config": (
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            'user_alice="a" user_nobody="n" user_odd="o";'
        ),
        "connection.failed.authentication.delay.ms": 0,
        "ssl.client.auth": "required",
        "principal.builder.class": f"{own}:Principals",
        **stores,
    }
    with odradek.Broker(config=config) as broker:
        ports = {one.name: one.endpoint.port for one in broker.server.network.listeners}
        requests().clear()
        assert principal_on(WireClient(f"127.0.0.1:{ports['PLAINTEXT']}"), broker) == "Team:PLAINTEXT-User:ANONYMOUS"
        context = client_context(authority, authority.issue(name="carol"), tmp_path)
        secured = WireClient(f"127.0.0.1:{ports['SSL']}", tls=context)
        assert principal_on(secured, broker).startswith("Team:SSL-User:CN=carol")
        assert principal_on(logged_in(ports["LOGIN"], "alice", "a"), broker) == "Team:LOGIN-User:alice"
        for user, words in (
            ("nobody", "returned no principal: KeyError"),
            ("odd", "returned a principal that is not TYPE:NAME"),
        ):
            with pytest.raises((ConnectionClosed, AssertionError)):
                logged_in(ports["LOGIN"], user, user[0])
            assert words in caplog.text
        assert "s3cret" not in caplog.text
        contexts = [one for one in requests() if type(one).__name__ == "AuthenticationContext"]
        assert [(one.security_protocol, one.mechanism, one.authorization_id) for one in contexts] == [  # type: ignore[attr-defined]
            ("PLAINTEXT", "", ""),
            ("SSL", "", ""),
            ("SASL_PLAINTEXT", "PLAIN", "alice"),
            ("SASL_PLAINTEXT", "PLAIN", "nobody"),
            ("SASL_PLAINTEXT", "PLAIN", "odd"),
        ]
        certificates = [one.certificate for one in contexts]  # type: ignore[attr-defined]
        assert [found is not None for found in certificates] == [False, True, False, False, False]
        assert b"carol" in certificates[1]


def logged_in(port: int, user: str, password: str) -> WireClient:
    client = WireClient(f"127.0.0.1:{port}")
    assert client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
    assert client.call(SaslAuthenticateRequest(auth_bytes=plain(user, password)), 2).error_code == 0
    return client


def principal_on(client: WireClient, broker: odradek.Broker) -> str:
    """Returns the principal of the one connection that is open, and closes it."""
    client.call(DeleteTopicsRequest(topic_names=[], timeout_ms=0), 4)
    (found,) = {
        one.principal
        for listener in broker.server.network.listeners
        for one in tuple(listener.connections)
        if one.has_asked
    }
    client.close()
    wait_until(
        lambda: not any(one.has_asked for at in broker.server.network.listeners for one in tuple(at.connections))
    )
    return found


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("principal.builder.class", "com.acme.Builder", "DefaultKafkaPrincipalBuilder, or python:package.module:Name"),
        ("principal.builder.class", "python:own_classes:Topics", "does not implement PrincipalBuilder"),
        ("create.topic.policy.class.name", "com.acme.Policy", "name your own class as python:package.module:Name"),
        ("alter.config.policy.class.name", "python:own_classes:Configs", "configure failed: 'own.most'"),
        ("client.quota.callback.class", "python:own_classes:Topics", "does not implement ClientQuotaCallback"),
    ],
)
def test_a_class_that_cannot_be_used_ends_the_start(own: str, key: str, value: str, words: str) -> None:
    with pytest.raises(InvalidConfig, match=words), odradek.Broker(config={key: value}):
        pass
