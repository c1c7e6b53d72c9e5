"""Requests that a broker forwards in an Envelope, and the responses that come back in it."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.protocol.apis import APIS
from odradek.protocol.codec import decode, encode
from odradek.protocol.errors import ErrorCode
from odradek.protocol.headers import RequestHeader, ResponseHeader
from odradek.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.messages.envelope import EnvelopeResponse
from odradek.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from odradek.replication.controller.controller import error_response
from odradek.replication.controller.result import RequestError
from odradek.server.controller.envelopes import (
    Forwarded,
    decoded_principal,
    enveloped,
    unwrapped,
)
from odradek.server.controller.forwarding import is_not_controller

REQUEST, VERSION = CreateTopicsRequest([CreatableTopic("a", 1, 1)], 1000), 7
CLIENT: Any = {
    "principal": "User:carol",
    "client_host": "/10.0.0.9",
    "client_id": "app",
    "is_token_authenticated": True,
}


def forwarded(client: Any = CLIENT) -> Forwarded:
    return Forwarded(REQUEST, VERSION, lambda response: None, client, 0, True)


def response(error: int) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=[CreatableTopicResult("a", error_code=error, configs=[])])


def test_envelope_has_the_request_and_its_client() -> None:
    made = enveloped(forwarded())
    api = APIS[19]
    header, position = decode(RequestHeader, api.request_header_version(VERSION), made.request_data)
    assert (header.request_api_key, header.request_api_version, header.client_id) == (19, VERSION, "app")
    assert header.correlation_id == 0, "as Kafka's brokers send it"
    assert decode(api.request, VERSION, made.request_data, position)[0] == REQUEST
    assert decoded_principal(made.request_principal) == ("User:carol", True)
    assert made.client_host_address == bytes((10, 0, 0, 9))


def test_envelope_of_a_request_without_a_login_names_the_anonymous_user() -> None:
    assert decoded_principal(enveloped(forwarded({})).request_principal) == ("User:ANONYMOUS", False)


@pytest.mark.parametrize(
    ("error", "has_data", "expected"),
    [
        (ErrorCode.NONE, True, ErrorCode.TOPIC_ALREADY_EXISTS),
        (ErrorCode.NOT_CONTROLLER, False, None),
        (ErrorCode.NOT_CONTROLLER, True, None),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, True, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.NONE, False, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_response_in_an_envelope_is_unwrapped(error: ErrorCode, has_data: bool, expected: ErrorCode | None) -> None:
    data = encode(ResponseHeader(), 1) + encode(response(ErrorCode.TOPIC_ALREADY_EXISTS), VERSION)
    found: Any = unwrapped(forwarded(), EnvelopeResponse(response_data=data if has_data else None, error_code=error))
    assert (None if found is None else found.topics[0].error_code) == expected


def test_response_that_cannot_be_read_is_an_error_of_the_client() -> None:
    found: Any = unwrapped(forwarded(), EnvelopeResponse(response_data=b"\0", error_code=0))
    assert found.topics[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize(
    ("request_", "version", "response", "expected"),
    [
        (REQUEST, VERSION, error_response(REQUEST, VERSION, RequestError(ErrorCode.NOT_CONTROLLER)), True),
        (REQUEST, VERSION, response(ErrorCode.NONE), False),
        (REQUEST, VERSION, error_response(REQUEST, VERSION, RequestError(ErrorCode.REQUEST_TIMED_OUT)), False),
        (UpdateFeaturesRequest(), 1, UpdateFeaturesResponse(error_code=ErrorCode.NOT_CONTROLLER), True),
        (UpdateFeaturesRequest(), 1, UpdateFeaturesResponse(), False),
        # A request that names nothing has the same response in any case.
        (CreateTopicsRequest(), VERSION, CreateTopicsResponse(), False),
    ],
)
def test_request_is_sent_again_only_when_nothing_was_decided(
    request_: Any, version: int, response: Any, expected: bool
) -> None:
    assert is_not_controller(request_, version, response) == expected
