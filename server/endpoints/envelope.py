"""Envelope: a client's request that a broker forwards (KIP-590).

The controller decides as if the client had sent it the request. When it is not active, it returns NOT_CONTROLLER, and the
broker asks another. A request that cannot be read or forwarded is INVALID_REQUEST.

Contract: `protocol/messages/envelope.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, cast

from ...protocol.apis import APIS, Api
from ...protocol.codec import DECODE_FAULTS, decode, encode, stepwise_encoder
from ...protocol.error_responses import error_response_to
from ...protocol.errors import ErrorCode
from ...protocol.headers import RequestHeader, ResponseHeader
from ...protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ...protocol.schema import Message, Request
from ..access.authorization.usual_requirements import OF_NODES
from ..controller.envelopes import decoded_principal
from ..controller.forwarding import is_not_controller
from ..network.addresses import decoded_client_host
from ..network.api_endpoint import ApiEndpoint
from ..network.call import Call
from ..network.dispatch import MAX_HEADER_BYTES
from ..network.large_requests import decoded
from ..network.listener_kind import BROKER
from ..network.portioned_call import in_portions
from ..network.relay import Relay
from ..network.response_fields import set_throttle_time
from ..network.response_size import arrays_of
from ..network.sliced_responses import released
from ..network.work_in_turns import work_in_turns
from ..runtime.sliced_work import Steps
from ..services import NodeServices

log = logging.getLogger("odradek.quorum")

_KEY_BYTES = 4


def handle(services: NodeServices, call: Call[EnvelopeRequest]) -> EnvelopeResponse | None:
    if not services.controller.driver.is_active:
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    _find(services, call)
    return None


def _find(services: NodeServices, call: Call[EnvelopeRequest]) -> None:
    """Opens the envelope when the endpoint of the request in it is imported."""
    request = call.request
    api = APIS.get(int.from_bytes(request.request_data[:2], "big"))
    if api is None or api not in services.network.endpoints or "broker" not in api.listeners:
        call.reply(EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST))
        return

    def open_it() -> None:
        endpoint = services.network.endpoints.load(api)
        work_in_turns(call, _opened(request, api, endpoint), partial(_handle, services, call))

    if services.network.endpoints.is_loaded(api):
        open_it()
    else:
        call.hold_connection()
        services.network.endpoints.when_loaded(api, open_it)


class _Opened(NamedTuple):
    """The request in an envelope, with the client that sent it."""

    api: Api
    endpoint: ApiEndpoint
    header: RequestHeader
    request: Request
    principal: str
    client_host: str
    is_token_authenticated: bool


def _handle(services: NodeServices, call: Call[EnvelopeRequest], opened: _Opened | None) -> None:
    if opened is None:
        call.reply(EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST))
        return
    api, endpoint, header = opened.api, opened.endpoint, opened.header
    is_elsewhere: list[bool] = []

    def respond(response: Message) -> None:
        steps = _enveloped(api, header, response, is_elsewhere=is_elsewhere == [True])
        work_in_turns(call, steps, call.reply)

    def decide(part: Call) -> None:
        def decided(response: Message) -> None:
            if not is_elsewhere:  # in portions, the first one: created topics are not requested again
                is_elsewhere.append(is_not_controller(part.request, part.version, response))
            part.reply_forwarded(response)

        services.controller.driver.decide(
            part.request,
            part.version,
            decided,
            principal=part.principal,
            client_host=part.client_host,
            client_id=part.client_id,
            is_token_authenticated=part.is_token_authenticated,
        )

    enveloped = _enveloped_call(call, opened, respond)
    if opened.is_token_authenticated and endpoint.rejects_token_clients:
        # Their broker has refused them already, unless it is not one of ours.
        error = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        enveloped.reply(error_response_to(opened.request, enveloped.version, error))
    elif not endpoint.place.is_controller:
        response = services.network.dispatchers[BROKER].handler(api)(enveloped)
        if response is not None:
            enveloped.reply(response)
    elif endpoint.portionings:
        in_portions(endpoint, decide)(enveloped)
    else:
        decide(enveloped)


def _opened(request: EnvelopeRequest, api: Api, endpoint: ApiEndpoint) -> Steps[_Opened | None]:
    data = request.request_data
    try:
        if len(data) < _KEY_BYTES:
            return None
        version = int.from_bytes(data[2:4], "big")
        if version not in api.versions or not endpoint.place.is_enveloped:
            return None
        header, pos = decode(RequestHeader, api.request_header_version(version), data[:MAX_HEADER_BYTES])
        inner, _, _ = yield from decoded(api, version, data, pos, endpoint.item_limit)
        principal, is_token = decoded_principal(request.request_principal)
        client_host = decoded_client_host(request.client_host_address)
    except DECODE_FAULTS:
        return None
    return _Opened(api, endpoint, header, inner, principal, client_host, is_token)


def _enveloped_call(envelope: Call, opened: _Opened, respond: Callable[[Message], None]) -> Call:
    """Returns the call of the client whose request came in an Envelope. `respond` gets its response."""
    header = opened.header
    # The route of the envelope: its own would compile codecs that no request uses.
    call = Call(envelope.connection, envelope.route, header.correlation_id, header.client_id, opened.request)
    call.api, call.version, call.client = opened.api, header.request_api_version, opened
    call.observer = _EnvelopedResponse(envelope, respond)
    call.is_parked = True  # the envelope waits on the connection, not what is in it
    return call


class _EnvelopedResponse(Relay):
    """The response to a request in an Envelope, which goes to the broker that forwarded it."""

    __slots__ = ("_respond",)

    may_reply_in_slices = False

    def __init__(self, envelope: Call, respond: Callable[[Message], None]) -> None:
        super().__init__(envelope)
        self._respond = respond

    def taken(self, call: Call, response: Message | None) -> None:
        if response is None:
            return
        if call.throttle_time_ms:  # for the client; the broker that forwarded the request mutes its connection
            set_throttle_time(response, call.throttle_time_ms)
        self._respond(response)

    def failing(self, call: Call) -> bool:
        response: Any = call.api.response()
        if not hasattr(response, "error_code"):
            return super().failing(call)
        call.has_failed = True
        response.error_code = int(ErrorCode.UNKNOWN_SERVER_ERROR)
        self._respond(response)
        return False


def _enveloped(api: Api, header: RequestHeader, response: Message, *, is_elsewhere: bool) -> Steps[EnvelopeResponse]:
    if is_elsewhere or getattr(response, "error_code", None) == ErrorCode.NOT_CONTROLLER:
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    version = header.request_api_version
    # One buffer that grows in place: to join a million pieces takes more than a tenth of a second.
    data = bytearray(encode(ResponseHeader(correlation_id=header.correlation_id), api.response_header_version(version)))
    yield from stepwise_encoder(type(response), version)(response, data.extend)
    for name, inner in arrays_of(type(response)):
        yield from released(response, (name, *inner[:1]))
    return EnvelopeResponse(response_data=cast(bytes, data))


ENDPOINT: ApiEndpoint[EnvelopeRequest, EnvelopeResponse] = ApiEndpoint(handle=handle, authorization=(OF_NODES,))
