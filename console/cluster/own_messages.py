"""Sends messages of `odradek.protocol` over a connection of kafka-python, which lacks the APIs of newer groups.

kafka-python has connections, TLS, SASL and versions; tables of share groups (KIP-932) and streams groups (KIP-1071) are
those of the broker itself. They are imported with the first use: construct, which the tables are built with, takes some MB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...protocol.apis import Api
    from ...protocol.schema import Message


class OwnRequest:
    """One request in the form that kafka-python's connection takes. The connection sets `API_VERSION`."""

    _min_version = None
    _max_version = None

    def __init__(self, api: Api, body: Message) -> None:
        self.API_KEY = api.key
        self.API_VERSION: int | None = None
        self.min_version, self.max_version = 0, api.latest_stable_version
        self.name = f"{api.name}Request"
        self.header: Any = None
        self._api = api
        self._body = body

    def expect_response(self) -> bool:
        return True

    def with_header(self, correlation_id: int = 0, client_id: str = "") -> None:
        from kafka.protocol.api_header import RequestHeader

        self.header = RequestHeader(
            request_api_key=self.API_KEY,
            request_api_version=self.API_VERSION,
            correlation_id=correlation_id,
            client_id=client_id,
        )

    def encode(self, version: int | None = None, header: bool = False, framed: bool = False) -> bytes:
        from ...protocol.codec import encode as encoded

        assert self.API_VERSION is not None
        content = self.header.encode(flexible=self.API_VERSION in self._api.flexible) if header else b""
        content = bytes(content) + encoded(self._body, self.API_VERSION)
        return len(content).to_bytes(4, "big") + content if framed else content


class _OwnResponses:
    """The responses of one API, by version, as kafka-python's parser asks for them."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def __getitem__(self, version: int) -> _OwnResponse:
        return _OwnResponse(self._api, version)


class _OwnResponse:
    def __init__(self, api: Api, version: int) -> None:
        self._api, self._version = api, version

    def parse_header(self, data: Any) -> Any:
        from kafka.protocol.api_header import ResponseHeader

        return ResponseHeader.decode(data, flexible=self._version in self._api.flexible)

    def decode(self, data: Any) -> Message:
        from ...protocol.codec import decode as decoded

        return decoded(self._api.response, self._version, bytes(data.read()))[0]


def call(admin: Any, key: int, body: Message, node_id: int | None = None) -> Any:
    """Sends the request of API `key` and returns the response. Raises kafka-python's IncompatibleBrokerVersion."""
    from kafka.protocol.api_header import ResponseClassRegistry

    from ...cli.client.admin_calls import send
    from ...protocol.apis import APIS

    api = APIS[key]
    known = ResponseClassRegistry._response_class_registry
    known.setdefault(key, _OwnResponses(api))
    return send(admin, OwnRequest(api, body), node_id)


def coordinator_of(admin: Any, group: str) -> int:
    """The broker that coordinates a group."""
    manager = admin._manager
    found: int = manager.run(admin._find_coordinator_id, group)
    return found
