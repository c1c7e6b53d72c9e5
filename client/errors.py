"""Errors of requests to a cluster: one family. The module imports nothing, so that commands have them at no cost."""

from __future__ import annotations


class RequestFailed(Exception):
    """The base of every error of a request."""


class NoResponse(RequestFailed, ConnectionError):
    """The node accepts no connection, rejects the login, or sent no response in time."""


class LoginRejected(NoResponse):
    """The node does not let this client in: its login, its TLS, or the lack of either. The words are the node's."""


class NotKafka(NoResponse):
    """The ports speak another protocol."""


class UnknownNode(RequestFailed, LookupError):
    """The metadata of the cluster does not have the node."""


class NoSuchNode(RequestFailed):
    """A user names a broker that the cluster does not have, or that does not run."""


class NotSupported(RequestFailed):
    """The brokers do not have the API, or no version of it that both sides have."""


class InvalidOptions(RequestFailed, ValueError):
    """Properties of a client that cannot be meant, or files of theirs that cannot be used. The words have no secret."""


class NoToken(RequestFailed):
    """A token endpoint gives this client no token."""


class CoordinatorError(RequestFailed):
    """The broker names no coordinator. `code` is Kafka's error code."""

    def __init__(self, code: int, message: str | None) -> None:
        super().__init__(message or "")
        self.code = code
        self.message = message
