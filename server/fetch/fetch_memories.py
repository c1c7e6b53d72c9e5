"""Memories of the large fetches without sessions that connections make.

Clients without sessions name all their partitions in each request, and the response has each of them. Most have nothing
new, so their bytes in the request are those of the request before, and their bytes in the response, too. A connection
therefore remembers both for each partition that has nothing new; encoded_fetch.py has the CPU that this saves.

A remembered partition waits in `hosted.watchers`, as an idle partition of a session does (fetch_session.py), and is
forgotten with the first change: a commitment, another leader or epoch, a new log start offset, a failed directory, the
end of the replica.

A connection remembers from its second Fetch of this kind on. It forgets when it ends, after FORGOTTEN_MS without one,
with another version or isolation level, and before it remembers over twice as many partitions as the request has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..partitions.parked_requests import Parked
from ..runtime.turns import FREED_AT_ONCE
from .fetch_session import IdlePartitions
from .fetch_sessions import EVICTION_MS

if TYPE_CHECKING:
    from ..network.call import ClientConnection
    from ..partitions.hosted_partition import HostedPartition
    from ..partitions.parked_requests import Deadlines
    from ..runtime.counters import TopicMetrics
    from .fetch_session import SessionFetch
    from .fetched_partition import FetchedPartition, Topic

#: A connection without such a Fetch for so long forgets.
FORGOTTEN_MS = EVICTION_MS


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

    def forget(self, topic: RememberedTopic, index: int, remembered: RememberedPartition) -> bool:
        """Forgets a partition that has changed. Returns False if it was forgotten already."""
        key = (topic.topic, index)
        if self.partitions.get(key) is not remembered:
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

    def __init__(self, limit: int, deadlines: Deadlines, free: Callable[[Any], None]) -> None:
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
