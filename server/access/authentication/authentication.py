"""The authentication of one connection: a state machine without sockets, as Kafka's SaslServerAuthenticator.

A session ends `connections.max.reauth.ms` after the authentication, or with the credential if that is sooner; from then
on every request but a SaslHandshake ends the connection.

```
INITIAL        ApiVersions (answered with an error: stays), SaslHandshake
HANDSHAKE      SaslHandshake: ApiVersions was answered
AUTHENTICATE   SaslAuthenticate after SaslHandshake v1; bare tokens after v0
COMPLETE       everything; SaslHandshake begins a re-authentication if the session has an end (KIP-368)
REAUTHENTICATE SaslAuthenticate, as in AUTHENTICATE
BAD_MECHANISM  nothing: the re-authentication named another mechanism, and the next frame ends the connection
FAILED         nothing
```

The owner asks `admits` before it takes a request, calls the method of that request, and ends the connection on a
`Failure`: at once, or, if `is_delayed`, after `connection.failed.authentication.delay.ms` and with its response.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import NamedTuple

from ....client.sasl import AuthenticationFailed
from ....protocol.errors import ErrorCode
from .mechanism import Identity, Mechanism, SaslServer

API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE = 18, 17, 36
#: A connection is not authenticated again more often.
MIN_REAUTHENTICATION_MS = 1000


class State(Enum):
    INITIAL = auto()
    HANDSHAKE = auto()
    AUTHENTICATE = auto()
    COMPLETE = auto()
    REAUTHENTICATE = auto()
    BAD_MECHANISM = auto()
    FAILED = auto()


class Settings(NamedTuple):
    """The mechanisms of a listener. `mechanisms` are in the order of `sasl.enabled.mechanisms`."""

    mechanisms: Mapping[str, Mechanism]
    #: connections.max.reauth.ms of each mechanism; 0 is no limit.
    max_reauth_ms: Mapping[str, int]


class Failure(Exception):
    """The connection ends. The words are for the log and have no secret.

    `error_code`: what the client gets; None if it gets nothing. `shown`: the error message of SaslAuthenticate.
    """

    def __init__(
        self, words: str, *, error_code: ErrorCode | None = None, shown: str | None = None, is_delayed: bool = True
    ) -> None:
        super().__init__(words)
        self.words = words
        self.error_code = error_code
        self.shown = shown
        self.is_delayed = is_delayed


class Authenticated(NamedTuple):
    """The response to a token. `lifetime_ms` is 0 while the exchange goes on, and for a session without an end."""

    token: bytes
    lifetime_ms: int


class Authentication:
    """One connection's authentication. Times are milliseconds since 1970."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.state = State.INITIAL
        #: The client; None before the first authentication is complete.
        self.identity: Identity | None = None
        #: The mechanism that authenticated it, or that the handshake has named.
        self.mechanism = ""
        self.session_ends_ms: int | None = None
        #: Whether tokens come bare: the handshake was of version 0.
        self.takes_bare_tokens = False
        self._server: SaslServer | None = None
        self._reauthentication_began_ms: int | None = None

    @property
    def is_again(self) -> bool:
        return self.identity is not None

    def admits(self, api_key: int, now_ms: int) -> None:
        """Raises Failure unless a request of this API may be taken now."""
        match self.state:
            case State.INITIAL:
                allowed = api_key in (API_VERSIONS, SASL_HANDSHAKE)
            case State.HANDSHAKE:
                allowed = api_key == SASL_HANDSHAKE
            case State.AUTHENTICATE | State.REAUTHENTICATE:
                if api_key != SASL_AUTHENTICATE:
                    words = f"a request with API key {api_key} instead of SaslAuthenticate"
                    raise self._failure(words, error_code=ErrorCode.ILLEGAL_SASL_STATE)
                return
            case State.COMPLETE:
                if self._is_over(now_ms) and api_key != SASL_HANDSHAKE:
                    raise self._failure(
                        "its SASL session has expired, and it sent a request without re-authentication",
                        is_delayed=False,
                    )
                return
            case State.BAD_MECHANISM:
                raise self._failure(
                    f"it authenticated with {self.mechanism}, and re-authenticates with another mechanism"
                )
            case _:
                allowed = False
        if not allowed:
            raise self._failure(f"a request with API key {api_key} before its authentication", is_delayed=False)

    def _is_over(self, now_ms: int) -> bool:
        return self.session_ends_ms is not None and now_ms > self.session_ends_ms

    def api_versions_answered(self, error_code: int) -> None:
        """ApiVersions was answered with that error."""
        if self.state is State.INITIAL and error_code == ErrorCode.NONE:
            self.state = State.HANDSHAKE

    def handshake(self, mechanism: str, version: int, now_ms: int) -> None:
        """The client names its mechanism. Raises Failure.

        A connection that is complete and has no session to renew, or that renewed it less than a second ago, is not
        changed: Failure with ILLEGAL_SASL_STATE, after which the connection goes on (`state` is COMPLETE).
        """
        if self.state is State.COMPLETE:
            self._begin_again(now_ms)
        known = mechanism in self.settings.mechanisms
        if not known:
            words = f"it names a SASL mechanism that is not enabled on this listener: {mechanism[:100]!r}"
            raise self._failure(words, error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM)
        if self.is_again and mechanism != self.mechanism:
            self.state = State.BAD_MECHANISM
            return
        self.mechanism = mechanism
        self.takes_bare_tokens = version == 0
        self._server = self.settings.mechanisms[mechanism]()
        self.state = State.REAUTHENTICATE if self.is_again else State.AUTHENTICATE

    def _begin_again(self, now_ms: int) -> None:
        began = self._reauthentication_began_ms
        if self.session_ends_ms is None or (began is not None and 0 <= now_ms - began < MIN_REAUTHENTICATION_MS):
            raise Failure("SaslHandshake after the authentication", error_code=ErrorCode.ILLEGAL_SASL_STATE)
        self._reauthentication_began_ms = now_ms

    def authenticate(self, token: bytes, now_ms: int) -> Authenticated:
        """One token of the client, bare or in SaslAuthenticate. Raises Failure.

        A connection that is complete is not changed: Failure with ILLEGAL_SASL_STATE, after which it goes on.
        """
        server = self._server
        if server is None or self.state not in (State.AUTHENTICATE, State.REAUTHENTICATE):
            shown = "SaslAuthenticate request received after successful authentication"
            raise Failure("SaslAuthenticate", error_code=ErrorCode.ILLEGAL_SASL_STATE, shown=shown)
        try:
            response = server.evaluate(token, now_ms)
        except AuthenticationFailed as failed:
            shown = failed.shown if failed.shown is not None else self._general_words()
            is_delayed = failed.shown is not None or not self.takes_bare_tokens
            raise self._failed_token(failed.reason, shown, is_delayed) from None
        if server.identity is None:
            return Authenticated(response, 0)
        return Authenticated(response, self._complete(server.identity, now_ms))

    def _general_words(self) -> str:
        again = "re-authentication" if self.is_again else "authentication"
        return f"Authentication failed during {again} due to invalid credentials with SASL mechanism {self.mechanism}"

    def _complete(self, identity: Identity, now_ms: int) -> int:
        before = self.identity
        if before is not None and before.name != identity.name:
            shown = f"Cannot change principals during re-authentication from User.{before.name}: User.{identity.name}"
            raise self._failed_token("it re-authenticates as another user", shown, True)
        self.identity, self._server, self.state = identity, None, State.COMPLETE
        limits = [identity.expires_ms - now_ms] if identity.expires_ms is not None else []
        if self.settings.max_reauth_ms.get(self.mechanism, 0) > 0:
            limits.append(self.settings.max_reauth_ms[self.mechanism])
        lifetime_ms = max(0, min(limits)) if limits else 0
        self.session_ends_ms = now_ms + lifetime_ms if limits else None
        return lifetime_ms

    def failed(self, words: str) -> Failure:
        """Returns the failure of a client whose token is right, but who gets no principal."""
        return self._failed_token(words, self._general_words(), True)

    def _failed_token(self, words: str, shown: str, is_delayed: bool) -> Failure:
        return self._failure(words, error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, shown=shown, is_delayed=is_delayed)

    def _failure(
        self,
        words: str,
        *,
        error_code: ErrorCode | None = None,
        shown: str | None = None,
        is_delayed: bool = True,
    ) -> Failure:
        self.state, self._server = State.FAILED, None
        return Failure(words, error_code=error_code, shown=shown, is_delayed=is_delayed)
