"""Errors of requests to a cluster. The module imports nothing: a command knows them without the cost of the client."""

from __future__ import annotations


class NoResponse(ConnectionError):
    """The node accepts no connection, rejects the login, or sent no response in time."""


class LoginRejected(NoResponse):
    """The node ended the connection before it was ready, and said why."""


class UnknownNode(LookupError):
    """The metadata of the cluster does not have the node."""


class NotSupported(Exception):
    """The brokers do not have the API, or no version of it that both sides have."""


class CoordinatorError(Exception):
    """The broker names no coordinator. `code` is Kafka's error code."""

    def __init__(self, code: int, message: str | None) -> None:
        super().__init__(message or "")
        self.code = code
        self.message = message
