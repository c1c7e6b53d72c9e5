"""An asyncio connection of the good client: several requests in flight, with responses in their order."""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from typing import Any

from odradek.protocol.codec import decode
from odradek.protocol.headers import ResponseHeader

from compat_tests.wire import api_of, request_frame

CONNECT_S = 10
CLIENT_ID = "good-client"


class GoodConnection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._numbers = itertools.count(1)
        self._waiting: deque[tuple[Any, int, int, asyncio.Future[Any]]] = deque()
        self.is_closed = False
        self._task = asyncio.create_task(self._read())

    @classmethod
    async def open(cls, address: str) -> GoodConnection:
        """Connects. Raises OSError, and TimeoutError when the connection is not accepted."""
        host, _, port = address.rpartition(":")
        opened = asyncio.open_connection(host.strip("[]"), int(port), limit=1 << 20)
        return cls(*await asyncio.wait_for(opened, CONNECT_S))

    def call(self, request: Any, version: int) -> asyncio.Future[Any]:
        """Sends a request at once; the future gets its response, or ConnectionError."""
        response: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self.is_closed:
            response.set_exception(ConnectionError("closed"))
            return response
        number = next(self._numbers)
        self._writer.write(request_frame(request, version, number, CLIENT_ID))
        self._waiting.append((api_of(request), version, number, response))
        return response

    def close(self) -> None:
        self._task.cancel()
        self._end()

    async def _read(self) -> None:
        try:
            while True:
                length = int.from_bytes(await self._reader.readexactly(4), "big")
                self._answered(await self._reader.readexactly(length))
        except (OSError, EOFError):
            self._end()

    def _answered(self, frame: bytes) -> None:
        api, version, number, future = self._waiting.popleft()
        header, position = decode(ResponseHeader, api.response_header_version(version), frame)
        assert header.correlation_id == number, f"answer {header.correlation_id} in place of {number}"
        response, end = decode(api.response, version, frame, position)
        assert end == len(frame), f"{len(frame) - end} bytes after {api.name} v{version}"
        if not future.done():
            future.set_result(response)

    def _end(self) -> None:
        self.is_closed = True
        self._writer.close()
        while self._waiting:
            response = self._waiting.popleft()[3]
            if not response.done():
                response.set_exception(ConnectionError("the broker closed the connection"))
                response.exception()  # marked as retrieved: a task that still awaits it gets it, and asyncio logs no warning
