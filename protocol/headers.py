"""The headers of requests and responses.

`RequestHeader`: version 1 is for versions of a request that are not flexible, 2 for those that are. The client id is never
a compact string: a broker can read it before it has parsed the version (KIP-482). `ResponseHeader`: version 1 goes with
flexible versions, but the ApiVersions response always has header 0 (KIP-511). `Api.request_header_version` and
`Api.response_header_version` return the versions.
"""

from __future__ import annotations

from .schema import INT16, INT32, STRING, Message, message, wire


@message("1-2", flexible="2+")
class RequestHeader(Message):
    request_api_key: int = wire(INT16)
    request_api_version: int = wire(INT16)
    correlation_id: int = wire(INT32)
    client_id: str | None = wire(STRING, "1+", nullable="1+", may_be_compact=False)


@message("0-1", flexible="1+")
class ResponseHeader(Message):
    correlation_id: int = wire(INT32)
