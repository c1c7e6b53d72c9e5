"""OAUTHBEARER: valid and invalid tokens, and the response to an invalid token."""

from __future__ import annotations

import base64
import json
import threading
import time
from pathlib import Path
from typing import Any

import jwt
import pytest
from odradek.client.sasl import AuthenticationFailed
from odradek.metadata.configs import InvalidConfig
from odradek.server.access.authentication import jwks
from odradek.server.access.authentication.jwks import FetchTimes, Jwks
from odradek.server.access.authentication.mechanism import Identity
from odradek.server.access.authentication.oauth import OAuthBearerServer
from odradek.server.access.authentication.oauth_claims import ClaimChecks, unsecured_validator
from odradek.server.access.authentication.oauth_issuer import MOST_BYTES
from odradek.server.access.authentication.sasl_listeners import SaslListeners
from odradek.server.access.authentication.signed_tokens import KeySource, signed_validator, signing_keys
from odradek.server.access.authentication.token_validator import TokenRejected
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.runtime.metadata_cache import MetadataCache

from tests.security.issuer import AUDIENCE, ISSUER, Issuer, KeyServer

NOW_S = 1_800_000_000
NOW_MS = NOW_S * 1000
TRUSTED = {"RS256": Issuer("rsa"), "ES256": Issuer("ec", "ES256")}
STRANGER = Issuer("rsa")
KEYS = [key for issuer in TRUSTED.values() for key in signing_keys(issuer.key_set())]
CHECKS = ClaimChecks(clock_skew_ms=30_000, audiences=(AUDIENCE, "other"), issuer=ISSUER)
DEADLINE_S = 60


def validate(token: str, now_ms: int = NOW_MS) -> Identity:
    return signed_validator(KeySource(lambda: KEYS, lambda _: None), CHECKS)(token, now_ms)


def message(token: str, header: str = "n,,", more: str = "") -> bytes:
    return f"{header}\x01auth=Bearer {token}\x01{more}\x01".encode()


def encoded(data: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(data).encode()).decode().rstrip("=")


@pytest.mark.parametrize("algorithm", TRUSTED)
def test_a_signed_token_is_valid_until_its_end(algorithm: str) -> None:
    token = TRUSTED[algorithm].token(NOW_S)
    assert validate(token) == Identity("olga", NOW_MS + 60_000)
    assert validate(token, NOW_MS + 89_000)
    with pytest.raises(TokenRejected, match="expired"):
        validate(token, NOW_MS + 90_000)


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ({"aud": "somebody else"}, "audience"),
        ({"aud": None}, "audience"),
        ({"aud": {"kafka": 1}}, "audience"),
        ({"iss": "https://another.test"}, "issuer"),
        ({"iss": None}, "issuer"),
        ({"exp": None}, "no claim exp"),
        ({"exp": "never"}, "exp is not a time"),
        ({"exp": True}, "exp is not a time"),
        ({"exp": 1e300}, "exp is not a time"),
        ({"iat": None}, "no claim iat"),
        ({"iat": NOW_S + 31}, "issued in the future"),
        ({"nbf": NOW_S + 31}, "not valid yet"),
        ({"sub": None}, "sub is not a name"),
        ({"sub": " "}, "sub is not a name"),
        ({"sub": "x" * 2000}, "sub is not a name"),
    ],
)
def test_a_token_with_a_wrong_claim_is_refused(claims: dict[str, Any], words: str) -> None:
    with pytest.raises(TokenRejected, match=words):
        validate(TRUSTED["RS256"].token(NOW_S, **claims))


def test_an_audience_may_be_one_of_a_list() -> None:
    assert validate(TRUSTED["RS256"].token(NOW_S, aud=["a", AUDIENCE])).name == "olga"


def forged() -> dict[str, str]:
    """Returns tokens that no issuer has signed, by kind of forgery."""
    claims = TRUSTED["RS256"].claims(NOW_S)
    right = TRUSTED["RS256"].token(NOW_S)
    header, _, signature = right.split(".")
    public = TRUSTED["RS256"].key_set()["keys"][0]
    return {
        "none": jwt.encode(claims, None, "none"),
        "None with a signature": f"{encoded({'alg': 'None'})}.{encoded(claims)}.{signature}",
        "none with the key": jwt.encode(claims, None, "none", headers={"kid": "rsa"}),
        "another key of the same name": STRANGER.token(NOW_S),
        "another key without a name": STRANGER.token(NOW_S, headers={}),
        "a key of its own": STRANGER.token(NOW_S, headers={"jwk": STRANGER.key_set()["keys"][0]}),
        "an unknown key": STRANGER.token(NOW_S, headers={"kid": "unknown"}),
        "a name that is a list": STRANGER.token(NOW_S, headers={"x": 1}).replace(
            header, encoded({"alg": "RS256", "kid": []})
        ),
        "HMAC with the public key": jwt.encode(claims, public["n"], "HS256", headers={"kid": "rsa"}),
        "the key of another algorithm": right.replace(header, encoded({"alg": "ES256", "kid": "ec"})),
        "changed claims": f"{header}.{encoded({**claims, 'sub': 'root'})}.{signature}",
        "no signature": f"{header}.{right.split('.')[1]}.",
    }


@pytest.mark.parametrize("kind", forged())
def test_a_forged_token_is_refused(kind: str) -> None:
    with pytest.raises(TokenRejected):
        validate(forged()[kind])


DEEP = base64.urlsafe_b64encode(b"[" * 40_000).decode()


@pytest.mark.parametrize(
    "token",
    [
        "",
        ".",
        "..",
        "a.b.c",
        "a.b.c.d",
        "é.é.é",
        f"{encoded([])}.{encoded({})}.",
        "W10.W10.W10",
        "[" * 60_000,
        f"{DEEP}.e30.e30",
    ],
    ids=lambda token: token[:8],
)
def test_invalid_token_is_refused_in_time(token: str) -> None:
    began = time.thread_time()
    with pytest.raises(TokenRejected):
        validate(token)
    assert time.thread_time() - began < 0.2


def test_unsecured_tokens_need_the_unsecured_validator() -> None:
    claims = {"sub": "olga", "exp": NOW_S + 60, "scope": "A B"}
    unsecured = jwt.encode(claims, None, "none")
    check = unsecured_validator({"unsecuredValidatorRequiredScope": "B"})
    assert check(unsecured, NOW_MS) == Identity("olga", NOW_MS + 60_000)
    with pytest.raises(TokenRejected, match="signed"):
        check(TRUSTED["RS256"].token(NOW_S), NOW_MS)
    with pytest.raises(TokenRejected) as rejected:
        unsecured_validator({"unsecuredValidatorRequiredScope": "B C"})(unsecured, NOW_MS)
    assert (rejected.value.status, rejected.value.scope) == ("insufficient_scope", "[B, C]")


# ---- the exchange


def test_a_valid_token_completes_the_exchange() -> None:
    server = OAuthBearerServer(validate)
    assert server.evaluate(message(TRUSTED["RS256"].token(NOW_S), "n,a=olga,", "ext=1\x01"), NOW_MS) == b""
    assert server.identity == Identity("olga", NOW_MS + 60_000)


def test_a_refused_token_is_answered_and_then_fails() -> None:
    server = OAuthBearerServer(validate)
    assert server.evaluate(message(STRANGER.token(NOW_S)), NOW_MS) == b'{"status":"invalid_token"}'
    with pytest.raises(AuthenticationFailed) as failed:
        server.evaluate(b"\x01", NOW_MS)
    assert failed.value.shown == '{"status":"invalid_token"}'
    assert server.identity is None


def test_a_second_token_after_a_refused_one_fails() -> None:
    server = OAuthBearerServer(validate)
    server.evaluate(message(STRANGER.token(NOW_S)), NOW_MS)
    with pytest.raises(AuthenticationFailed):
        server.evaluate(message(TRUSTED["RS256"].token(NOW_S)), NOW_MS)


def test_another_authorization_id_than_the_subject_is_refused() -> None:
    with pytest.raises(AuthenticationFailed) as failed:
        OAuthBearerServer(validate).evaluate(message(TRUSTED["RS256"].token(NOW_S), "n,a=root,"), NOW_MS)
    assert failed.value.shown is not None
    assert "different from the token's principal name (olga)" in failed.value.shown


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\x01", b"n,,", b"n,,\x01\x01", b"n,,\x01auth=Bearer \x01\x01", b"n,,\x01auth=Basic abc\x01\x01",
        b"y,,\x01auth=Bearer abc\x01\x01", b"n,b=x,\x01auth=Bearer abc\x01\x01", b"n,,auth=Bearer abc\x01\x01",
        b"n,,\x01auth=Bearer abc\x01", b"n,,\x01auth=Bearer abc", b"n,,\x01auth=Bearer a\xffc\x01\x01",
        b"n,,\x011=2\x01auth=Bearer abc\x01\x01", b"n,,\x01auth=Bearer " + b"a" * 70_000 + b"\x01\x01",
    ],
    ids=lambda data: repr(data[:24]),
)  # fmt: skip
def test_a_message_that_is_none_is_refused(data: bytes) -> None:
    with pytest.raises(AuthenticationFailed) as failed:
        OAuthBearerServer(validate).evaluate(data, NOW_MS)
    assert failed.value.shown is None


# ---- keys of the issuer


@pytest.mark.parametrize(
    "document",
    [{}, [], {"keys": {}}, {"keys": None}, None, "keys"],
    ids=str,
)
def test_a_document_that_lists_no_keys_is_an_error(document: Any) -> None:
    with pytest.raises(ValueError, match="list of keys"):
        signing_keys(document)


def test_keys_that_sign_nothing_are_left_out() -> None:
    right = TRUSTED["RS256"].key_set()["keys"][0]
    odd = [
        None,
        1,
        {},
        {"kty": "oct", "k": "c2VjcmV0"},
        {"kty": "RSA"},
        {**right, "use": "enc"},
        {"kty": [], "kid": {}},
    ]
    assert [key.id for key in signing_keys({"keys": [*odd, right]})] == ["rsa"]


def times(refresh_s: float = 3600) -> FetchTimes:
    return FetchTimes(refresh_s, 0.02, 0.1)


def await_keys(found: Jwks, ids: list[str]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while [key.id for key in found.current()] != ids:
        assert time.monotonic() < deadline, ids
        time.sleep(0.01)


@pytest.mark.usefixtures("sockets")
def test_keys_are_fetched_again_when_a_token_names_an_unknown_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jwks, "LOOK_AGAIN_S", 0.1)
    with KeyServer(Issuer("old").key_set()) as server:
        found = Jwks(server.url, times())
        await_keys(found, ["old"])
        server.document = Issuer("new").key_set()
        for _ in range(100):
            found.look_for("new")
        await_keys(found, ["new"])
        assert server.requests <= 3
        found.stop()


@pytest.mark.usefixtures("sockets")
def test_keys_stay_when_they_cannot_be_fetched_and_are_refreshed_later() -> None:
    with KeyServer(Issuer("old").key_set()) as server:
        found = Jwks(server.url, times(0.05))
        await_keys(found, ["old"])
        server.document = b"{" + b" " * (MOST_BYTES + 1)
        seen = server.requests
        deadline = time.monotonic() + DEADLINE_S
        while server.requests < seen + 3:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert [key.id for key in found.current()] == ["old"]
        server.document = Issuer("new").key_set()
        await_keys(found, ["new"])
        found.stop()


def test_keys_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_text(json.dumps(Issuer("filed").key_set()))
    found = Jwks(file.as_uri(), times())
    assert [key.id for key in found.current()] == ["filed"]
    found.stop()


# ---- configuration

SIGNED = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
OAUTH = {"listeners": "SASL_PLAINTEXT://:0", "security.inter.broker.protocol": "SASL_PLAINTEXT"} | {
    "sasl.enabled.mechanisms": "OAUTHBEARER"
}
KEYS_URL = {"sasl.oauthbearer.jwks.endpoint.url": "file:///nowhere/keys.json"}


def fetching_threads() -> set[threading.Thread]:
    """Returns the threads that fetch keys. Other brokers of the process start other threads at any time."""
    return {thread for thread in threading.enumerate() if thread.name == "odradek-jwks"}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"sasl.server.callback.handler.class": SIGNED}, "jwks.endpoint.url is not set"),
        ({"sasl.server.callback.handler.class": "com.acme.Mine"}, "com.acme.Mine is not supported"),
        (KEYS_URL, "sasl.oauthbearer.expected.audience is not set"),
        ({**KEYS_URL, "sasl.oauthbearer.expected.audience": "kafka"}, "sasl.oauthbearer.expected.issuer is not set"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "gopher://x", "sasl.oauthbearer.allow.unverified.audience": "true"}
         | {"sasl.oauthbearer.allow.unverified.issuer": "true"}, "not a URL"),
    ],
)  # fmt: skip
def test_a_configuration_that_checks_too_little_is_refused(more: dict[str, str], words: str) -> None:
    listeners = SaslListeners(BrokerConfig(OAUTH | more), MetadataCache())
    before = fetching_threads()
    with pytest.raises(InvalidConfig, match=words):
        listeners.of("SASL_PLAINTEXT", "SASL_PLAINTEXT")
    assert fetching_threads() <= before
    listeners.stop()
