"""The state machine of a connection's authentication: the requests that each state accepts, and the outcome of failures."""

from __future__ import annotations

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.server.access.authentication.authentication import (
    API_VERSIONS,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    Authentication,
    Failure,
    State,
)
from odradek.server.access.authentication.mechanism import Mechanism
from odradek.server.access.authentication.plain import password_check, plain_mechanism

from tests.security.exchanges import ScramClient, plain, settings

METADATA = 3
NOW = 1_000_000
RIGHT = plain("alice", "alice-secret")


def after_handshake(mechanism: str = "PLAIN", version: int = 1, **limits: int) -> Authentication:
    authentication = Authentication(settings(**limits))
    authentication.admits(SASL_HANDSHAKE, NOW)
    authentication.handshake(mechanism, version, NOW)
    return authentication


def authenticated(**limits: int) -> Authentication:
    authentication = after_handshake(**limits)
    authentication.admits(SASL_AUTHENTICATE, NOW)
    authentication.authenticate(RIGHT, NOW)
    return authentication


def rejected(authentication: Authentication, api_key: int, now_ms: int = NOW) -> Failure:
    with pytest.raises(Failure) as failed:
        authentication.admits(api_key, now_ms)
    assert authentication.state is State.FAILED
    return failed.value


@pytest.mark.parametrize("api_key", [METADATA, SASL_AUTHENTICATE, 0, 1, 58, -1, 999])
def test_before_authentication_other_requests_end_the_connection_at_once(api_key: int) -> None:
    failure = rejected(Authentication(settings()), api_key)
    assert (failure.is_delayed, failure.error_code) == (False, None)


def test_api_versions_is_answered_once_unless_it_was_answered_with_an_error() -> None:
    authentication = Authentication(settings())
    for code in (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.INVALID_REQUEST, ErrorCode.NONE):
        authentication.admits(API_VERSIONS, NOW)
        authentication.api_versions_answered(code)
    assert not rejected(authentication, API_VERSIONS).is_delayed


def test_an_unknown_mechanism_is_refused_with_a_delay() -> None:
    authentication = Authentication(settings())
    with pytest.raises(Failure) as failed:
        authentication.handshake("plain", 1, NOW)
    assert (failed.value.error_code, failed.value.is_delayed) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, True)
    rejected(authentication, SASL_HANDSHAKE)


@pytest.mark.parametrize("api_key", [METADATA, API_VERSIONS, SASL_HANDSHAKE])
def test_after_the_handshake_other_requests_are_answered_with_an_error(api_key: int) -> None:
    failure = rejected(after_handshake(), api_key)
    assert (failure.error_code, failure.is_delayed) == (ErrorCode.ILLEGAL_SASL_STATE, True)


def test_a_right_password_completes_without_a_session() -> None:
    authentication = authenticated()
    assert authentication.state is State.COMPLETE
    assert authentication.identity is not None
    assert authentication.identity.name == "alice"
    authentication.admits(METADATA, NOW + 10**9)


def test_a_wrong_password_is_refused_with_the_words_of_the_mechanism() -> None:
    authentication = after_handshake()
    with pytest.raises(Failure) as failed:
        authentication.authenticate(plain("alice", "wrong"), NOW)
    assert failed.value.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert failed.value.shown == "Authentication failed: Invalid username or password"
    assert authentication.state is State.FAILED


def test_scram_failures_have_the_same_words_for_every_reason() -> None:
    shown = set()
    for user in ("bob", "nobody"):
        authentication, client = after_handshake("SCRAM-SHA-256"), ScramClient("sha256", user, "wrong")
        challenge = authentication.authenticate(client.first, NOW).token
        with pytest.raises(Failure) as failed:
            authentication.authenticate(client.final(challenge), NOW)
        shown.add(failed.value.shown)
    assert shown == {
        "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
    }


def test_after_a_handshake_of_version_0_tokens_come_bare_and_scram_fails_at_once() -> None:
    authentication = after_handshake("SCRAM-SHA-512", version=0)
    assert authentication.takes_bare_tokens
    with pytest.raises(Failure) as failed:
        authentication.authenticate(b"garbage", NOW)
    assert not failed.value.is_delayed
    with pytest.raises(Failure) as failed:
        after_handshake("PLAIN", version=0).authenticate(plain("alice", "wrong"), NOW)
    assert failed.value.is_delayed


@pytest.mark.parametrize("call", ["handshake", "authenticate"])
def test_sasl_after_the_authentication_changes_nothing(call: str) -> None:
    authentication = authenticated()
    with pytest.raises(Failure) as failed:
        authentication.handshake("PLAIN", 1, NOW) if call == "handshake" else authentication.authenticate(RIGHT, NOW)
    assert failed.value.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert authentication.state is State.COMPLETE


# ---- sessions (KIP-368)


def test_a_session_lasts_for_the_limit_of_its_mechanism() -> None:
    authentication = after_handshake(PLAIN=5000)
    assert authentication.authenticate(RIGHT, NOW).lifetime_ms == 5000
    authentication.admits(METADATA, NOW + 5000)
    assert not rejected(authentication, METADATA, NOW + 5001).is_delayed


def test_a_session_ends_with_its_token_if_that_is_sooner() -> None:
    client = ScramClient("sha256", "token-1", "hmac of the token", extensions=",tokenauth=true")
    authentication = after_handshake("SCRAM-SHA-256", SCRAM_SHA_256=30_000)
    challenge = authentication.authenticate(client.first, 40_000).token
    assert authentication.authenticate(client.final(challenge), 40_000).lifetime_ms == 10_000


def test_a_session_is_renewed_also_after_its_end() -> None:
    authentication = authenticated(PLAIN=5000)
    authentication.admits(SASL_HANDSHAKE, NOW + 9000)
    authentication.handshake("PLAIN", 1, NOW + 9000)
    assert rejection_free(authentication, SASL_AUTHENTICATE, NOW + 9000)
    assert authentication.authenticate(RIGHT, NOW + 9000).lifetime_ms == 5000
    authentication.admits(METADATA, NOW + 14_000)


def rejection_free(authentication: Authentication, api_key: int, now_ms: int) -> bool:
    authentication.admits(api_key, now_ms)
    return True


def test_a_session_is_renewed_once_a_second_at_most() -> None:
    authentication = authenticated(PLAIN=5000)
    authentication.handshake("PLAIN", 1, NOW + 100)
    authentication.authenticate(RIGHT, NOW + 100)
    with pytest.raises(Failure) as failed:
        authentication.handshake("PLAIN", 1, NOW + 1099)
    assert failed.value.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert authentication.state is State.COMPLETE
    authentication.handshake("PLAIN", 1, NOW + 1100)


def test_a_renewal_by_another_mechanism_ends_the_connection_at_its_next_frame() -> None:
    authentication = authenticated(PLAIN=5000)
    authentication.handshake("SCRAM-SHA-256", 1, NOW + 100)
    assert authentication.state is State.BAD_MECHANISM
    failure = rejected(authentication, SASL_AUTHENTICATE)
    assert (failure.error_code, failure.is_delayed) == (None, True)


def test_a_renewal_as_another_user_is_refused() -> None:
    authentication = Authentication(settings(PLAIN=5000)._replace(mechanisms=_two_users()))
    authentication.handshake("PLAIN", 1, NOW)
    authentication.authenticate(plain("alice", "a"), NOW)
    authentication.handshake("PLAIN", 1, NOW + 10)
    with pytest.raises(Failure) as failed:
        authentication.authenticate(plain("bob", "b"), NOW + 10)
    assert failed.value.shown == "Cannot change principals during re-authentication from User.alice: User.bob"
    assert failed.value.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def _two_users() -> dict[str, Mechanism]:
    return {"PLAIN": plain_mechanism(password_check({"alice": "a", "bob": "b"}))}


def test_a_failed_renewal_says_so() -> None:
    authentication = Authentication(settings(SCRAM_SHA_256=5000))
    client = ScramClient("sha256", "bob", "pencil")
    authentication.handshake("SCRAM-SHA-256", 1, NOW)
    authentication.authenticate(client.final(authentication.authenticate(client.first, NOW).token), NOW)
    authentication.handshake("SCRAM-SHA-256", 1, NOW + 10)
    with pytest.raises(Failure) as failed:
        authentication.authenticate(b"garbage", NOW + 10)
    assert failed.value.shown is not None
    assert failed.value.shown.startswith("Authentication failed during re-authentication due to invalid credentials")
