"""Envelope (key 58): a client's request that a broker hands on (KIP-590), version 0.

The controller decides as if the client had sent it the request. When it is not active, it returns NOT_CONTROLLER, and the
broker asks another. A request that cannot be read or forwarded is INVALID_REQUEST.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Any, NamedTuple, cast

from ...metadata.acls import Operation
from ...protocol.apis import APIS, Api
from ...protocol.codec import MalformedMessage, decode, encode, stepwise_encoder
from ...protocol.errors import ErrorCode
from ...protocol.internal.headers import RequestHeader, ResponseHeader
from ...protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ...protocol.schema import Message
from ...replication.controller.controller import DECISIONS, error_response
from ...replication.controller.result import RequestError
from ..api.authorization import denies_on_cluster
from ..api.quorum_queries import QUESTIONS, EnvelopedCall
from ..cluster.controller_channel import decoded_principal, is_not_controller
from ..network.answer_size import arrays_of
from ..network.call import BROKER, Call
from ..network.dispatch import MAX_HEADER_BYTES
from ..network.large_requests import decoded, in_portions, released, work_in_turns
from ..network.request_limits import PORTIONINGS
from ..network.sockets.addresses import decoded_client_host
from ..runtime.sliced_work import Steps
from ..services import NodeServices

log = logging.getLogger("odradek.quorum")

_KEY_BYTES = 4
#: Clients with a token may not ask for them. Their broker has refused them already, unless it is not one of ours.
_OF_TOKENS = frozenset({"CreateDelegationToken", "ExpireDelegationToken", "RenewDelegationToken"})


def handle(services: NodeServices, call: Call) -> EnvelopeResponse | None:
    if denies_on_cluster(services, call, Operation.CLUSTER_ACTION):
        return EnvelopeResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if not services.controller.is_active:
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    work_in_turns(call, _opened(call.request), partial(_handle, services, call))
    return None


class _Opened(NamedTuple):
    """The request in an envelope, with the client that sent it."""

    api: Api
    header: RequestHeader
    request: Any
    principal: str
    client_host: str
    is_token_authenticated: bool


def _handle(services: NodeServices, call: Call, opened: _Opened | None) -> None:
    if opened is None:
        call.reply(EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST))
        return
    api, header = opened.api, opened.header
    is_elsewhere: list[bool] = []

    def answer(response: Message) -> None:
        steps = _enveloped(api, header, response, is_elsewhere=is_elsewhere == [True])
        work_in_turns(call, steps, call.reply)

    def decide(part: Call) -> None:
        def decided(response: Message) -> None:
            if not is_elsewhere:  # in portions, the first one: created topics are not requested again
                is_elsewhere.append(is_not_controller(part.request, response))
            part.reply_forwarded(response)

        services.controller.decide(
            part.request,
            part.version,
            decided,
            principal=part.principal,
            client_host=part.client_host,
            client_id=part.client_id,
            is_token_authenticated=part.is_token_authenticated,
        )

    enveloped = EnvelopedCall(
        call,
        api,
        header,
        opened.request,
        answer,
        principal=opened.principal,
        client_host=opened.client_host,
        is_token_authenticated=opened.is_token_authenticated,
    )
    if opened.is_token_authenticated and api.name in _OF_TOKENS:
        enveloped.reply(error_response(opened.request, RequestError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)))
    elif api.name in QUESTIONS:
        enveloped.handle(services.dispatchers[BROKER].handler(api))
    elif api.name in PORTIONINGS:
        in_portions(api.name, decide)(enveloped)
    else:
        decide(enveloped)


def _opened(request: EnvelopeRequest) -> Steps[_Opened | None]:
    data = request.request_data
    try:
        if len(data) < _KEY_BYTES:
            return None
        key, version = int.from_bytes(data[:2], "big"), int.from_bytes(data[2:4], "big")
        api = APIS.get(key)
        if api is None or version not in api.versions or "broker" not in api.listeners or not _is_handed_on(api):
            return None
        header, pos = decode(RequestHeader, api.request_header_version(version), data[:MAX_HEADER_BYTES])
        inner = yield from decoded(api, version, data, pos)
        principal, is_token = decoded_principal(request.request_principal)
        client_host = decoded_client_host(request.client_host_address)
    except (MalformedMessage, ValueError):
        return None
    return _Opened(api, header, inner, principal, client_host, is_token)


def _is_handed_on(api: Api) -> bool:
    return api.name in DECISIONS or api.name in QUESTIONS


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
