"""Envelope (key 58): a client's request that a broker hands on (KIP-590), version 0.

Decided as if the client had asked this controller itself. When it is not the active one, the envelope says so, and the
broker asks another. What a broker does not hand on is refused: INVALID_REQUEST for what cannot be read or forwarded.
"""

from __future__ import annotations

import logging

from ...protocol.apis import APIS, Api
from ...protocol.codec import MalformedMessage, decode, encode
from ...protocol.errors import ErrorCode
from ...protocol.internal.headers import RequestHeader, ResponseHeader
from ...protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ...protocol.schema import Message
from ...replication.controller.controller import DECISIONS
from ..dispatch import Call
from ..forwarding import decoded_principal, is_not_controller
from ..quorum_questions import QUESTIONS, EnvelopedCall

log = logging.getLogger("odradek.quorum")

_KEY_BYTES = 4


def handle(call: Call) -> EnvelopeResponse | None:
    request: EnvelopeRequest = call.request
    if not call.broker.controller.is_active:
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    try:
        api, header, inner = _opened(request.request_data)
        decoded_principal(request.request_principal)  # must be one; who may do what is not asked yet
    except MalformedMessage:
        return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)

    def answer(response: Message) -> None:
        try:
            enveloped = _enveloped(api, header, inner, response)
        except Exception:
            # Whoever calls this has no part in it: a commit, or another node's answer.
            log.exception("a bug: the answer to %s in an Envelope cannot be encoded", api.name)
            enveloped = EnvelopeResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
        call.reply(enveloped)

    if api.name in QUESTIONS:
        EnvelopedCall(call, api, header, inner, answer).handle()
    else:
        call.broker.controller.decide(inner, header.request_api_version, answer)
    return None


def _opened(data: bytes) -> tuple[Api, RequestHeader, Message]:
    """Raises MalformedMessage, for what is no request that may be handed on, too."""
    if len(data) < _KEY_BYTES:
        raise MalformedMessage("no request header")
    key, version = int.from_bytes(data[:2], "big"), int.from_bytes(data[2:4], "big")
    api = APIS.get(key)
    if api is None or version not in api.versions or "broker" not in api.listeners or not _is_handed_on(api):
        raise MalformedMessage(f"API {key} of version {version} is not handed on")
    header, pos = decode(RequestHeader, api.request_header_version(version), data)
    inner, _ = decode(api.request, version, data, pos)
    return api, header, inner


def _is_handed_on(api: Api) -> bool:
    return api.name in DECISIONS or api.name in QUESTIONS


def _enveloped(api: Api, header: RequestHeader, inner: Message, response: Message) -> EnvelopeResponse:
    if is_not_controller(inner, response):
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    version = header.request_api_version
    head = encode(ResponseHeader(correlation_id=header.correlation_id), api.response_header_version(version))
    return EnvelopeResponse(response_data=head + encode(response, version))
