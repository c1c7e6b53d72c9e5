"""Reading a range of offsets from another replica of a partition, by Fetch requests as a consumer makes them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.isolation import READ_COMMITTED
from ...protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ...protocol.records.batch import check_crc, iter_headers
from ...protocol.records.errors import CorruptBatch

if TYPE_CHECKING:
    from ...protocol.messages.fetch import FetchResponse
    from ...protocol.records.batch import BatchHeader
    from ..config.endpoint import Endpoint
    from ..partitions.hosted_partition import HostedPartition
    from .replica_requests import ReplicaRequests

PURPOSE = "healing"
#: Requested at a time: the response is held in memory.
FETCH_BYTES = 1 << 20
#: The replica may wait for the records as long. They are old: it has them, or it will not.
FETCH_WAIT_MS = 100


class NotThere(Exception):
    """The replica does not return the records: it cannot be reached, does not have them, or has them damaged."""


class ReplicaReader:
    """Reads from the replica of `hosted` at `source`."""

    def __init__(self, requests: ReplicaRequests, hosted: HostedPartition, source: Endpoint) -> None:
        self._requests = requests
        self._hosted = hosted
        self._source = source
        #: Offsets may be missing between batches: the log is compacted.
        self.may_have_gaps = False
        #: (producer id, first offset) of the aborted transactions that the replica named.
        self.aborted: set[tuple[int, int]] = set()

    @property
    def source(self) -> str:
        return self._source.address

    async def read(self, first_offset: int, next_offset: int) -> AsyncIterator[tuple[bytes, list[BatchHeader]]]:
        """Yields the batches of these offsets, some at a time: CRCs are right, and offsets tile the range.

        Raises NotThere, CorruptBatch.
        """
        if next_offset > self._hosted.role.high_watermark:
            raise NotThere(f"offset {next_offset - 1} is not known to be committed")
        offset = first_offset
        while offset < next_offset:
            records = await self._fetch(offset)
            batches, headers = self._checked(records, offset, next_offset)
            if headers:
                yield batches, headers
                offset = headers[-1].next_offset
            elif self.may_have_gaps and records:
                return  # what follows is of the next segment
            else:
                raise NotThere(f"{self.source} has nothing at offset {offset}")

    async def _fetch(self, offset: int) -> bytes:
        hosted = self._hosted
        asked = FetchPartition(
            partition=hosted.index,
            current_leader_epoch=hosted.leader_epoch,
            fetch_offset=offset,
            partition_max_bytes=FETCH_BYTES,
        )
        request = FetchRequest(
            max_wait_ms=FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            isolation_level=READ_COMMITTED,
            topics=[FetchTopic(topic_id=hosted.topic_id, partitions=[asked])],
        )
        answered: asyncio.Future[bytes | NotThere] = asyncio.get_running_loop().create_future()

        def reply(response: FetchResponse | None) -> None:
            if not answered.done():
                answered.set_result(self._taken(response))

        self._requests.send(self._source, request, reply, purpose=PURPOSE)
        result = await answered
        if isinstance(result, NotThere):
            raise result
        return result

    def _taken(self, response: FetchResponse | None) -> bytes | NotThere:
        """Views of records hold no longer than the callback."""
        if response is None:
            return NotThere(f"{self.source} does not respond")
        if response.error_code or not response.responses:
            return NotThere(f"{self.source} answers {ErrorCode(response.error_code).name}")
        (data,) = response.responses[0].partitions
        if data.error_code:
            return NotThere(f"{self.source} answers {ErrorCode(data.error_code).name}")
        self.aborted.update((one.producer_id, one.first_offset) for one in data.aborted_transactions or ())
        return bytes(data.records or b"")

    def _checked(self, records: bytes, offset: int, next_offset: int) -> tuple[bytes, list[BatchHeader]]:
        """Returns the batches below `next_offset`, and their headers."""
        headers: list[BatchHeader] = []
        end, expected = 0, offset
        for position, header in iter_headers(records):
            if header.base_offset >= next_offset:
                break
            check_crc(records, position, header)
            is_next = header.base_offset == expected or (self.may_have_gaps and header.base_offset > expected)
            if not is_next or header.last_offset_delta < 0 or header.next_offset > next_offset:
                raise CorruptBatch(
                    f"{self.source} has a batch of offsets {header.base_offset} to {header.last_offset}, where one is to "
                    f"start at {expected} and to end below {next_offset}"
                )
            headers.append(header)
            expected, end = header.next_offset, position + header.size
        return records[:end], headers
