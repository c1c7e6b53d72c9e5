"""Requests that the client libraries do not know, by the codecs of odradek.protocol, over kafka-python's connections.

Connections, TLS, SASL and the search for coordinators stay kafka-python's; the bodies are ours. The first request imports
the codecs: construct, which they are built with, takes 3 MB.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from .errors import UNREACHABLE, CommandError, CoordinatorMoves

if TYPE_CHECKING:
    from ...protocol.apis import Api
    from ...protocol.schema import Message

#: Types of coordinators in FindCoordinator.
GROUP_COORDINATOR = 0
_PATIENCE_S, _PAUSE_S = 30.0, 0.2
T = TypeVar("T")


class _Answer:
    """The part of kafka-python's headers and response classes that its parser uses, for one request."""

    def __init__(self, api: Api, version: int, correlation_id: int) -> None:
        self.api_key = api.key
        self.api_version = version
        self.correlation_id = correlation_id
        self._api = api

    def get_response_class(self) -> _Answer:
        return self

    def parse_header(self, buffer: Any) -> Any:
        from ...protocol.codec import decode
        from ...protocol.internal.headers import ResponseHeader

        frame = buffer.read()
        header, body_at = decode(ResponseHeader, self._api.response_header_version(self.api_version), frame)
        buffer.seek(body_at)
        return header

    def decode(self, buffer: Any) -> Any:
        from ...protocol.codec import decode

        answer, _ = decode(self._api.response, self.api_version, buffer.read())
        return answer


class _Request:
    """A request as kafka-python's connections take them."""

    def __init__(self, request: Message, api: Api, version: int) -> None:
        self.API_VERSION = version
        self.header: _Answer | None = None
        self._request = request
        self._api = api
        self._head = b""

    def with_header(self, correlation_id: int, client_id: str) -> None:
        from ...protocol.codec import encode
        from ...protocol.internal.headers import RequestHeader

        version = self.API_VERSION
        self.header = _Answer(self._api, version, correlation_id)
        head = RequestHeader(
            request_api_key=self._api.key,
            request_api_version=version,
            correlation_id=correlation_id,
            client_id=client_id,
        )
        self._head = encode(head, self._api.request_header_version(version))

    def encode(self, framed: bool = True, header: bool = True) -> bytes:
        from ...protocol.codec import encode

        body = self._head + encode(self._request, self.API_VERSION)
        return struct.pack(">i", len(body)) + body

    def expect_response(self) -> bool:
        return True


def ask(admin: Any, request: Message, node_id: int | None = None) -> Any:
    """Sends a request, in the newest version that both sides have, to a node or to any. Raises CommandError."""
    from ...protocol.apis import APIS

    key = type(request).SCHEMA.key
    assert key is not None, f"{type(request).__name__} is not a request"
    api = APIS[key]
    manager = admin._manager
    offered = manager.broker_version_data.api_versions.get(key)
    version = min(offered[1], api.latest_stable_version) if offered is not None else -1
    if offered is None or version < max(offered[0], api.versions.low):
        raise CommandError(f"the brokers do not support {api.name}: use a newer version")
    return manager.run(manager.send, _Request(request, api, version), node_id)


def coordinator_of(admin: Any, group: str) -> int:
    """The node that coordinates a group. Waits while a new cluster has none. Raises CommandError."""
    from kafka.errors import CoordinatorLoadInProgressError, CoordinatorNotAvailableError

    manager = admin._manager
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return int(manager.run(admin._find_coordinator_id, group, GROUP_COORDINATOR))
        except (CoordinatorLoadInProgressError, CoordinatorNotAvailableError):
            if time.monotonic() > deadline:
                raise CommandError(
                    f"group {group} has no coordinator at the moment: try again later", UNREACHABLE
                ) from None
            time.sleep(_PAUSE_S)


def patiently(admin: Any, step: Callable[[], T]) -> T:
    """Runs a step that asks coordinators, again while they load or move to other nodes. Raises CommandError."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return step()
        except CoordinatorMoves:
            if time.monotonic() > deadline:
                raise
        admin.forget_places()
        time.sleep(_PAUSE_S)
