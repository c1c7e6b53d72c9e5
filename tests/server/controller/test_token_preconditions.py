"""Requests about delegation tokens: which clients may send them, and the secret that signs tokens (KIP-48)."""

from __future__ import annotations

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.controller.delegation_tokens import token_secret, tokens_precondition

from tests.server.harness.handler_services import HandlerServices
from tests.server.harness.noted_calls import NotedCalls
from tests.server.harness.noted_connection import NotedConnection

DENIED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


@pytest.mark.parametrize(
    ("protocol", "principal", "by_token", "error"),
    [
        ("SASL_SSL", "User:alice", False, ErrorCode.NONE),
        ("SASL_PLAINTEXT", "User:alice", False, ErrorCode.NONE),
        ("SASL_SSL", "User:alice", True, DENIED),
        ("SSL", "User:CN=alice", False, ErrorCode.NONE),
        ("SSL", "User:CN=alice", True, DENIED),
        ("SSL", "User:ANONYMOUS", False, DENIED),
        ("SASL_SSL", "User:ANONYMOUS", False, ErrorCode.NONE),
        ("PLAINTEXT", "User:alice", False, DENIED),
        (None, "User:alice", False, DENIED),
    ],
)
def test_tokens_are_for_authenticated_clients_that_have_not_logged_in_with_one(
    protocol: str | None, principal: str, by_token: bool, error: ErrorCode
) -> None:
    listener = {"listeners": "L://127.0.0.1:0", "listener.security.protocol.map": f"L:{protocol}"}
    listener["inter.broker.listener.name"] = "L"
    connection = NotedConnection()
    connection.principal, connection.is_token_authenticated = principal, by_token
    call = NotedCalls(connection).call(CreateDelegationTokenRequest(), version=3)
    services = HandlerServices({} if protocol is None else listener)
    assert tokens_precondition(services, call) == error


@pytest.mark.parametrize(("properties", "secret"), [({}, ""), ({"delegation.token.secret.key": "s3cret"}, "s3cret")])
def test_secret_is_the_configured_one(properties: dict[str, str], secret: str) -> None:
    assert token_secret(BrokerConfig(properties)) == secret
