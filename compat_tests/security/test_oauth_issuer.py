"""Clients get tokens by themselves from an OAuth issuer that is a library's server; the broker gets its keys over HTTP."""

from __future__ import annotations

import re
import time
import urllib.error
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from kafka.net.sasl.oauth import AbstractTokenProvider

from compat_tests.broker_process import free_port
from compat_tests.java.tool import run_tool
from compat_tests.odradek_process import OdradekProcess
from compat_tests.oracle import SINGLE_NODE
from compat_tests.recipes import eventually
from compat_tests.security.oauth_server import AUDIENCE, CLIENT, SECRET, OauthServer, signing_key
from compat_tests.security.round_trips import DEADLINE_S, through_kafka_python, through_librdkafka

_JAVA = "org.apache.kafka.common.security.oauthbearer"
_REFUSED = (
    r" WARNING odradek\.connection: closing the connection of 127\.0\.0\.1:\d+ on SASL_PLAINTEXT: "
    r"failed authentication: a token is not valid: (.+)$"
)
_UNKNOWN_KEY = "no key of its issuer has signed it"


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OauthServer]:
    with OauthServer(tmp_path_factory.mktemp("issuer"), signing_key("key-1")) as server:
        yield server


@pytest.fixture(scope="module")
def oauth(issuer: OauthServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OdradekProcess]:
    with broker_of(issuer, tmp_path_factory.mktemp("oauth")) as broker:
        assert isinstance(broker, OdradekProcess)
        yield broker


@pytest.fixture(scope="module")
def refusing(issuer: OauthServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OdradekProcess]:
    """A broker without lines from the rotation: a broker writes a line once for each address and reason."""
    with broker_of(issuer, tmp_path_factory.mktemp("refusing")) as broker:
        assert isinstance(broker, OdradekProcess)
        yield broker


def broker_of(issuer: OauthServer, directory: Path) -> OdradekProcess:
    properties = {
        **SINGLE_NODE,
        "listeners": f"SASL_PLAINTEXT://127.0.0.1:{free_port()}",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": issuer.discovered["jwks_uri"],
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": issuer.discovered["issuer"],
    }
    return OdradekProcess(directory, properties)


def rejection_reasons(broker: OdradekProcess) -> list[str]:
    """Returns the reasons for which the broker refused tokens, from its log."""
    return re.findall(_REFUSED, broker.log_file.read_text(), re.MULTILINE)


def with_token(broker: OdradekProcess, token: str) -> dict[str, object]:
    return {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _: (token, time.time() + 60),
        "log_level": 0,
    }


def with_credentials(broker: OdradekProcess, issuer: OauthServer, secret: str = SECRET) -> dict[str, object]:
    return {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": issuer.discovered["token_endpoint"],
        "sasl.oauthbearer.client.id": CLIENT,
        "sasl.oauthbearer.client.secret": secret,
        "sasl.oauthbearer.scope": "orders",
        "log_level": 0,
    }


class Tokens(AbstractTokenProvider):
    def __init__(self, issuer: OauthServer) -> None:
        self.issuer = issuer

    def token(self) -> str:
        return self.issuer.token()


def librdkafka_fails(login: dict[str, object], words: str) -> None:
    """Waits until a client of librdkafka has an error with these words, and checks that it gets no metadata."""
    errors: list[KafkaError] = []
    producer = Producer({**login, "error_cb": errors.append})

    def has_error() -> bool:
        producer.poll(0.1)
        return any(words in error.str() for error in errors)

    eventually(has_error, what=f"the client has an error with {words}")
    with pytest.raises(KafkaException):
        producer.list_topics(timeout=0.5)


def test_librdkafka_with_client_credentials(oauth: OdradekProcess, issuer: OauthServer, topic: str) -> None:
    through_librdkafka(topic, with_credentials(oauth, issuer))


@pytest.mark.oracle
def test_java_with_client_credentials(
    oauth: OdradekProcess, issuer: OauthServer, java_tools: None, topic: str, tmp_path: Path
) -> None:
    config, endpoint = tmp_path / "client.properties", issuer.discovered["token_endpoint"]
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
        f"sasl.login.callback.handler.class={_JAVA}.OAuthBearerLoginCallbackHandler\n"
        f"sasl.jaas.config={_JAVA}.OAuthBearerLoginModule required;\n"
        f"sasl.oauthbearer.token.endpoint.url={endpoint}\n"
        f"sasl.oauthbearer.client.credentials.client.id={CLIENT}\n"
        f"sasl.oauthbearer.client.credentials.client.secret={SECRET}\n"
        "sasl.oauthbearer.scope=orders\n"
    )
    arguments = ("--bootstrap-server", oauth.bootstrap, "--topic", topic, "--command-config", str(config))
    jvm = (f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={endpoint}",)
    run_tool("org.apache.kafka.tools.ConsoleProducer", *arguments, stdin="java\n", jvm=jvm).checked()
    read = run_tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *(*arguments, "--from-beginning", "--max-messages", "1", "--timeout-ms", "30000"),
        jvm=jvm,
    ).checked()
    assert read.out.strip() == "java"


def test_kafka_python_with_a_token_provider(oauth: OdradekProcess, issuer: OauthServer, topic: str) -> None:
    login = {
        "bootstrap_servers": oauth.bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": Tokens(issuer),
    }
    through_kafka_python(topic, **login)


def test_issuer_gives_no_token_for_a_wrong_secret(oauth: OdradekProcess, issuer: OauthServer) -> None:
    with pytest.raises(urllib.error.HTTPError, match="401"):
        issuer.token("wrong")
    librdkafka_fails(with_credentials(oauth, issuer, "wrong"), "invalid_client")


def test_broker_fetches_the_new_key_after_a_rotation(oauth: OdradekProcess, issuer: OauthServer, topic: str) -> None:
    assert rejection_reasons(oauth) == []
    old = issuer.token()
    issuer.rotate(signing_key("key-2"))
    producer = Producer(with_credentials(oauth, issuer))
    producer.produce(topic, b"with a token of the new key")
    assert producer.flush(DEADLINE_S) == 0
    # The broker did not have that key at the first login, which made it fetch the keys.
    assert rejection_reasons(oauth) == [_UNKNOWN_KEY]
    # The issuer publishes the old key too, so its tokens stay valid.
    assert topic in Producer(with_token(oauth, old)).list_topics(timeout=DEADLINE_S).topics


@pytest.mark.parametrize(
    ("key_id", "reason"), [("key-1", "its signature is wrong"), ("key-of-the-other", _UNKNOWN_KEY)]
)
def test_token_of_a_server_with_other_keys_is_refused(
    key_id: str, reason: str, refusing: OdradekProcess, issuer: OauthServer, tmp_path: Path
) -> None:
    assert reason not in rejection_reasons(refusing)
    with OauthServer(tmp_path, signing_key(key_id), issuer=issuer.discovered["issuer"]) as other:
        assert other.url != issuer.url
        librdkafka_fails(with_credentials(refusing, other), "invalid_token")
    assert reason in rejection_reasons(refusing)


def test_token_for_another_audience_is_refused(refusing: OdradekProcess, issuer: OauthServer) -> None:
    librdkafka_fails(with_token(refusing, issuer.token(resource="urn:odradek:billing")), "invalid_token")
    assert "it is for another audience" in rejection_reasons(refusing)
