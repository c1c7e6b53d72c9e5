"""The token with which a node logs in to other nodes: its source, its replacement, and the text of failures."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from odradek.client.sasl import AuthenticationFailed
from odradek.metadata.configs import InvalidConfig
from odradek.server.access.authentication.mechanism import Identity
from odradek.server.access.authentication.oauth import OAuthBearerServer
from odradek.server.access.authentication.oauth_claims import unsecured_validator
from odradek.server.access.authentication.oauth_login import CurrentToken, RefreshTimes

from tests.security.harness.oauth_login import CREDENTIALS, first, login
from tests.security.issuer import Issuer, KeyServer

ISSUED = Issuer()


@pytest.fixture
def endpoint(sockets: None) -> Iterator[KeyServer]:
    with KeyServer({}, ISSUED) as server:
        yield server


def claims(pairs: dict[str, str]) -> dict[str, object]:
    body = pairs["auth"].removeprefix("Bearer ").split(".")[1]
    found: dict[str, object] = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return found


def test_a_token_comes_from_an_endpoint_for_the_clients_credentials(endpoint: KeyServer) -> None:
    found = login(endpoint.url, f'{CREDENTIALS} scope="brokers" extension_logicalCluster="lkc-1"')
    pairs = first(found)
    assert claims(pairs)["sub"] == "olga"
    assert pairs["logicalCluster"] == "lkc-1"
    assert first(found) == pairs
    assert endpoint.asked == [{"grant_type": ["client_credentials"], "scope": ["brokers"]}]
    assert (found.mechanism, found.username, found.may_wait) == ("OAUTHBEARER", "node", True)


def test_configured_credentials_come_before_those_of_the_login_module(endpoint: KeyServer) -> None:
    prefix = "sasl.oauthbearer.client.credentials.client"
    configured = {f"{prefix}.id": KeyServer.CLIENT, f"{prefix}.secret": KeyServer.SECRET, "sasl.oauthbearer.scope": "s"}
    first(login(endpoint.url, 'clientId="x" clientSecret="y" scope="z"', **configured))
    assert endpoint.asked == [{"grant_type": ["client_credentials"], "scope": ["s"]}]


def test_a_token_comes_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(ISSUED.token(time.time()) + "\n")
    assert first(login(file.as_uri()))["auth"] == f"Bearer {file.read_text().strip()}"


def test_a_token_without_a_signature_is_what_a_listener_for_such_takes() -> None:
    found = login(None, 'unsecuredLoginStringClaim_sub="node" unsecuredLoginListClaim_scope="|a|b"', handler=None)
    server = OAuthBearerServer(unsecured_validator({"unsecuredValidatorRequiredScope": "a b"}))
    client = found.client("localhost")
    assert client.respond(server.evaluate(client.first(), int(time.time() * 1000))) is None
    assert client.is_complete
    assert server.identity is not None
    assert server.identity.name == "node"


def test_a_class_of_a_users_own_gets_the_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = ISSUED.token(time.time())
    (tmp_path / "own_tokens.py").write_text(f"class Tokens:\n    def __call__(self):\n        return {token!r}\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert first(login(handler="python:own_tokens:Tokens"))["auth"] == f"Bearer {token}"


def test_an_error_of_the_server_is_acknowledged() -> None:
    def refuse(token: str, now_ms: int) -> Identity:
        from odradek.server.access.authentication.token_validator import TokenRejected

        raise TokenRejected("it is for others")

    server = OAuthBearerServer(refuse)
    client = login(None, 'unsecuredLoginStringClaim_sub="node"', handler=None).client("localhost")
    acknowledged = client.respond(server.evaluate(client.first(), 0))
    assert acknowledged is not None
    with pytest.raises(AuthenticationFailed, match="it is for others"):
        server.evaluate(acknowledged, 0)


@pytest.mark.parametrize(
    "options", [CREDENTIALS.replace("s3cret", "wrong"), 'clientId="stranger" clientSecret="s3cret-2"']
)
def test_a_refused_client_has_no_token_and_shows_no_secret(endpoint: KeyServer, options: str) -> None:
    with pytest.raises(
        AuthenticationFailed, match=r"no token for it: http://127\.0\.0\.1/keys: it returned HTTP status 401"
    ) as failed:
        first(login(endpoint.url, options))
    assert "s3cret" not in failed.value.reason


@pytest.mark.parametrize(
    ("claims", "words"), [({"exp": 1000}, "the token has expired"), ({"exp": None}, "the token has no claim exp")]
)
def test_a_token_that_is_of_no_use_is_not_sent(endpoint: KeyServer, claims: dict[str, int], words: str) -> None:
    endpoint.claims = claims
    with pytest.raises(AuthenticationFailed, match=words):
        first(login(endpoint.url, CREDENTIALS))


def test_a_token_is_replaced_in_time_and_kept_when_the_endpoint_fails() -> None:
    supplied = [ISSUED.token(time.time(), exp=int(time.time()) + 3600, jti=name) for name in ("one", "two")]
    wanted = iter(supplied)
    fresh = CurrentToken(lambda: next(wanted), RefreshTimes(0.8, 0.0, 0, 0, 1, 10), "a test")
    assert [fresh.get(), fresh.get()] == [supplied[0]] * 2
    wanted = iter(supplied)
    due = CurrentToken(lambda: next(wanted), RefreshTimes(0.0, 0.0, 0, 0, 0.0, 0.0), "a test")
    assert [due.get(), due.get(), due.get(), due.get()] == [*supplied, supplied[1], supplied[1]]


@pytest.mark.parametrize(
    ("times", "begins", "expires", "now", "expected"),
    [
        (RefreshTimes(0.8, 0.05, 60, 300, 0, 0), 0, 3600, 0, 0.8 * 3600),
        (RefreshTimes(0.99, 0.05, 60, 300, 0, 0), 0, 3600, 0, 3300),
        (RefreshTimes(0.8, 0.05, 60, 300, 0, 0), 0, 3600, 3000, 3060),
        (RefreshTimes(0.8, 0.05, 60, 300, 0, 0), 0, 100, 0, 80),
    ],
)
def test_tokens_are_replaced_when_kafka_replaces_them(
    times: RefreshTimes, begins: float, expires: float, now: float, expected: float
) -> None:
    assert times.refresh_s(begins, expires, now, 0.0) == pytest.approx(expected)
    assert times._replace(jitter=0.0).refresh_s(begins, expires, now, 1.0) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("url", "options", "more", "words"),
    [
        (None, CREDENTIALS, {}, "token.endpoint.url is not set"),
        ("gopher://x", CREDENTIALS, {}, "is not a URL of file, http or https"),
        ("http://x", "", {}, "clientId or clientSecret is missing"),
        ("http://x", CREDENTIALS, {"handler": "com.acme.Tokens"}, "com.acme.Tokens is not supported"),
        ("http://x", CREDENTIALS, {"handler": None}, "unsecuredLoginStringClaim_sub is missing"),
        (
            None,
            'unsecuredLoginNumberClaim_x="y"',
            {"handler": None},
            "a number option of an unsecured token is not a number",
        ),
        (
            "http://x",
            CREDENTIALS,
            {"sasl.oauthbearer.jwt.retriever.class": "com.acme.Retriever"},
            "com.acme.Retriever is not supported",
        ),
    ],
)
def test_a_node_that_could_not_get_a_token_does_not_start(
    url: str | None, options: str, more: dict[str, str], words: str
) -> None:
    with pytest.raises(InvalidConfig, match=words):
        login(url, options, **more)
