"""A Fetch of very many partitions without a session: what was the same in the connection's last one is remembered.

The partitions of the request stay encoded (`protocol/encoded_fetch.py`). One that the connection remembers
(`fetch_memories.py`) takes one look into a dictionary; the others are decoded, and remembered if they have nothing new. Only
a partition whose last stable offset is the high watermark is remembered: a transaction can make it lower only below
records that come later, and these move the high watermark. What a client may read is decided for each request: see
`EncodedFetch`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ...protocol.encoded_fetch import EncodedPartitions
from ...protocol.errors import ErrorCode
from ...protocol.messages.fetch import FetchResponse
from ..network.call import PLAIN_RESPONSE_ITEMS
from ..network.large_requests import work_in_turns
from .fetch import READ_COMMITTED
from .fetch_memories import FetchMemories, FetchMemory
from .fetch_sessions import (
    FINAL_EPOCH,
    FIRST_VERSION_WITH_TOPIC_IDS,
    FetchContext,
    FetchedPartition,
    Topic,
)
from .large_fetch import FIRST_WITH_LOG_START, LOOKED_AT_ONCE, LargeFetch, QuietPartitions, fetch

if TYPE_CHECKING:
    from ...protocol.messages.fetch import FetchRequest
    from ..network.call import Call
    from .subsystem import FetchPath

#: Partitions that are looked up in one step, in some 50 us.
LOOKED_UP_ONCE = 8 * LOOKED_AT_ONCE

#: Some partitions of a topic, each as the request has it.
Part = tuple[Topic, list[bytes]]


def open_and_fetch(path: FetchPath, call: Call, *, is_follower: bool) -> None:
    """Takes a Fetch whose request is large."""
    if path.memories is not None and _remembers(path, call.request, call.version, is_follower=is_follower):
        _fetch_remembered(path, call, path.memories())
        return

    def opened(context: FetchContext | ErrorCode) -> None:
        if isinstance(context, ErrorCode):
            call.reply(FetchResponse(error_code=context))
        else:
            fetch(path, call, context, is_follower=is_follower)

    opening = path.sessions.open(call.request, call.version, path.clock.now_ms(), call.connection)
    work_in_turns(call, opening, opened)


def _remembers(path: FetchPath, request: FetchRequest, version: int, *, is_follower: bool) -> bool:
    """Returns whether a Fetch is of the kind that is remembered: of a consumer without a session, and its response has
    what the partitions' leaders have.
    """
    topics = request.topics
    return (
        not is_follower
        and request.session_epoch == FINAL_EPOCH
        and version >= FIRST_WITH_LOG_START
        and path.memories is not None
        and all(isinstance(topic.partitions, EncodedPartitions) for topic in topics)
        and not request.forgotten_topics_data
        and path.sessions.get(request.session_id) is None
        and not (request.rack_id and path.selector.is_rack_aware)
        and sum(len(topic.partitions) for topic in topics) > PLAIN_RESPONSE_ITEMS
        and not _has_repeated(request, version)
    )


def _has_repeated(request: FetchRequest, version: int) -> bool:
    names = {topic.topic_id if version >= FIRST_VERSION_WITH_TOPIC_IDS else topic.topic for topic in request.topics}
    return len(names) < len(request.topics) or any(topic.partitions.has_repeated() for topic in request.topics)  # type: ignore[attr-defined]


def _fetch_remembered(path: FetchPath, call: Call, memories: FetchMemories) -> None:
    request: FetchRequest = call.request
    uses_ids = call.version >= FIRST_VERSION_WITH_TOPIC_IDS
    topics: dict[Topic, Any] = {}
    for topic in request.topics:
        topics[topic.topic_id if uses_ids else topic.topic], topic.partitions = topic.partitions, []
    counts = {topic: len(partitions) for topic, partitions in topics.items()}
    context = FetchContext({}, uses_topic_ids=uses_ids, topic_counts=counts)
    kind = (call.version, request.isolation_level == READ_COMMITTED)
    memory = memories.begin(call.connection, kind, sum(counts.values()))
    EncodedFetch(path, call, context, topics, memories, memory).start()


class EncodedFetch(LargeFetch):
    """A Fetch whose partitions are encoded; each is decoded only if it is not remembered."""

    __slots__ = ("_memories", "_memory", "_topics")

    def __init__(
        self,
        path: FetchPath,
        call: Call,
        context: FetchContext,
        topics: dict[Topic, EncodedPartitions],
        memories: FetchMemories,
        memory: FetchMemory,
    ) -> None:
        super().__init__(path, call, context)
        self._topics = topics
        self._memories = memories
        self._memory = memory

    def _encodes_quiet(self) -> bool:
        return not self._denied

    def _activation_count(self) -> int:
        return self._memory.activations

    def _watch(self) -> None:
        super()._watch()
        self._memory.parked = self

    def _unwatch(self) -> None:
        super()._unwatch()
        self._memory.parked = None

    def _attempted(self, response: FetchResponse | None) -> None:
        super()._attempted(response)
        if response is not None:
            self._memories.rest(self._memory)

    def _chunks(self) -> Iterator[list[FetchedPartition]]:
        every = ((topic, partitions.pieces()) for topic, partitions in self._topics.items())
        for block in _in_blocks(every, LOOKED_UP_ONCE):
            if self._packer is not None and self._add_remembered(block):
                yield []
                continue
            for part in _in_blocks(block, LOOKED_AT_ONCE):
                if self._packer is None:
                    yield self._decoded(part)
                else:
                    yield [] if self._add_remembered(part) else self._without_remembered(part)

    def _add_remembered(self, block: list[Part]) -> bool:
        """Adds the partitions to the response if all of them are remembered."""
        quiet: dict[Topic, QuietPartitions] = {}
        for topic, pieces in block:
            known = self._memory.topics.get(topic)
            if known is None:
                return False
            quiet[topic] = run = QuietPartitions(known.counters)
            try:
                run.contents = list(map(known.contents.__getitem__, pieces))
            except KeyError:
                return False
        self._quiet.append(quiet)
        return True

    def _without_remembered(self, part: list[Part]) -> list[FetchedPartition]:
        """Adds the partitions that have nothing new to the response, and remembers them. Returns the others."""
        find = self._finder()
        remember = self._memory.remember
        rest: list[FetchedPartition] = []
        quiet: dict[Topic, QuietPartitions] = {}
        for topic, pieces in part:
            known, decoded = self._memory.topics.get(topic), self._topics[topic].layout.decoded
            run: QuietPartitions | None = None
            for asked in pieces:
                content = None if known is None else known.contents.get(asked)
                counters = None if known is None else known.counters
                if content is None:
                    wanted = FetchedPartition((topic, int.from_bytes(asked[:4], signed=True)), decoded(asked))
                    hosted = find(wanted.key)
                    content = None if hosted is None else self._quiet_content(hosted, wanted)
                    if hosted is None or content is None:
                        rest.append(wanted)
                        continue
                    counters = hosted.counters
                    is_stable = hosted.last_stable_offset == wanted.fetch_offset
                    if not (is_stable and remember(asked, content, wanted, hosted)):
                        self._seen.append((hosted, hosted.log.log_end_offset))
                if run is None:
                    assert counters is not None, "of a partition that is here"
                    run = quiet[topic] = QuietPartitions(counters)
                run.contents.append(content)
        self._quiet.append(quiet)
        return rest

    def _decoded(self, part: list[Part]) -> list[FetchedPartition]:
        return [
            FetchedPartition((topic, asked.partition), asked)
            for topic, pieces in part
            for asked in map(self._topics[topic].layout.decoded, pieces)
        ]


def _in_blocks(parts: Iterable[Part], size: int) -> Iterator[list[Part]]:
    """Yields `size` partitions at a time, of one topic or several."""
    block: list[Part] = []
    room = size
    for topic, pieces in parts:
        start = 0
        while start < len(pieces):
            some = pieces[start : start + room]
            block.append((topic, some))
            start += len(some)
            room -= len(some)
            if not room:
                yield block
                block, room = [], size
    if block:
        yield block
