"""Requests that wait for the response of a coordinator's shard, with their clients."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Set
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ...protocol.errors import ErrorCode
from ...protocol.schema import Message, Request

if TYPE_CHECKING:
    from ...protocol.schema import ResponseCallback

log = logging.getLogger("odradek.groups")


class Client(Protocol):
    """The client that sends a request; a `Call` is one."""

    @property
    def client_id(self) -> str | None: ...
    @property
    def client_host(self) -> str: ...


class DescribingClient(NamedTuple):
    """A client that may describe only some topics."""

    client_id: str | None
    client_host: str
    describable: Callable[[Collection[str]], Set[str]]


class Pending:
    """A request without a response yet: the token that the shard holds."""

    __slots__ = ("reply", "request", "version")

    def __init__(self, request: Request, version: int, reply: ResponseCallback) -> None:
        self.request = request
        self.version = version
        self.reply = reply


class OpenRequests:
    """All requests without a response yet. Each gets exactly one response."""

    def __init__(self, error_response: Callable[[Message, int, ErrorCode], Message]) -> None:
        self._error_response = error_response
        # In order of arrival.
        self._open: dict[Pending, None] = {}

    def add(self, pending: Pending) -> None:
        self._open[pending] = None

    def respond(self, token: object, response: Message) -> None:
        assert isinstance(token, Pending)
        if token in self._open:
            del self._open[token]
            self._give(token, response)

    def reject(self, token: object, error: ErrorCode) -> None:
        assert isinstance(token, Pending)
        if token in self._open:
            del self._open[token]
            self._give(token, self._error_response(token.request, token.version, error))

    def reject_all(self, error: ErrorCode) -> None:
        waiting, self._open = self._open, {}
        for pending in waiting:
            self._give(pending, self._error_response(pending.request, pending.version, error))

    def _give(self, pending: Pending, response: Message) -> None:
        """Sends a response. A failing reply must not prevent the others."""
        try:
            pending.reply(response)
        except Exception:
            log.exception("a bug: %s could not be answered", type(pending.request).__name__)
            with suppress(Exception):
                pending.reply(self._error_response(pending.request, pending.version, ErrorCode.UNKNOWN_SERVER_ERROR))
