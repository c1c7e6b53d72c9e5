"""A broker shows no secret in its log (with -v), in configurations, metrics or error messages."""

from __future__ import annotations

import base64
import contextlib
import json
import struct
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from odradek.cli.scram_option import scram_user
from odradek.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from odradek.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.controller.formatting import format_directories

from compat_tests.broker_process import free_port
from compat_tests.odradek_process import OdradekProcess
from compat_tests.wire import ConnectionClosed, WireClient
from tests.security.exchanges import ScramClient, plain

pytestmark = pytest.mark.usefixtures("processes")

BROKER = 4
#: No output may contain these values, or values derived from them.
PASSWORDS = {
    "plain": "plain-s3cret-11aa",
    "admin": "admin-s3cret-22bb",
    "scram": "scram-s3cret-33cc",
    "wrong": "wrong-s3cret-44dd",
    "token": "token-s3cret-55ee",
    "altered": "altered-s3cret-66ff",
}
#: A secret in a URL. To Kafka, a URL is no password: DescribeConfigs shows it, the log must not.
OF_URL = "url-s3cret-77gg"
USER = scram_user(f"SCRAM-SHA-256=[name=bob,password={PASSWORDS['scram']}]")
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
JAAS = "listener.name.sasl_plaintext.plain.sasl.jaas.config"


class VerboseProcess(OdradekProcess):
    def command(self) -> list[str]:
        return [*super().command(), "-v"]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[OdradekProcess]:
    metrics = free_port()
    properties = {
        "listeners": f"SASL_PLAINTEXT://127.0.0.1:{free_port()}",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": f"http://user:{OF_URL}@127.0.0.1:1/keys",
        "sasl.oauthbearer.allow.unverified.audience": "true",
        "sasl.oauthbearer.allow.unverified.issuer": "true",
        "delegation.token.secret.key": PASSWORDS["token"],
        JAAS: f'{MODULE} username="admin" password="{PASSWORDS["admin"]}" user_alice="{PASSWORDS["plain"]}";',
        "odradek.metrics.port": str(metrics),
    }
    made = VerboseProcess(tmp_path, properties)
    format_directories(BrokerConfig({"log.dirs": str(made.data_dir)}), users=[USER])
    with made:
        made.metrics_port = metrics  # type: ignore[attr-defined]
        yield made


def connection(broker: OdradekProcess, mechanism: str, *tokens: bytes) -> tuple[WireClient, list[Any]]:
    client, responses = WireClient(broker.bootstrap, timeout=60), []
    responses.append(client.call(SaslHandshakeRequest(mechanism=mechanism), 1))
    with contextlib.suppress(ConnectionClosed):
        for token in tokens:
            responses.append(client.call(SaslAuthenticateRequest(auth_bytes=token), 2))
    return client, responses


def odd_tokens() -> list[tuple[str, bytes]]:
    """Returns (mechanism, token) pairs: invalid tokens, each with a secret in it."""
    wrong = PASSWORDS["wrong"]
    bearer = base64.urlsafe_b64encode(json.dumps({"alg": wrong, wrong: wrong}).encode()).decode()
    return [
        ("PLAIN", plain("alice", wrong)),
        ("PLAIN", plain(wrong, "x")),
        ("PLAIN", wrong.encode()),
        ("SCRAM-SHA-256", plain("bob", wrong)),
        ("SCRAM-SHA-256", f"n,,n=bob,r=x,{wrong}".encode()),
        ("OAUTHBEARER", f"n,,\x01auth=Bearer {wrong}\x01\x01".encode()),
        ("OAUTHBEARER", f"n,,\x01auth=Bearer {bearer}.{bearer}.{bearer}\x01\x01".encode()),
        ("OAUTHBEARER", f"n,,\x01{wrong}=x\x01\x01".encode()),
    ]


def altered(text: str) -> IncrementalAlterConfigsRequest:
    change = AlterableConfig(name=JAAS, config_operation=0, value=text)
    return IncrementalAlterConfigsRequest(resources=[AlterConfigsResource(BROKER, "1", [change])])


def test_no_secret_leaves_the_broker(broker: OdradekProcess) -> None:
    reported: list[Any] = []
    for mechanism, token in odd_tokens():
        reported += connection(broker, mechanism, token, b"\x01")[1]
    scram = ScramClient("sha256", "bob", PASSWORDS["scram"])
    bob, responses = connection(broker, "SCRAM-SHA-256", scram.first)
    final = bob.call(SaslAuthenticateRequest(auth_bytes=scram.final(responses[1].auth_bytes)), 2)
    assert final.error_code == 0
    alice, responses = connection(broker, "PLAIN", plain("alice", PASSWORDS["plain"]))
    assert responses[1].error_code == 0
    token = alice.call(CreateDelegationTokenRequest(max_lifetime_ms=-1), 2)
    assert token.error_code == 0
    for name in ("1", ""):
        resource = DescribeConfigsResource(BROKER, name, None)
        request = DescribeConfigsRequest([resource], include_synonyms=True, include_documentation=True)
        reported.append(alice.call(request, 4))
    reported.append(alice.call(DescribeUserScramCredentialsRequest(users=None), 0))
    good = f'{MODULE} user_alice="{PASSWORDS["altered"]}";'
    for text in (good, good[:-1], f"{MODULE} {PASSWORDS['altered']}", PASSWORDS["altered"]):
        reported.append(alice.call(altered(text), 1))
    reported += connection(broker, "PLAIN", plain("alice", PASSWORDS["plain"]))[1]
    alice.send_bytes(struct.pack(">ihhih", 30, 36, 2, 1, 20) + PASSWORDS["wrong"].encode()[:20])
    with urllib.request.urlopen(f"http://127.0.0.1:{broker.metrics_port}/metrics", timeout=30) as response:  # type: ignore[attr-defined]
        reported.append(response.read().decode())
    assert 'failed_authentication_total{listener="SASL_PLAINTEXT"} 8.0' in reported[-1]
    broker.stop()
    logged = broker.log_file.read_text() + broker.output_file.read_text()
    assert OF_URL not in logged
    reported.append(logged)
    assert "an unknown user or a wrong password" in str(reported) or "failed authentication" in str(reported)
    texts = "\n".join(map(repr, reported))
    made = [token.hmac, USER.stored_key, USER.server_key, USER.salt]
    for secret in PASSWORDS.values():
        assert secret not in texts
        assert base64.b64encode(secret.encode()).decode().rstrip("=") not in texts
    for data in made:
        assert data.hex() not in texts
        assert base64.b64encode(data).decode() not in texts
        assert repr(data)[2:-1] not in texts
