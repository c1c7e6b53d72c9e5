"""Stock clients log in with OAuth tokens of an issuer; the broker reads the issuer's keys from a file."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka.abc import AbstractTokenProvider as AiokafkaTokens
from confluent_kafka import KafkaError, KafkaException, Producer
from kafka.net.sasl.oauth import AbstractTokenProvider

from compat_tests.broker_process import free_port
from compat_tests.java.tool import run_tool
from compat_tests.odradek_process import OdradekProcess
from compat_tests.oracle import SINGLE_NODE
from compat_tests.recipes import eventually
from compat_tests.security.round_trips import through_aiokafka, through_kafka_python, through_librdkafka
from tests.security.issuer import AUDIENCE, ISSUER, Issuer

ISSUED = Issuer()
LOGIN = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER"}


@pytest.fixture(scope="module")
def oauth(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OdradekProcess]:
    directory = tmp_path_factory.mktemp("oauth")
    keys = directory / "keys.json"
    keys.write_text(json.dumps(ISSUED.key_set()))
    properties = {
        **SINGLE_NODE,
        "listeners": f"SASL_PLAINTEXT://127.0.0.1:{free_port()}",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
    }
    with OdradekProcess(directory, properties) as broker:
        assert isinstance(broker, OdradekProcess)
        yield broker


class Tokens(AbstractTokenProvider):
    def token(self) -> str:
        return ISSUED.token(time.time())


class AsyncTokens(AiokafkaTokens):
    async def token(self) -> str:
        return ISSUED.token(time.time())


def confluent(bootstrap: str, **claims: str) -> dict[str, object]:
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _: (ISSUED.token(time.time(), **claims), time.time() + 60),
        "log_level": 0,
    }


def test_librdkafka(oauth: OdradekProcess, topic: str) -> None:
    through_librdkafka(topic, confluent(oauth.bootstrap))


def test_librdkafka_learns_that_its_token_is_for_another_audience(oauth: OdradekProcess) -> None:
    errors: list[KafkaError] = []
    producer = Producer({**confluent(oauth.bootstrap, aud="others"), "error_cb": errors.append})
    with pytest.raises(KafkaException):
        producer.list_topics(timeout=1.5)

    def has_learned() -> bool:
        producer.poll(0.1)
        return any("invalid_token" in error.str() for error in errors)

    eventually(has_learned, what="the client learns why")


def test_kafka_python(oauth: OdradekProcess, topic: str) -> None:
    login = {"bootstrap_servers": oauth.bootstrap, "sasl_oauth_token_provider": Tokens(), **LOGIN}
    through_kafka_python(topic, **login)


async def test_aiokafka(oauth: OdradekProcess, topic: str) -> None:
    login = {"bootstrap_servers": oauth.bootstrap, "sasl_oauth_token_provider": AsyncTokens(), **LOGIN}
    await through_aiokafka(topic, **login)


@pytest.mark.oracle
def test_java(oauth: OdradekProcess, java_tools: None, tmp_path: Path) -> None:
    token, config = tmp_path / "token", tmp_path / "client.properties"
    token.write_text(ISSUED.token(time.time(), scope="kafka"))
    package = "org.apache.kafka.common.security.oauthbearer"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
        f"sasl.oauthbearer.token.endpoint.url={token.as_uri()}\n"
        f"sasl.login.callback.handler.class={package}.OAuthBearerLoginCallbackHandler\n"
        f"sasl.jaas.config={package}.OAuthBearerLoginModule required;\n"
    )
    run_tool(
        "org.apache.kafka.tools.TopicCommand",
        *("--bootstrap-server", oauth.bootstrap, "--list", "--command-config", str(config)),
        jvm=(f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={token.as_uri()}",),
    ).checked()
