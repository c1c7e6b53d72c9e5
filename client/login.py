"""The login of this process on a connection that it has opened."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..metadata.credentials import BY_NAME
from ..protocol.errors import ErrorCode
from ..protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ..protocol.messages.sasl_handshake import SaslHandshakeRequest
from ..protocol.schema import Message, ResponseCallback
from .faults import Fault, Kind, PortSecurity, security_fault
from .sasl import AuthenticationFailed
from .shown_text import shown_reason

if TYPE_CHECKING:
    from ..protocol.messages.sasl_authenticate import SaslAuthenticateResponse
    from ..protocol.messages.sasl_handshake import SaslHandshakeResponse
    from .sasl import Login, SaslClient

#: Mechanisms of PasswordLogin.
PASSWORD_MECHANISMS = ("PLAIN", *BY_NAME)

#: The part of a session after which it is renewed. Kafka's clients draw one between 0.85 and 0.95.
RENEWED_AFTER = 0.85
#: SaslHandshake: tokens follow in SaslAuthenticate.
_HANDSHAKE_VERSION = SaslHandshakeRequest.newest_version()

#: Sends a request of a version, or of the highest that both sides have; the reply gets the response.
SendSasl = Callable[[Message, ResponseCallback, int | None], None]


def handshake_rejection(login: Login, response: SaslHandshakeResponse) -> Fault | None:
    """Returns why the node does not take the mechanism; None where it does."""
    if response.error_code == ErrorCode.NONE:
        return None
    if response.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        return security_fault(PortSecurity.NO_LOGIN)
    offered = ", ".join(name[:40] for name in response.mechanisms[:10])
    return Fault(Kind.LOGIN, f"it does not offer {login.mechanism}, but {shown_reason(offered)}")


def login_rejection(login: Login, response: SaslAuthenticateResponse) -> Fault | None:
    """Returns why the node rejects the login, in its own words; None where it does not."""
    if response.error_code == ErrorCode.NONE:
        return None
    words = shown_reason(response.error_message or ErrorCode(response.error_code).name)
    return Fault(Kind.LOGIN, f"it rejected the login of {login.username}: {words}")


class PeerLogin:
    """The login of one connection. `done` is called after each success, `failed` with the reason, `renew` when the session
    is to be renewed.

    A login is SaslHandshake, then SaslAuthenticate until it is done. A session with an end (KIP-368) is renewed
    before it: the owner of the connection is called in time.
    """

    def __init__(
        self,
        login: Login,
        host: str,
        send: SendSasl,
        done: Callable[[], None],
        failed: Callable[[Fault], None],
        renew: Callable[[], None],
    ) -> None:
        self._login = login
        self._host = host
        self._send = send
        self._done = done
        self._failed = failed
        self._renew = renew
        self._client: SaslClient
        self._timer: asyncio.TimerHandle | None = None
        self._lifetime_ms = 0
        self._is_stopped = False

    def begin(self) -> None:
        self._client = self._login.client(self._host)
        self._send(SaslHandshakeRequest(mechanism=self._login.mechanism), self._handshaken, _HANDSHAKE_VERSION)

    def stop(self) -> None:
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _handshaken(self, response: SaslHandshakeResponse | None) -> None:
        if response is None:
            self._fail("it does not support SaslHandshake")
            return
        if fault := handshake_rejection(self._login, response):
            self._failed(fault)
            return
        self._make_token(self._client.first)

    def _fail(self, words: str) -> None:
        self._failed(Fault(Kind.LOGIN, words))

    def _make_token(self, make: Callable[[], bytes | None]) -> None:
        """Makes the next token and sends it; on a thread where making it may wait."""
        if not self._login.may_wait:
            self._send_token(make)
            return
        made = asyncio.get_running_loop().run_in_executor(None, make)
        made.add_done_callback(self._was_made)

    def _was_made(self, token_made: asyncio.Future[bytes | None]) -> None:
        if not self._is_stopped and not token_made.cancelled():
            self._send_token(token_made.result)

    def _send_token(self, make_token: Callable[[], bytes | None]) -> None:
        try:
            token = make_token()
        except AuthenticationFailed as failed:
            self._fail(failed.reason)
            return
        if token is not None:
            self._send(SaslAuthenticateRequest(auth_bytes=token), self._answered, None)
            return
        if self._lifetime_ms > 0:
            after_s = self._lifetime_ms / 1000 * RENEWED_AFTER
            self._timer = asyncio.get_running_loop().call_later(after_s, self._renew)
        self._done()

    def _answered(self, response: SaslAuthenticateResponse | None) -> None:
        if response is None:
            self._fail("it does not support SaslAuthenticate")
            return
        if fault := login_rejection(self._login, response):
            self._failed(fault)
            return
        self._lifetime_ms = response.session_lifetime_ms
        challenge = bytes(response.auth_bytes)
        self._make_token(lambda: self._client.respond(challenge))
