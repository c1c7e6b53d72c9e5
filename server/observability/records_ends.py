"""Ends of records: whether markers of transactions alone follow the commits of groups.

A leader on this broker reads the last batches of its log. One on another broker gets a Fetch, as a consumer sends it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from ...admin.markers import MARKER_BYTES, Gap, records_end_in
from ...protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ...protocol.records.errors import BatchError
from ...storage.files.failures import LogDirectoryFailure
from ...storage.files.page_cache import pread_nowait
from ...storage.log.log import OffsetOutOfRange
from ..coordinators.scatter_and_gather import gather

if TYPE_CHECKING:
    from ...metadata.image import TopicPartition
    from ..config.endpoint import Endpoint
    from ..partitions.hosted_partition import HostedPartition
    from ..services import Services

RecordsEnds = dict["TopicPartition", int]
Gaps = Mapping["TopicPartition", Gap]
_TIMEOUT_MS = 5_000


async def local_records_ends(services: Services, gaps: Gaps) -> RecordsEnds:
    """The offset after the last record of each gap, of the partitions that this broker leads."""
    found: RecordsEnds = {}
    for number, (place, gap) in enumerate(gaps.items()):
        hosted = services.partitions.hosted.get(place)
        if hosted is None or not hosted.is_leader:
            continue
        end = records_end_in(await _last_batches(hosted, gap), gap)
        if end is not None:
            found[place] = end
        if number % 20 == 19:
            await asyncio.sleep(0)
    return found


async def _last_batches(hosted: HostedPartition, gap: Gap) -> bytes | bytearray:
    """The batches from the gap's offset on; none where a read fails, and where they take more bytes than markers."""
    read = partial(hosted.open_log().read, gap.offset, MARKER_BYTES, gap.end, min_one_batch=False)
    try:
        try:
            data = read(pread=pread_nowait).bytes_nowait()
        except BlockingIOError:
            data = None
        return await asyncio.to_thread(lambda: read().bytes()) if data is None else data
    except (OffsetOutOfRange, BatchError, LogDirectoryFailure, OSError):
        return b""


def remote_records_ends(services: Services, gaps: Gaps, done: Callable[[RecordsEnds], None]) -> None:
    """Works as `local_records_ends`, for partitions that other brokers lead."""
    found: RecordsEnds = {}
    by_leader: dict[Endpoint, dict[TopicPartition, Gap]] = {}
    for place, gap in gaps.items():
        leader = services.replicas.leaders.other_leader(*place)
        if leader is not None:
            by_leader.setdefault(leader, {})[place] = gap

    def answered(responses: list[RecordsEnds]) -> None:
        for response in responses:
            found.update(response)
        done(found)

    gather([partial(_ask, services, leader, led) for leader, led in by_leader.items()], answered)


def _ask(services: Services, leader: Endpoint, gaps: Gaps, done: Callable[[RecordsEnds], None]) -> None:
    topics: dict[str, FetchTopic] = {}
    names: dict[bytes, str] = {}
    for (name, index), gap in gaps.items():
        known = services.metadata.image.topic(name)
        if known is None:
            continue
        names[known.id] = name
        topic = topics.setdefault(name, FetchTopic(topic=name, topic_id=known.id, partitions=[]))
        topic.partitions.append(
            FetchPartition(partition=index, fetch_offset=gap.offset, partition_max_bytes=MARKER_BYTES)
        )
    request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=MARKER_BYTES * len(gaps), topics=list(topics.values()))

    def answered(response: FetchResponse | None) -> None:
        found: RecordsEnds = {}
        for topic in () if response is None else response.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            for one in topic.partitions:
                gap = gaps.get((name, one.partition_index))
                if gap is not None and not one.error_code:
                    end = records_end_in(bytes(one.records or b""), gap)
                    found |= {(name, one.partition_index): end} if end is not None else {}
        done(found)

    services.network.peers().send(leader, request, answered, timeout_ms=_TIMEOUT_MS, purpose="ends of records")
