"""Responses of an issuer within a size and a time: a visitor without a login has the console send requests for them."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import httpx2

if TYPE_CHECKING:
    import ssl

#: Limits of a response. Metadata, keys and tokens have some 10 KiB.
MOST_BYTES, WHOLE_S = 1 << 20, 10.0


class BoundedTransport(httpx2.AsyncHTTPTransport):
    """Raises httpx2.ReadError for a response beyond a limit, which has no part of it."""

    def __init__(self, verify: ssl.SSLContext | bool) -> None:
        super().__init__(verify=verify)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        deadline_s = time.monotonic() + WHOLE_S
        response = await super().handle_async_request(request)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _Bounded(response.stream, deadline_s)
        return response


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, deadline_s: float) -> None:
        self._stream = stream
        self._deadline_s = deadline_s

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = 0
        async for piece in self._stream:
            read += len(piece)
            if read > MOST_BYTES:
                raise httpx2.ReadError(f"a response of more than {MOST_BYTES >> 20} MiB")
            if time.monotonic() > self._deadline_s:
                raise httpx2.ReadTimeout(f"it did not come whole within {WHOLE_S:g} s")
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()
