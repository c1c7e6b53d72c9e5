"""Requests of this node to the active controller, whichever node that is.

A client's request is forwarded in an Envelope (KIP-590): unchanged, with the client's principal and address. So the
controller decides as if the client had sent it directly. Brokers' own requests are sent without an Envelope. Both are
sent again, to the current controller, when the controller moved, died or is unknown. This ends with the request's timeout,
which is then the client's error.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Unpack

from ...protocol.apis import APIS
from ...protocol.errors import ErrorCode
from ...protocol.messages.envelope import EnvelopeResponse
from ...protocol.schema import Message, Request, ResponseCallback
from ...replication.controller.controller import error_response
from ...replication.controller.result import RequestError
from .envelopes import Forwarded, enveloped, unwrapped

if TYPE_CHECKING:
    from ...client.peers import Peers
    from ..runtime.clock import Clock
    from ..runtime.lazy import Lazy
    from .controller_request import ClientFields
    from .driver import QuorumDriver

#: request.timeout.ms of Kafka's clients: no client waits for longer.
FORWARDING_TIMEOUT_MS = 30_000
#: Between two tries, and while no controller is known.
RETRY_BACKOFF_MS = 50
#: Requests that wait for a controller; further ones fail as if their time were over.
MAX_WAITING = 10_000
_PURPOSE = "forwarding"


class Forwarding:
    """Sends requests to the active controller: again, as long as it makes sense, or once."""

    def __init__(self, controller: QuorumDriver, peers: Lazy[Peers], clock: Clock) -> None:
        self._controller = controller
        self._peers = peers
        self._clock = clock
        self._waiting = 0
        self._is_closed = False

    def submit(
        self,
        request: Request,
        version: int,
        reply: ResponseCallback,
        **client: Unpack[ClientFields],
    ) -> None:
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
        self._try(Forwarded(request, version, reply, client, deadline_ms, enveloped))

    def send_to_controller(
        self,
        request: Request,
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

    # Attempts.

    def _try(self, forwarded: Forwarded) -> None:
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

    def _try_later(self, forwarded: Forwarded) -> None:
        self._clock.call_at(self._clock.now_ms() + RETRY_BACKOFF_MS, lambda: self._try(forwarded))

    def _answered(self, forwarded: Forwarded, response: Message | None) -> None:
        if isinstance(response, EnvelopeResponse):
            response = unwrapped(forwarded, response)
        if response is None or is_not_controller(forwarded.request, forwarded.version, response):
            self._try_later(forwarded)
        else:
            self._done(forwarded, response)

    def _done(self, forwarded: Forwarded, response: Message) -> None:
        self._waiting -= 1
        forwarded.reply(response)


def is_not_controller(request: Request, version: int, response: Message) -> bool:
    """Returns True if nothing was decided because the receiver is not the active controller."""
    if getattr(response, "error_code", None) == ErrorCode.NOT_CONTROLLER:
        return True
    rejected = error_response(request, version, RequestError(ErrorCode.NOT_CONTROLLER))
    # A request that names nothing has an empty response, whatever the error.
    return response == rejected and rejected != error_response(
        request, version, RequestError(ErrorCode.REQUEST_TIMED_OUT)
    )
