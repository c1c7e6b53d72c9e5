"""A Fetch of very many partitions without a session: what was the same in the connection's last one is remembered.

Clients without sessions name all their partitions in each request, and the response has each of them. Most have nothing
new, so their bytes in the request are those of the request before, and their bytes in the response, too. A connection
therefore remembers both for each partition that has nothing new: such a partition takes one look into a dictionary.

A remembered partition waits in `hosted.watchers`, as an idle partition of a session does (`IdleConsumer`), and is forgotten
with the first change: a commitment, another leader or epoch, a new log start offset, a failed directory, the end of the
replica. Only a partition whose last stable offset is the high watermark is remembered: a transaction can make it lower
only below records that come later, and these move the high watermark. What a client may read is decided for each
request: see `EncodedFetch`.

A connection remembers from its second Fetch of this kind on. It forgets when it ends, after FORGOTTEN_MS without one,
with another version or isolation level, and before it remembers over twice as many partitions as the request has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ...protocol.encoded_fetch import EncodedPartitions
from ..network.call import PLAIN_RESPONSE_ITEMS
from ..partitions.parked_requests import Parked
from ..runtime.sliced_work import FREED_AT_ONCE
from .fetch import READ_COMMITTED
from .fetch_sessions import (
    EVICTION_MS,
    FINAL_EPOCH,
    FIRST_VERSION_WITH_TOPIC_IDS,
    FetchContext,
    FetchedPartition,
    IdlePartitions,
    SessionFetch,
    Topic,
)
from .large_fetch import FIRST_WITH_LOG_START, LOOKED_AT_ONCE, LargeFetch, QuietPartitions

if TYPE_CHECKING:
    from ...protocol.messages.fetch import FetchRequest, FetchResponse
    from ..network.call import Call, ClientConnection
    from ..partitions.hosted_partition import HostedPartition
    from ..partitions.parked_requests import Deadlines
    from ..runtime.counters import TopicMetrics
    from .subsystem import FetchPath

#: A connection without such a Fetch for so long forgets.
FORGOTTEN_MS = EVICTION_MS
#: Partitions that are looked up in one step, in some 50 us.
LOOKED_UP_ONCE = 8 * LOOKED_AT_ONCE

#: Some partitions of a topic, each as the request has it.
Part = tuple[Topic, list[bytes]]


class RememberedPartition:
    """Waits for a change of a partition that a connection remembers."""

    __slots__ = ("_asked", "_hosted", "_memory", "_topic")

    def __init__(self, memory: FetchMemory, topic: RememberedTopic, asked: bytes, hosted: HostedPartition) -> None:
        self._memory = memory
        self._topic = topic
        self._asked = asked
        self._hosted = hosted
        hosted.watchers[self] = None

    def on_bytes_available(self, size: int) -> None:
        parked = self._changed()
        if parked is not None:
            parked.on_bytes_available(size)

    def on_state_changed(self) -> None:
        parked = self._changed()
        if parked is not None:
            parked.on_state_changed()

    def _changed(self) -> SessionFetch | None:
        """Forgets the partition. Returns the fetch that waits, which waits for the partition itself from now on."""
        memory, hosted = self._memory, self._hosted
        self.end()
        if not memory.forget(self._topic, hosted.index, self):
            return None
        if memory.parked is not None:
            memory.parked.watch_too(hosted)
        return memory.parked

    def end(self) -> None:
        """Forgets the partition, and waits no longer."""
        self._hosted.watchers.pop(self, None)
        self._topic.contents.pop(self._asked, None)


class RememberedTopic:
    __slots__ = ("contents", "counters", "topic")

    def __init__(self, topic: Topic, counters: TopicMetrics) -> None:
        self.topic = topic
        #: A partition's bytes in the response, by those in the request.
        self.contents: dict[bytes, bytes] = {}
        self.counters = counters


class FetchMemory(Parked):
    """The partitions that one connection remembers."""

    __slots__ = ("_memories", "activations", "connection", "is_over", "kind", "parked", "partitions", "topics", "uses")

    def __init__(
        self, memories: FetchMemories, connection: ClientConnection, kind: tuple[int, bool], *, is_over: bool = False
    ) -> None:
        super().__init__()
        self._memories = memories
        self.connection = connection
        #: The version of the requests, and whether they are of read_committed.
        self.kind = kind
        self.uses = 0
        #: Whether nothing is remembered any more, since the connection has ended.
        self.is_over = is_over
        #: How often a partition was forgotten because it changed.
        self.activations = 0
        #: The fetch that waits.
        self.parked: SessionFetch | None = None
        self.topics: dict[Topic, RememberedTopic] = {}
        self.partitions = IdlePartitions()

    def remember(self, asked: bytes, content: bytes, wanted: FetchedPartition, hosted: HostedPartition) -> bool:
        """Remembers a partition that has nothing new. Returns False when it does not."""
        if self.is_over or self.uses < 2:
            return False
        known = self.partitions.get(wanted.key)
        if known is not None:  # with another request
            known.end()
        elif not self._memories.take_one():
            return False
        name = wanted.key[0]
        topic = self.topics.get(name)
        if topic is None:
            topic = self.topics[name] = RememberedTopic(name, hosted.counters)
        topic.contents[asked] = content
        self.partitions[wanted.key] = RememberedPartition(self, topic, asked, hosted)
        return True

    def forget(self, topic: RememberedTopic, index: int, one: RememberedPartition) -> bool:
        """Forgets a partition that has changed. Returns False if it was forgotten already."""
        key = (topic.topic, index)
        if self.partitions.get(key) is not one:
            return False
        del self.partitions[key]
        self._memories.count -= 1
        if not topic.contents:
            self.topics.pop(topic.topic, None)
        self.activations += 1
        return True

    def expired(self) -> None:
        self._memories.end(self)


class FetchMemories:
    """The memories of one broker's connections.

    `limit`: of the partitions of all of them, which take some 400 bytes each. `free`: called with the partitions that
    are forgotten; may empty them.
    """

    def __init__(self, limit: int, deadlines: Deadlines, free: Callable[[dict[Any, Any]], None]) -> None:
        self.limit = limit
        self._deadlines = deadlines
        self._free = free
        self._by_connection: dict[ClientConnection, FetchMemory] = {}
        self.count = 0

    def begin(self, connection: ClientConnection, kind: tuple[int, bool], size: int) -> FetchMemory:
        """Returns the memory for a fetch of `size` partitions that begins."""
        if connection.closed:
            return FetchMemory(self, connection, kind, is_over=True)
        memory = self._by_connection.get(connection)
        if memory is not None and (memory.kind != kind or len(memory.partitions) > 2 * size):
            self.end(memory)
            memory = None
        if memory is None:
            memory = self._by_connection[connection] = FetchMemory(self, connection, kind)
        memory.uses += 1
        self._deadlines.remove(memory)
        return memory

    def rest(self, memory: FetchMemory) -> None:
        """Has the memory forget if no other fetch begins for long."""
        if not memory.is_over:
            self._deadlines.add(memory, FORGOTTEN_MS)

    def take_one(self) -> bool:
        """Counts one more partition. Returns False if there are too many."""
        if self.count >= self.limit:
            return False
        self.count += 1
        return True

    def connection_lost(self, connection: ClientConnection) -> None:
        memory = self._by_connection.get(connection)
        if memory is not None:
            self.end(memory)

    def end(self, memory: FetchMemory) -> None:
        memory.is_over = True
        self._deadlines.remove(memory)
        del self._by_connection[memory.connection]
        partitions, memory.partitions, memory.topics = memory.partitions, IdlePartitions(), {}
        self.count -= len(partitions)
        if len(partitions) > FREED_AT_ONCE:
            self._free(partitions)
        else:
            while partitions:
                partitions.popitem()


# ---- the fetch


def remembers(path: FetchPath, request: FetchRequest, version: int, *, is_follower: bool) -> bool:
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


def fetch_remembered(path: FetchPath, call: Call, memories: FetchMemories) -> None:
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
