"""A user-defined authorizer: `authorizer.class.name=python:package.module:Name`."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import odradek
import pytest
from odradek.metadata.configs import InvalidConfig
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest

from compat_tests.wire import WireClient
from tests.docs.pages import DOCS, blocks
from tests.security.exchanges import plain
from tests.server.harness.data_path import wait_until

pytestmark = pytest.mark.usefixtures("sockets")

MODULE = """
asked, rules = [], {}


class Own:
    def configure(self, properties):
        self.hidden = properties["own.hidden"]

    def authorize(self, context, action):
        asked.append((context.principal, context.host, context.api, action.operation.name, action.name))
        if action.name == "broken":
            raise RuntimeError("no database")
        if action.name == "truthy":
            return "yes"
        return action.name != self.hidden


class Following(Own):
    def acls_changed(self, changes):
        rules.update(changes)


class Unconfigured(Own):
    def configure(self, properties):
        raise KeyError("own.database")
"""
KEY = "authorizer.class.name"
RULE = AclCreation(2, "t", 3, "User:alice", "*", 3, 3)


@pytest.fixture(scope="module", autouse=True)
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Makes the test's module and the guide's module importable. Yields the test's module."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "own_decisions.py").write_text(MODULE)
    (guide,) = (
        block for block in blocks(DOCS / "specialists" / "security-classes.md") if block.title == "own_authorizer.py"
    )
    (folder / guide.title).write_text(guide.text)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        import own_decisions  # type: ignore[import-not-found]

        yield own_decisions


def broker_with(name: str, **more: str) -> odradek.Broker:
    return odradek.Broker(config={KEY: f"python:{name}", "own.hidden": "hidden", **more})


def created(client: WireClient, *names: str) -> list[int]:
    topics = [CreatableTopic(name, 1, 1) for name in names]
    return [one.error_code for one in client.call(CreateTopicsRequest(topics=topics, timeout_ms=30_000), 7).topics]


def described(client: WireClient, *names: str) -> dict[str | None, int]:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])
    return {one.name: one.error_code for one in client.call(request, 12).topics}


def test_authorizer_decides_on_each_topic(own: Any) -> None:
    with broker_with("own_decisions:Own") as broker, WireClient(broker.bootstrap_servers) as client:
        assert created(client, "seen") == [0]
        own.asked.clear()
        assert described(client, "seen", "hidden") == {"seen": 0, "hidden": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
        for name in ("seen", "hidden"):
            assert ("User:ANONYMOUS", "127.0.0.1", "Metadata", "DESCRIBE", name) in own.asked


@pytest.mark.parametrize("name", ["broken", "truthy"])
def test_exceptions_and_other_values_than_true_deny(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with broker_with("own_decisions:Own") as broker, WireClient(broker.bootstrap_servers) as client:
        assert described(client, name) == {name: ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    assert ("Own failed; the action is denied" in caplog.text) == (name == "broken")


def test_denials_are_in_the_audit_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "odradek.audit")
    with broker_with("own_decisions:Own") as broker, WireClient(broker.bootstrap_servers) as client:
        described(client, "hidden")
    (line,) = (
        one.getMessage() for one in caplog.records if one.name == "odradek.audit" and "hidden" in one.getMessage()
    )
    assert line.endswith(
        "on resource = Topic:LITERAL:hidden for request = Metadata with resourceRefCount = 1 based on rule Own"
    )


def test_the_rules_of_the_cluster_are_for_one_that_follows_them(own: Any) -> None:
    request = CreateAclsRequest(creations=[RULE])
    with broker_with("own_decisions:Own") as broker, WireClient(broker.bootstrap_servers) as client:
        assert client.call(request, 3).results[0].error_code == ErrorCode.SECURITY_DISABLED
    with broker_with("own_decisions:Following") as broker, WireClient(broker.bootstrap_servers) as client:
        assert client.call(request, 3).results[0].error_code == 0
        wait_until(lambda: own.rules)
        (rule,) = own.rules.values()
        assert (rule.resource_name, rule.principal) == ("t", "User:alice")


def test_the_one_of_the_guide_gives_teams_their_topics() -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    login = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{module} user_shop-anna="secret";',
    }
    with broker_with("own_authorizer:TeamsOwnTopics", **login) as broker, WireClient(broker.bootstrap_servers) as anna:
        assert anna.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
        token = plain("shop-anna", "secret")
        assert anna.call(SaslAuthenticateRequest(auth_bytes=token), 2).error_code == 0
        denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert sorted(created(anna, "shop.orders", "bank.accounts")) == [0, denied]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("com.acme.Authorizer", "or python:package.module:Name for your own class"),
        ("python:own_decisions:Missing", "AttributeError"),
        ("python:builtins:object", "does not implement Authorizer"),
        ("python:own_decisions:Unconfigured", "configure failed: 'own.database'"),
    ],
)
def test_one_that_cannot_be_used_ends_the_start(name: str, words: str) -> None:
    with pytest.raises(InvalidConfig, match=words), odradek.Broker(config={KEY: name}):
        pass
