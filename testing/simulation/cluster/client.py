"""A small protocol client: one request in flight per connection, and a response or `Unreachable`."""

from __future__ import annotations

import asyncio
import struct
from typing import TYPE_CHECKING, NamedTuple, cast

from ....protocol.apis import APIS
from ....protocol.codec import decode, encode
from ....protocol.errors import ErrorCode
from ....protocol.headers import RequestHeader, ResponseHeader
from ....protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

if TYPE_CHECKING:
    from ....protocol.messages.metadata import MetadataResponse
    from ....protocol.schema import Request, ResponseT
    from ..transport import Address


#: Delay between two attempts.
BACKOFF_S = 0.1
_METADATA_VERSION = 12
_TIMEOUT_S = 6.0
_MAX_FRAME_BYTES = 16 << 20


class Unreachable(ConnectionError):
    """There was no response, for whatever reason; the request may or may not have been received."""


class _Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self.transport: asyncio.WriteTransport
        self.response: asyncio.Future[bytes] | None = None
        self.is_lost = False
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        if len(self._received) < 4:
            return
        size = struct.unpack_from(">i", self._received)[0]
        assert 0 < size < _MAX_FRAME_BYTES
        if len(self._received) < 4 + size:
            return
        frame, self._received = self._received[4 : 4 + size], self._received[4 + size :]
        assert self.response is not None, "a response without a request"
        if not self.response.done():
            self.response.set_result(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        if self.response is not None and not self.response.done():
            self.response.set_exception(Unreachable("the connection was lost"))


class Leader(NamedTuple):
    address: Address
    epoch: int


class Client:
    """A client. Its calls may overlap if each has its own `lane`."""

    def __init__(self, bootstrap: list[Address], topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._connections: dict[tuple[Address, str], _Connection] = {}
        self._leaders: dict[int, Leader] = {}
        #: The newest known leader of each partition.
        self._epochs: dict[int, int] = {}
        self._turn = 0
        self._correlation = 0

    # ---- requests

    async def ask(
        self, address: Address, request: Request[ResponseT], version: int, lane: str = "", timeout_s: float = _TIMEOUT_S
    ) -> ResponseT:
        """Raises Unreachable."""
        try:
            async with asyncio.timeout(timeout_s):
                return await self._ask(address, request, version, lane)
        except (TimeoutError, ConnectionError) as failure:
            self._drop((address, lane))
            raise Unreachable(str(failure)) from None
        except asyncio.CancelledError:
            self._drop((address, lane))  # a late response must not be taken for the next one's
            raise

    async def _ask(self, address: Address, request: Request[ResponseT], version: int, lane: str) -> ResponseT:
        loop = asyncio.get_running_loop()
        connection = self._connections.get((address, lane))
        if connection is None or connection.is_lost:
            _, connection = await loop.create_connection(_Connection, *address)
            self._connections[address, lane] = connection
        assert request.SCHEMA.key is not None
        api = APIS[request.SCHEMA.key]
        self._correlation += 1
        header = RequestHeader(api.key, version, self._correlation, "judge")
        body = encode(header, api.request_header_version(version)) + encode(request, version)
        connection.response = loop.create_future()
        connection.transport.write(struct.pack(">i", len(body)) + body)
        frame = await connection.response
        answered, position = decode(ResponseHeader, api.response_header_version(version), frame)
        assert answered.correlation_id == header.correlation_id, "responses are in order"
        return cast("ResponseT", decode(api.response, version, frame, position)[0])

    def _drop(self, key: tuple[Address, str]) -> None:
        connection = self._connections.pop(key, None)
        if connection is not None:
            connection.transport.abort()

    # ---- leaders

    def any_address(self) -> Address:
        """Returns the bootstrap addresses in rotation."""
        self._turn += 1
        return self._bootstrap[self._turn % len(self._bootstrap)]

    async def leader(self, index: int, lane: str) -> Leader:
        """Sends requests until a node returns the partition's leader."""
        while index not in self._leaders:
            try:
                found = await self._metadata(lane)
            except Unreachable:
                await asyncio.sleep(BACKOFF_S)
                continue
            for one, leader in found.items():
                # A node that was cut off returns stale metadata (KIP-320).
                if leader.epoch >= self._epochs.get(one, 0):
                    self._leaders[one], self._epochs[one] = leader, leader.epoch
            if index not in self._leaders:
                await asyncio.sleep(BACKOFF_S)
        return self._leaders[index]

    def forget(self, index: int) -> None:
        """Forgets the leader of the partition, which changed or does not respond."""
        self._leaders.pop(index, None)

    async def _metadata(self, lane: str) -> dict[int, Leader]:
        request = MetadataRequest([MetadataRequestTopic(name=self._topic)], allow_auto_topic_creation=False)
        response: MetadataResponse = await self.ask(
            self.any_address(), request, _METADATA_VERSION, f"metadata {lane}", 2.0
        )
        brokers = {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
        topic = response.topics[0]
        if topic.error_code != ErrorCode.NONE:
            return {}
        return {
            one.partition_index: Leader(brokers[one.leader_id], one.leader_epoch)
            for one in topic.partitions
            if one.leader_id in brokers
        }
