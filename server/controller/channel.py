"""Requests of this node to the active controller, whichever node that is.

A client's request is forwarded in an Envelope (KIP-590): unchanged, with the client's principal and address. So the
controller decides as if the client had sent it directly. Brokers' own requests are sent without an Envelope. Both are
sent again, to the current controller, when the controller moved, died or is unknown. This ends with the request's timeout,
which is then the client's error.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Unpack

from ...protocol.apis import APIS, RequestHeader, ResponseHeader
from ...protocol.codec import MalformedMessage, decode, encode
from ...protocol.errors import ErrorCode
from ...protocol.messages.nodes import DefaultPrincipalData, EnvelopeRequest, EnvelopeResponse
from ...protocol.schema import Message, ResponseCallback
from ...replication.controller.controller import error_response
from ...replication.controller.result import RequestError
from ..network.sockets import encoded_client_host

if TYPE_CHECKING:
    from ...client.peers import Peers
    from ..runtime.clock import Clock
    from ..runtime.subsystem import Lazy
    from .commits import ClientFields
    from .driver import QuorumDriver

#: Has the active controller decide a request of this version. The reply is called once, now or later.
Submit = Callable[[Message, int, ResponseCallback], object]

#: request.timeout.ms of Kafka's clients: no client waits for longer.
FORWARDING_TIMEOUT_MS = 30_000
#: Between two tries, and while no controller is known.
RETRY_BACKOFF_MS = 50
#: Requests that wait for a controller; further ones fail as if their time were over.
MAX_WAITING = 10_000
_PURPOSE = "forwarding"
_CLIENT_ID = "odradek"
_PRINCIPAL_VERSION = 0


class _Forwarded:
    """A request until its reply was called."""

    __slots__ = ("client", "deadline_ms", "enveloped", "reply", "request", "version")

    def __init__(
        self,
        request: Message,
        version: int,
        reply: ResponseCallback,
        client: ClientFields,
        deadline_ms: int,
        enveloped: bool,
    ) -> None:
        self.request = request
        self.version = version
        self.reply = reply
        self.client = client
        self.deadline_ms = deadline_ms
        self.enveloped = enveloped


class Forwarding:
    """Sends requests to the active controller: again, as long as it makes sense, or once."""

    def __init__(self, controller: QuorumDriver, peers: Lazy[Peers], clock: Clock) -> None:
        self._controller = controller
        self._peers = peers
        self._clock = clock
        self._waiting = 0
        self._is_closed = False

    def submit(self, request: Message, version: int, reply: ResponseCallback, **client: Unpack[ClientFields]) -> None:
        """Has the active controller decide the request. Calls `reply` once, with the response or an error response."""
        key = request.SCHEMA.key
        assert key is not None, f"{type(request).__name__} never leaves the controller"
        if self._waiting >= MAX_WAITING or self._is_closed:
            reply(error_response(request, version, RequestError(ErrorCode.REQUEST_TIMED_OUT)))
            return
        self._waiting += 1
        deadline_ms = self._clock.now_ms() + FORWARDING_TIMEOUT_MS
        # Requests of this broker go as its own: the controller authorizes the broker, not a client.
        enveloped = bool(client) and "broker" in APIS[key].listeners
        self._try(_Forwarded(request, version, reply, client, deadline_ms, enveloped))

    def send_to_controller(
        self,
        request: Message,
        reply: ResponseCallback,
        *,
        timeout_ms: int,
        version: int | None = None,
        purpose: str = "controller",
    ) -> None:
        """Sends a request of this broker to the active controller, once; `reply` gets None if that failed. Callers retry."""
        controller = self._controller
        key = request.SCHEMA.key
        assert key is not None
        if controller.is_active:
            controller.decide(request, APIS[key].latest_stable_version if version is None else version, reply)
        elif controller.leader_endpoint is None:
            asyncio.get_running_loop().call_soon(reply, None)
        else:
            self._peers().send(
                controller.leader_endpoint, request, reply, timeout_ms=timeout_ms, version=version, purpose=purpose
            )

    def close(self) -> None:
        """Stops sending requests; those that wait fail at their next attempt."""
        self._is_closed = True

    # ---- attempts

    def _try(self, forwarded: _Forwarded) -> None:
        controller = self._controller
        left_ms = forwarded.deadline_ms - self._clock.now_ms()
        if left_ms <= 0 or self._is_closed:
            self._done(
                forwarded,
                error_response(forwarded.request, forwarded.version, RequestError(ErrorCode.REQUEST_TIMED_OUT)),
            )
        elif controller.is_active:
            controller.decide(
                forwarded.request,
                forwarded.version,
                lambda response: self._answered(forwarded, response),
                **forwarded.client,
            )
        elif controller.leader_endpoint is None:
            self._try_later(forwarded)
        else:
            request, version = (
                (enveloped(forwarded), 0) if forwarded.enveloped else (forwarded.request, forwarded.version)
            )
            self._peers().send(
                controller.leader_endpoint,
                request,
                lambda response: self._answered(forwarded, response),
                timeout_ms=left_ms,
                version=version,
                purpose=_PURPOSE,
            )

    def _try_later(self, forwarded: _Forwarded) -> None:
        self._clock.call_at(self._clock.now_ms() + RETRY_BACKOFF_MS, lambda: self._try(forwarded))

    def _answered(self, forwarded: _Forwarded, response: Message | None) -> None:
        if isinstance(response, EnvelopeResponse):
            response = unwrapped(forwarded, response)
        if response is None or is_not_controller(forwarded.request, forwarded.version, response):
            self._try_later(forwarded)
        else:
            self._done(forwarded, response)

    def _done(self, forwarded: _Forwarded, response: Message) -> None:
        self._waiting -= 1
        forwarded.reply(response)


def is_not_controller(request: Message, version: int, response: Message) -> bool:
    """Returns True if nothing was decided because the receiver is not the active controller."""
    if getattr(response, "error_code", None) == ErrorCode.NOT_CONTROLLER:
        return True
    rejected = error_response(request, version, RequestError(ErrorCode.NOT_CONTROLLER))
    # A request that names nothing has an empty response, whatever the error.
    return response == rejected and rejected != error_response(
        request, version, RequestError(ErrorCode.REQUEST_TIMED_OUT)
    )


# ---- envelopes


def enveloped(forwarded: _Forwarded) -> EnvelopeRequest:
    key = forwarded.request.SCHEMA.key
    assert key is not None
    header = RequestHeader(
        request_api_key=key,
        request_api_version=forwarded.version,
        correlation_id=0,
        client_id=forwarded.client.get("client_id", _CLIENT_ID),
    )
    head = encode(header, APIS[key].request_header_version(forwarded.version))
    return EnvelopeRequest(
        request_data=head + encode(forwarded.request, forwarded.version),
        request_principal=encoded_principal(
            forwarded.client.get("principal"), is_token=forwarded.client.get("is_token_authenticated", False)
        ),
        client_host_address=encoded_client_host(forwarded.client.get("client_host")),
    )


def encoded_principal(principal: str | None, *, is_token: bool = False) -> bytes:
    """Encodes `User:name` as Kafka's DefaultKafkaPrincipalBuilder does."""
    kind, _, name = (principal or "User:ANONYMOUS").partition(":")
    data = DefaultPrincipalData(type=kind, name=name, token_authenticated=is_token)
    return struct.pack(">h", _PRINCIPAL_VERSION) + encode(data, _PRINCIPAL_VERSION)


def decoded_principal(data: bytes | None) -> tuple[str, bool]:
    """Returns the principal, and whether it has logged in with a delegation token. Raises MalformedMessage."""
    if data is None:
        return "User:ANONYMOUS", False
    if len(data) < 2 or struct.unpack_from(">h", data)[0] != _PRINCIPAL_VERSION:
        raise MalformedMessage("a principal of an unknown version")
    principal, _ = decode(DefaultPrincipalData, _PRINCIPAL_VERSION, data, 2)
    return f"{principal.type}:{principal.name}", principal.token_authenticated


def unwrapped(forwarded: _Forwarded, response: EnvelopeResponse) -> Message | None:
    """Returns the response in the envelope; None when the request has to be sent again."""
    if response.error_code == ErrorCode.NOT_CONTROLLER:
        return None
    validation_error = error_response(
        forwarded.request, forwarded.version, RequestError(ErrorCode.UNKNOWN_SERVER_ERROR)
    )
    if response.error_code != ErrorCode.NONE or response.response_data is None:
        return validation_error
    key = forwarded.request.SCHEMA.key
    assert key is not None
    api, version = APIS[key], forwarded.version
    try:
        _, pos = decode(ResponseHeader, api.response_header_version(version), response.response_data)
        return decode(api.response, version, response.response_data, pos)[0]
    except MalformedMessage:
        return validation_error
