"""Delegation tokens: the same responses as Apache Kafka's, logins with a token by Java's clients, and token expiry."""

from __future__ import annotations

import base64
import hmac
import re
import time
from pathlib import Path
from typing import Any

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from odradek.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from odradek.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from odradek.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest
from odradek.protocol.messages.token_principals import TokenPrincipal
from odradek.protocol.schema import Message

from compat_tests.java.tool import ToolHost
from compat_tests.odradek_process import OdradekProcess
from compat_tests.recipes import eventually
from compat_tests.security.secured import PLAIN_USERS, TOKEN_SECRET, Secured, jaas
from compat_tests.wire import WireClient
from tests.security.exchanges import ScramClient, plain

HOUR_MS = 3_600_000
_TIMES = re.compile(r"timestamp")
DEADLINE_S = 60


class User:
    """A connection, logged in if the user has a name."""

    def __init__(self, bootstrap: str, name: str | None) -> None:
        self.client = WireClient(bootstrap, timeout=60)
        if name is not None:
            self.login("PLAIN", plain(name, PLAIN_USERS[name]))

    def login(self, mechanism: str, token: bytes) -> Any:
        self.client.call(SaslHandshakeRequest(mechanism=mechanism), 1)
        return self.authenticate(token)

    def authenticate(self, token: bytes) -> Any:
        return self.client.call(SaslAuthenticateRequest(auth_bytes=token), 2)

    def login_by_token(self, token_id: str, password: bytes, digest: str = "sha512") -> Any:
        words = base64.b64encode(password).decode()
        client = ScramClient(digest, token_id, words, extensions=",tokenauth=true")
        first = self.login(f"SCRAM-SHA-{digest[3:]}", client.first)
        return first if first.error_code else self.authenticate(client.final(first.auth_bytes))

    def ask(self, request: Message, version: int) -> Any:
        return self.client.call(request, version)


def shown(response: Any, began_ms: int, ids: dict[str, str]) -> Any:
    """Returns a response with times in hours since `began_ms`, names for token ids, and lengths for HMACs."""
    if isinstance(response, list):
        return [shown(one, began_ms, ids) for one in response]
    if not isinstance(response, Message):
        return response
    found = {}
    for field in response.SCHEMA.fields:
        value = getattr(response, field.name)
        if _TIMES.search(field.name):
            value = value if value <= 0 else round((value - began_ms) / HOUR_MS, 2)
        elif field.name == "token_id":
            value = ids.setdefault(value, f"token {len(ids)}") if value else value
        elif field.name == "hmac":
            value = len(value)
        found[field.name] = shown(value, began_ms, ids)
    return found


def create(*renewers: str, **fields: Any) -> CreateDelegationTokenRequest:
    made = [TokenPrincipal(*renewer.split(":")) for renewer in renewers]
    fields = {"owner_principal_type": None, "owner_principal_name": None, "max_lifetime_ms": -1} | fields
    return CreateDelegationTokenRequest(renewers=made, **fields)


def describe(*owners: str) -> DescribeDelegationTokenRequest:
    return DescribeDelegationTokenRequest(owners=[TokenPrincipal(*owner.split(":")) for owner in owners])


def await_tokens(alice: User) -> None:
    """Waits for the five tokens of `executed`: Kafka lists, and renews, a token a moment after its creation."""
    owners = describe("User:alice", "User:carol")
    eventually(lambda: len(alice.ask(owners, 3).tokens) >= 5, what="all tokens are listed")


def await_expiry(alice: User, token_id: str, expiry_ms: int) -> None:
    """Waits until a renewal is seen: Kafka responds before its metadata has come."""

    def is_seen() -> bool:
        found = alice.ask(describe("User:alice"), 3).tokens
        return any((one.token_id, one.expiry_timestamp) == (token_id, expiry_ms) for one in found)

    eventually(is_seen, what="the token is renewed")


def executed(broker: Secured) -> list[Any]:
    began_ms, ids, responses = int(time.time() * 1000), {}, []
    nobody, alice, bob = User(broker.at("PLAINTEXT"), None), *(User(broker.at("SASL"), n) for n in ("alice", "bob"))

    def ask(user: User, request: Message, version: int) -> Any:
        response = user.ask(request, version)
        responses.append(shown(response, began_ms, ids))
        return response

    token = ask(alice, create("User:bob", max_lifetime_ms=HOUR_MS // 2), 3)
    for version in (1, 2, 3):
        ask(alice, create(), version)
    ask(alice, create("Group:bob"), 3)
    ask(alice, create(owner_principal_type="User", owner_principal_name="carol"), 3)
    await_tokens(alice)
    for rejected in (
        create(),
        RenewDelegationTokenRequest(token.hmac),
        ExpireDelegationTokenRequest(token.hmac),
        describe(),
    ):
        ask(nobody, rejected, 2)
    for hmac_bytes in (token.hmac, b"unknown", b""):
        for period_ms in (HOUR_MS // 4, -1, 10 * HOUR_MS):
            renewed = ask(bob, RenewDelegationTokenRequest(hmac_bytes, period_ms), 2)
            if not renewed.error_code:
                await_expiry(alice, token.token_id, renewed.expiry_timestamp_ms)
    admin = User(broker.at("SASL"), "admin")
    ask(admin, RenewDelegationTokenRequest(token.hmac, HOUR_MS), 1)
    ask(admin, ExpireDelegationTokenRequest(token.hmac, -1), 1)
    ask(alice, describe("User:bob"), 3)
    ask(alice, describe("User:carol"), 2)
    ask(alice, describe("User:nobody"), 1)
    ask(alice, describe(), 3)
    ask(alice, ExpireDelegationTokenRequest(token.hmac, HOUR_MS // 4), 2)
    by_token = User(broker.at("SASL"), None)
    responses.append(by_token.login_by_token(token.token_id, token.hmac).error_code)
    for rejected in (
        create(),
        RenewDelegationTokenRequest(token.hmac),
        ExpireDelegationTokenRequest(token.hmac),
        describe(),
    ):
        ask(by_token, rejected, 2)
    ask(alice, ExpireDelegationTokenRequest(token.hmac, -1), 2)
    for user in (nobody, alice, bob, admin, by_token):
        user.client.close()
    return responses


@pytest.mark.oracle
def test_both_brokers_answer_token_requests_alike(secured: Secured, secured_oracle: Secured) -> None:
    ours, kafkas = executed(secured), executed(secured_oracle)
    for number, (one, other) in enumerate(zip(ours, kafkas, strict=True)):
        assert one == other, f"answer {number}"


@pytest.mark.parametrize("digest", ["sha256", "sha512"])
def test_a_token_logs_its_owner_in_until_it_is_expired(digest: str, secured: Secured) -> None:
    alice = User(secured.at("SASL"), "alice")
    token = alice.ask(create(), 3)
    assert token.hmac == hmac.digest(TOKEN_SECRET.encode(), token.token_id.encode(), "sha512")
    session = User(secured.at("SASL"), None).login_by_token(token.token_id, token.hmac, digest)
    assert session.error_code == ErrorCode.NONE
    assert 0 < session.session_lifetime_ms <= HOUR_MS
    wrong = User(secured.at("SASL"), None).login_by_token(token.token_id, b"wrong", digest)
    assert wrong.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert alice.ask(ExpireDelegationTokenRequest(token.hmac, -1), 2).error_code == ErrorCode.NONE
    late = User(secured.at("SASL"), None).login_by_token(token.token_id, token.hmac, digest)
    assert late.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_expired_tokens_are_removed_and_tokens_survive_a_restart(tmp_path: Path) -> None:
    properties = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "delegation.token.secret.key": TOKEN_SECRET,
        "delegation.token.expiry.check.interval.ms": "200",
        **jaas("sasl_plaintext"),
    }
    broker = OdradekProcess(tmp_path, properties)

    def port_of_the_last_start() -> str:
        found = re.search(r"serving on (\S+:\d+)", broker.output_file.read_text())
        assert found is not None
        return found[1]

    with broker:
        alice = User(port_of_the_last_start(), "alice")
        kept, short = alice.ask(create(), 3), alice.ask(create(max_lifetime_ms=6000), 3)
        assert {token.token_id for token in alice.ask(describe("User:alice"), 3).tokens} == {
            kept.token_id,
            short.token_id,
        }
        deadline = time.monotonic() + DEADLINE_S
        while len(alice.ask(describe("User:alice"), 3).tokens) > 1:
            assert time.monotonic() < deadline, "an expired token is removed"
            time.sleep(0.05)
        broker.kill()
        broker.start()
        again = User(port_of_the_last_start(), None)
        assert again.login_by_token(kept.token_id, kept.hmac).error_code == ErrorCode.NONE
        assert again.login_by_token(short.token_id, short.hmac).error_code != ErrorCode.NONE


@pytest.mark.oracle
def test_java_logs_in_with_a_token_of_the_tool(secured: Secured, tools: ToolHost, topic: str, tmp_path: Path) -> None:
    config = tmp_path / "alice.properties"
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={module} required username="alice" password="{PLAIN_USERS["alice"]}";\n'
    )
    command = ("--bootstrap-server", secured.at("SASL"), "--command-config", str(config))
    name = "org.apache.kafka.tools.DelegationTokenCommand"
    made = tools.run(name, *command, "--create", "--max-life-time-period", "-1").checked().out
    token_id, password = re.findall(r"^(\S{22})\s+(\S{80,})\s", made, re.MULTILINE)[0]
    assert token_id in tools.run(name, *command, "--describe", "--owner-principal", "User:alice").checked().out
    login = tmp_path / "token.properties"
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    login.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
        f'sasl.jaas.config={module} required username="{token_id}" password="{password}" tokenauth="true";\n'
    )
    tools.run(
        "org.apache.kafka.tools.ConsoleProducer",
        *("--bootstrap-server", secured.at("SASL"), "--topic", topic, "--command-config", str(login)),
        stdin="by token\n",
    ).checked()
    assert (
        "Completed"
        in tools.run(name, *command, "--renew", "--renew-time-period", "-1", "--hmac", password).checked().out
    )
    assert (
        "Completed"
        in tools.run(name, *command, "--expire", "--expiry-time-period", "-1", "--hmac", password).checked().out
    )
