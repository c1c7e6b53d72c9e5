"""A Fetch of very many partitions, which takes turns with others: named, looked at and answered some at a time.

Without a session, most partitions have nothing new, and the response has each of them: such a partition is encoded as soon
as it is looked at, with those beside it, and nothing else is made for it.

Otherwise it follows `fetch.py`. A change between two slices counts as later than the fetch: partitions that grew
since they were looked at are looked at again before the fetch is parked.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from ...protocol.codec import stepwise_element_encoder
from ...protocol.encoded_fetch import EncodedPartitions
from ...protocol.errors import ErrorCode
from ...protocol.lowering import EncodedRuns
from ...protocol.messages.fetch import FetchableTopicResponse, FetchResponse, NodeEndpoint, PartitionData
from ...protocol.primitives import remembered
from ..network.call import PLAIN_RESPONSE_ITEMS, Call, arrays_of, is_large
from ..network.large_requests import reply_in_slices, work_in_turns
from ..partitions.hosted_partition import HostedPartition
from ..partitions.parked_requests import NotInPageCache
from ..runtime.sliced_work import Steps, run_to_completion
from .fetch import READ_COMMITTED, Fetch, FollowerFetch, Found, Inspection, check_readable
from .fetch_memories import FetchMemories, FetchMemory
from .fetch_sessions import (
    FINAL_EPOCH,
    FIRST_VERSION_WITH_TOPIC_IDS,
    INVALID_SESSION_ID,
    FetchContext,
    FetchedPartition,
    PartitionKey,
    Topic,
)

if TYPE_CHECKING:
    from ...protocol.messages.fetch import FetchRequest
    from ..runtime.counters import TopicMetrics
    from .subsystem import FetchPath

#: Partitions that are looked at in one step.
LOOKED_AT_ONCE = 64
#: Those that stay encoded, of which 512 are looked up in some 50 us.
LOOKED_UP_ONCE = 8 * LOOKED_AT_ONCE
_ARRAYS = arrays_of(FetchResponse)
_PARTITIONS = ("responses", "partitions")

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


def fetch(path: FetchPath, call: Call, context: FetchContext, *, is_follower: bool) -> None:
    if is_follower:
        call.exempt()
    (LargeFollowerFetch if is_follower else LargeFetch)(path, call, context).start()


#: The fields of a partition in a response up to the log start offset, from the version on that has this.
_FIRST_WITH_LOG_START = 5
_FIRST_FLEXIBLE = 12
_BEGINNING = ">ihqqq"


@remembered
def _packer(version: int, *, isolated: bool) -> tuple[Callable[..., bytes], bytes]:
    """Returns the function that packs a partition without records or an error, and its last argument. The others are the
    index, 0, the high watermark, the last stable offset and the log start offset.
    """
    encode = stepwise_element_encoder(FetchResponse, "responses", version)

    def encoded(partitions: list[PartitionData]) -> bytes:
        pieces: list[bytes] = []
        run_to_completion(encode(FetchableTopicResponse(partitions=partitions), pieces.append))
        return b"".join(pieces)

    tags = 1 if version >= _FIRST_FLEXIBLE else 0  # behind the partitions of a topic
    data = PartitionData(aborted_transactions=[] if isolated else None, records=b"")
    whole, without = encoded([data]), encoded([])
    end = whole[len(without) - tags + struct.calcsize(_BEGINNING) : len(whole) - tags]
    return struct.Struct(f"{_BEGINNING}{len(end)}s").pack, end


class QuietPartitions:
    """Encoded partitions of one topic, which have nothing new."""

    __slots__ = ("contents", "counters")

    def __init__(self, counters: TopicMetrics) -> None:
        self.contents: list[bytes] = []
        self.counters = counters


class LargeFetch(Fetch):
    __slots__ = ("_activations", "_chunk", "_is_attempting", "_packer", "_quiet", "_seen")

    def start(self) -> FetchResponse | None:
        self._call.hold_connection()
        self._call.request = None
        #: The partitions that are looked at now.
        self._chunk: list[FetchedPartition] = []
        #: Partitions that were looked at, each with its end then.
        self._seen: list[tuple[HostedPartition, int]] = []
        #: By topic, for each step: the partitions that are encoded already. None of them where there is no packer.
        self._quiet: list[dict[Topic, QuietPartitions]] = []
        self._packer = _packer(self._version, isolated=self._isolated) if self._encodes_quiet() else None
        self._begin()
        return None

    def _begin(self) -> None:
        self._is_attempting = True
        self._activations = self._activation_count()
        work_in_turns(self._call, self._attempt_in_steps(), self._attempted)

    def _continue(self) -> None:
        self._is_woken = False
        self._unwatch()
        if self._call.connection.closed:
            self._waits.deadlines.remove(self)
        else:
            self._begin()

    def expired(self) -> None:
        self._is_last = True
        if not self._is_woken and not self._is_attempting:
            self._continue()

    def _attempted(self, response: FetchResponse | None) -> None:
        call = self._call
        self._is_attempting = self._is_new = False
        if response is not None:
            self._waits.deadlines.remove(self)
            if self._packer is not None or is_large(response, _ARRAYS):
                call.announce_throttle(response)
                reply_in_slices(call, response, self._version, _PARTITIONS)
            else:
                call.reply(response)
            if self._context.session is None:
                call.connection.listener.shared.turns.free(self._context.partitions)
        elif self._is_warming:
            pass
        elif self._is_last or self._has_changed():
            self._begin()
        else:
            self._hosts = [hosted for hosted, _ in self._seen]
            self._watch()
            if self.deadline is None:
                self._waits.deadlines.add(self, self._max_wait_ms)

    def _encodes_quiet(self) -> bool:
        """Returns whether the response has all partitions, and too many to be encoded in one go."""
        context = self._context
        return (
            context.session is None
            and not context.opens_session
            and len(context.partitions) > PLAIN_RESPONSE_ITEMS
            and self._version >= _FIRST_WITH_LOG_START
            and self._replica_id < 0
            and not self._rack
            and not self._denied
        )

    def _activation_count(self) -> int:
        """Returns how often a partition that the fetch does not wait for itself has changed."""
        session = self._context.session
        return 0 if session is None else session.activations

    def _has_changed(self) -> bool:
        """Returns whether a partition has changed since it was looked at."""
        is_grown = any(hosted.log.log_end_offset != end for hosted, end in self._seen)
        return is_grown or self._activations != self._activation_count()

    def _wanted(self) -> Iterable[FetchedPartition]:
        return self._chunk

    def _attempt_in_steps(self) -> Steps[FetchResponse | None]:
        found: list[list[Found]] = []
        self._seen, self._quiet, found_bytes, has_error = [], [], 0, False
        try:
            for chunk in self._chunks():
                self._chunk = chunk
                left = max(0, self._max_bytes - found_bytes)
                some, size, is_urgent = self._look(left, whole_first=not found_bytes)
                self._seen += [(hosted, hosted.log.log_end_offset) for hosted in self._hosts]
                found.append(some)
                found_bytes, has_error = found_bytes + size, has_error or is_urgent
                yield
            if self._remote is not None and self._remote.is_pending:
                self._wait_for_remote()
                return None
            is_due = has_error or found_bytes >= self._min_bytes or self._max_wait_ms <= 0
            if is_due or self._is_last:
                return (yield from self._respond_in_steps(found))
        except NotInPageCache as cold:
            self._warm(cold)
            return None
        except Inspection as wanted:
            self._inspect(wanted)
            return None
        self._missing_bytes = self._min_bytes - found_bytes
        return None

    def _chunks(self) -> Iterator[list[FetchedPartition]]:
        """Yields the partitions that are looked at, some at a time. Where the others are encoded, `_quiet` has those of
        each time.
        """
        partitions = iter(list(super()._wanted()))
        while chunk := list(islice(partitions, LOOKED_AT_ONCE)):
            yield chunk if self._packer is None else self._without_quiet(chunk)

    def _finder(self) -> Callable[[PartitionKey], HostedPartition | None]:
        partitions = self._path.partitions
        return partitions.get_by_id if self._context.uses_topic_ids else partitions.get

    def _without_quiet(self, chunk: list[FetchedPartition]) -> list[FetchedPartition]:
        """Encodes the partitions that have nothing new. Returns the others."""
        find = self._finder()
        rest: list[FetchedPartition] = []
        quiet: dict[Topic, QuietPartitions] = {}
        seen, topic = self._seen, None
        for wanted in chunk:
            hosted = find(wanted.key)
            content = None if hosted is None else self._quiet_content(hosted, wanted)
            if hosted is None or content is None:
                rest.append(wanted)
                continue
            if wanted.key[0] is not topic:
                topic = wanted.key[0]
                run = quiet.setdefault(topic, QuietPartitions(hosted.counters))
                add = run.contents.append
            seen.append((hosted, hosted.log.log_end_offset))
            add(content)
        self._quiet.append(quiet)
        return rest

    def _quiet_content(self, hosted: HostedPartition, wanted: FetchedPartition) -> bytes | None:
        """Returns a partition encoded for the response; None if it has something new, or an error."""
        if not _has_nothing(hosted, wanted):
            return None
        assert self._packer is not None, "the response has all partitions"
        pack, end = self._packer
        high_watermark, log = hosted.role.high_watermark, hosted.log
        stable = log.last_stable_offset(high_watermark)
        if self._isolated and stable != high_watermark:
            return None
        return pack(hosted.index, 0, high_watermark, stable, log.log_start_offset, end)

    def _check_in_steps(self, found: list[list[Found]]) -> Steps[None]:
        """Raises NotInPageCache or Inspection before a part of the response is made, which notes in the session what it has.

        What leaves the page cache afterwards is waited for.
        """
        for some in found if self._pread is not os.pread else ():
            for one in some:
                check_readable(one)
            yield
        self._pread = os.pread

    def _respond_in_steps(self, found: list[list[Found]]) -> Steps[FetchResponse]:
        yield from self._check_in_steps(found)
        context = self._context
        whole = FetchResponse(session_id=INVALID_SESSION_ID)
        nodes: dict[int, NodeEndpoint] = {}
        if self._packer is not None:
            yield from self._respond_with_quiet(found, whole, nodes)
            return whole
        found.reverse()
        while True:
            part = self._respond(found.pop() if found else [])
            if part.error_code:
                return part
            whole.session_id = whole.session_id or part.session_id
            for topic in part.responses:
                last = whole.responses[-1] if whole.responses else None
                if last is not None and (last.topic, last.topic_id) == (topic.topic, topic.topic_id):
                    last.partitions += topic.partitions
                else:
                    whole.responses.append(topic)
            nodes.update((node.node_id, node) for node in part.node_endpoints)
            if context.opens_session:  # begun by the first part
                context.opens_session = False
                context.session = self._path.sessions.get(whole.session_id)
                if context.session is not None:
                    context.epoch = context.session.epoch
            if not found:
                whole.node_endpoints = list(nodes.values())
                return whole
            yield

    def _respond_with_quiet(
        self, found: list[list[Found]], whole: FetchResponse, nodes: dict[int, NodeEndpoint]
    ) -> Steps[None]:
        """Adds all partitions to the response, each topic once."""
        by_topic: dict[Topic, EncodedRuns] = {}
        uses_ids = self._context.uses_topic_ids

        def runs(topic: Topic) -> EncodedRuns:
            known = by_topic.get(topic)
            if known is None:
                known = by_topic[topic] = EncodedRuns()
                named = FetchableTopicResponse("", topic) if isinstance(topic, bytes) else FetchableTopicResponse(topic)
                named.partitions = known  # type: ignore[assignment]
                whole.responses.append(named)
            return known

        for some, quiet in zip(found, self._quiet, strict=True):
            part = self._respond(some)
            for responded in part.responses:
                runs(responded.topic_id if uses_ids else responded.topic).extend(responded.partitions)
            for topic, one in quiet.items():
                one.counters.fetches += len(one.contents)
                runs(topic).add(b"".join(one.contents), len(one.contents))
            nodes.update((node.node_id, node) for node in part.node_endpoints)
            yield
        whole.node_endpoints = list(nodes.values())


def _has_nothing(hosted: HostedPartition, wanted: FetchedPartition) -> bool:
    """Returns whether a consumer is at the high watermark of a partition that has no error for it."""
    role = hosted.role
    return (
        wanted.fetch_offset == role.high_watermark
        and role.is_leader
        and wanted.current_leader_epoch in (-1, role.leader_epoch)
        and wanted.last_fetched_epoch in (-1, hosted.log.epochs.latest)
        and not hosted.offline
    )


class LargeFollowerFetch(LargeFetch, FollowerFetch):
    __slots__ = ()


# ---- without a session: what was the same in the connection's last one is remembered
#
# The partitions of the request stay encoded (`protocol/encoded_fetch.py`). One that the connection remembers
# (`fetch_memories.py`) takes one look into a dictionary; the others are decoded, and remembered if they have nothing new.
# Only a partition whose last stable offset is the high watermark is remembered: a transaction can make it lower only below
# records that come later, and these move the high watermark. What a client may read is decided for each request: see
# `EncodedFetch`.


def _remembers(path: FetchPath, request: FetchRequest, version: int, *, is_follower: bool) -> bool:
    """Returns whether a Fetch is of the kind that is remembered: of a consumer without a session, and its response has
    what the partitions' leaders have.
    """
    topics = request.topics
    return (
        not is_follower
        and request.session_epoch == FINAL_EPOCH
        and version >= _FIRST_WITH_LOG_START
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
