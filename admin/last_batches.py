"""The last batches of many partitions, in few Fetches of each leader; only their headers are kept."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from ..protocol.errors import ErrorCode
from ..protocol.isolation import READ_UNCOMMITTED
from ..protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ..protocol.records.batch import BatchHeader, iter_headers
from .batch_headers import FETCH_BYTES
from .errors import ResponseError, check
from .topics import described_topics, leaders_of

if TYPE_CHECKING:
    from .places import Place
    from .session import Admin

#: Partitions in one Fetch.
_AT_ONCE = 500
_MAX_WAIT_MS = 500
#: Limit of the time in which a leader that throttles this client gives a batch.
_EMPTY_S = 15.0


def batches_at(admin: Admin, offsets: Mapping[Place, int], compacted: Collection[str] = ()) -> dict[Place, BatchHeader]:
    """The batch of each partition that has an offset, which is in its log. Open transactions are read, too.

    Without partitions of `compacted` topics that have no such batch any more. Raises ResponseError.
    """
    return admin.repeated(lambda: _batches_at(admin, offsets, compacted)) if offsets else {}


def _batches_at(admin: Admin, offsets: Mapping[Place, int], compacted: Collection[str]) -> dict[Place, BatchHeader]:
    ids = {topic.name: topic.id_in_requests for topic in described_topics(admin, {topic for topic, _ in offsets})}
    found: dict[Place, BatchHeader] = {}
    for node, led in leaders_of(admin, offsets).items():
        for start in range(0, len(led), _AT_ONCE):
            left = {place: offsets[place] for place in led[start : start + _AT_ONCE]}
            deadline = time.monotonic() + _EMPTY_S
            while left:
                # A response that is full has no records of the partitions behind those that fill it.
                headers = _fetched(admin, node, left, ids)
                found |= headers
                left = {place: offset for place, offset in left.items() if place not in headers}
                missing = [place for place in left if place[0] not in compacted]
                if not headers and not missing:
                    break
                if not headers and time.monotonic() > deadline:
                    topic, index = missing[0]
                    words = "the leader gives no records"
                    raise ResponseError(f"{topic}-{index}", ErrorCode.REQUEST_TIMED_OUT, words)
    return found


def _fetched(
    admin: Admin, node: int, offsets: Mapping[Place, int], ids: Mapping[str, bytes]
) -> dict[Place, BatchHeader]:
    by_topic: dict[str, list[FetchPartition]] = defaultdict(list)
    for (topic, index), offset in offsets.items():
        by_topic[topic].append(FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=FETCH_BYTES))
    request = FetchRequest(
        max_wait_ms=_MAX_WAIT_MS,
        min_bytes=1,
        max_bytes=FETCH_BYTES,
        isolation_level=READ_UNCOMMITTED,
        topics=[FetchTopic(topic=name, topic_id=ids[name], partitions=some) for name, some in by_topic.items()],
    )
    response = admin.ask(request, node)
    check("the last batches", response.error_code)
    names = {topic_id: name for name, topic_id in ids.items()}
    found = {}
    for fetched in response.responses:
        name = fetched.topic or names[fetched.topic_id]
        for partition in fetched.partitions:
            place = name, partition.partition_index
            offset = offsets[place]
            check(f"{name}-{place[1]}, offset {offset}", partition.error_code)
            headers = (header for _, header in iter_headers(bytes(partition.records or b"")))
            header = next((one for one in headers if one.next_offset > offset), None)
            if header is not None:
                found[place] = header
    return found
