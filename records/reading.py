"""Reads records with confluent-kafka: of chosen partitions without a group, or as a member of one."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from ..admin.connection import Connection
from ..admin.places import Place
from ..admin.positions import BEGINNING, END, STORED, TAIL, Position
from ..client.error_kinds import ErrorKind, kind_of_code
from ..client.explained_errors import from_library_at, of_librdkafka
from ..client.groupless import GROUPLESS, of_partitions
from ..client.suggestions import did_you_mean
from ..client.user_errors import Misused, UserError
from ..protocol.errors import ErrorCode
from .selection import Selection

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message, TopicPartition
    from confluent_kafka.admin._metadata import ClusterMetadata, TopicMetadata

    from .consumed import ConsumedRecord


#: Records in one batch; each is an object until it is written.
_BATCH = 10_000
#: A call of the library fills a batch or waits so long: it delays the end of a read, not its records.
_WAIT_S = 0.02
_EOF, _ALL_BROKERS_DOWN = -191, -187
#: Limit of one call for metadata.
_CALL_S = 0.5
#: Limit of the time in which a broker proves that not all are down.
_LOST_S = 2.0
#: Partitions that a note names; it counts the others.
_MOST_NAMED = 5
_SETTINGS: dict[str, object] = GROUPLESS | {
    "enable.partition.eof": True,
    "allow.auto.create.topics": False,
    # A full queue would make librdkafka pause for a second.
    "fetch.queue.backoff.ms": 5,
    "fetch.wait.max.ms": 100,
}


class Reader:
    """`batches()` yields lists of messages without errors, in the order of each partition, until the selection ends.

    `note` gets a line where the selection asks for offsets that a partition does not have.
    """

    def __init__(
        self,
        connection: Connection,
        selection: Selection,
        note: Callable[[str], None] = lambda line: None,
        more_settings: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        from confluent_kafka import Consumer

        self.selection = selection
        self._note = note
        self._connection = connection
        self._open: set[Place] = set()
        self._is_assigned = False
        self._lost: UserError | None = None
        own = {
            "isolation.level": "read_committed" if selection.committed else "read_uncommitted",
            "auto.offset.reset": _reset_of(selection.start),
        }
        self._ranges: Mapping[Place, tuple[int, int]] = {}
        settings = (
            GROUPLESS | _SETTINGS | own | dict(more_settings) | connection.librdkafka() | {"error_cb": self._note_error}
        )
        if selection.group is not None:
            settings["group.id"] = selection.group
        #: Members of the consumer protocol (KIP-848) and of cooperative assignors get partitions in addition to theirs.
        self._is_incremental = (
            str(settings.get("group.protocol", "")).lower() == "consumer"
            or str(settings.get("partition.assignment.strategy", "")).lower() == "cooperative-sticky"
        )
        self._consumer = Consumer(settings)

    def _note_error(self, error: KafkaError) -> None:
        if error.fatal() or error.code() == _ALL_BROKERS_DOWN or kind_of_code(error.code()) == ErrorKind.DENIED:
            self._lost = of_librdkafka(error)

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._consumer.close()

    # ---- partitions

    def begin(self) -> None:
        """Assigns partitions, or joins the group. Raises UserError for a topic that does not exist."""
        partitions = self._partitions()
        if self.selection.group is not None:
            if self.selection.partitions:
                raise Misused("--partition and --group exclude each other: a group assigns its members' partitions")
            self._consumer.subscribe(list(self.selection.topics), on_assign=self._assigned, on_revoke=self._revoked)
        else:
            self._take(partitions)

    def begin_within(self, ranges: Mapping[Place, tuple[int, int]]) -> None:
        """Assigns partitions: each from the first offset to before the second. May be called again with other ranges."""
        from confluent_kafka import TopicPartition

        self._ranges = ranges
        self._take_at([TopicPartition(*place, low) for place, (low, _) in ranges.items()])

    def offsets_at(self, places: Iterable[Place], position: int) -> dict[Place, int]:
        """Offsets of BEGINNING or END, or of the first record at or after a time in ms, which is END when there is none.
        Partitions without a leader are left out.
        """
        from confluent_kafka import TopicPartition

        asked = [TopicPartition(*place, position) for place in places]
        found = self._consumer.offsets_for_times(asked, timeout=self._connection.timeout_s) if asked else []
        return {(one.topic, one.partition): one.offset for one in found if one.error is None}

    def _partitions(self) -> list[TopicPartition]:
        from confluent_kafka import TopicPartition

        found = []
        for topic in self.selection.topics:
            described = self.described(topic)
            known = sorted(described.partitions)
            for partition in self.selection.partitions or known:
                if partition not in described.partitions:
                    raise UserError(
                        f"{topic} has no partition {partition}, but 0 to {len(known) - 1}", ErrorKind.NOT_FOUND
                    )
                found.append(TopicPartition(topic, partition))
        return found

    def described(self, topic: str) -> TopicMetadata:
        """The metadata of a topic. Raises UserError for one that does not exist."""
        described: TopicMetadata = self._metadata(topic).topics[topic]
        if described.error is not None:
            if described.error.code() == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise self._missing(topic)
            raise UserError(f"topic {topic}: {described.error.str()}", kind_of_code(described.error.code()))
        return described

    def _missing(self, topic: str) -> UserError:
        known = self._consumer.list_topics(timeout=self._connection.timeout_s).topics
        hint = did_you_mean(topic, known)
        return UserError(
            f"topic {topic} does not exist{hint or '; `odradek topic list` lists the topics'}", ErrorKind.NOT_FOUND
        )

    def _metadata(self, topic: str) -> ClusterMetadata:
        """Requests metadata in short calls: the library reports a rejected login only between them."""
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + self._connection.timeout_s
        while True:
            try:
                timeout_s = min(_CALL_S, self._connection.timeout_s)
                found: ClusterMetadata = self._consumer.list_topics(topic, timeout=timeout_s)
                return found
            except KafkaException as error:
                if not self._is_assigned:  # else a record would come with the errors
                    self._consumer.poll(0)
                if self._lost is not None and self._lost.kind == ErrorKind.DENIED:
                    raise self._lost from None
                if time.monotonic() > deadline:
                    raise from_library_at(error, self._connection.bootstrap) or error from None

    def _take(self, partitions: list[TopicPartition]) -> None:
        self._take_at(self._placed(partitions))

    def _take_at(self, placed: list[TopicPartition]) -> None:
        self._open = {(one.topic, one.partition) for one in placed}
        self._is_assigned = True
        self._consumer.assign(placed)

    def _placed(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """The partitions with the offsets that the selection begins at."""
        from confluent_kafka import TopicPartition

        start = self.selection.start
        if start.timestamp_ms is not None:
            asked = [TopicPartition(one.topic, one.partition, start.timestamp_ms) for one in partitions]
            return list(self._consumer.offsets_for_times(asked, timeout=self._connection.timeout_s)) if asked else []
        offset = start.offset if start.offset is not None else END
        if offset >= 0:
            return self._within_logs(partitions, offset)
        if offset < TAIL:
            return self._tails(partitions, TAIL - offset)
        return [TopicPartition(one.topic, one.partition, offset) for one in partitions]

    def _tails(self, partitions: list[TopicPartition], count: int) -> list[TopicPartition]:
        """The partitions at the first of their last records; without a leader now, so many offsets before the end."""
        from confluent_kafka import TopicPartition

        from .tail import tail_starts

        places = [(one.topic, one.partition) for one in partitions]
        reader = Reader(self._connection, replace(self.selection, follow=False, until=None, count=None, group=None))
        try:
            starts = tail_starts(reader, places, count)
        finally:
            reader.close()
        return [TopicPartition(*place, starts.get(place, TAIL - count)) for place in places]

    def _within_logs(self, partitions: list[TopicPartition], offset: int) -> list[TopicPartition]:
        """The partitions at an offset, or at the end of their log that is nearest to it, with a note."""
        from confluent_kafka import TopicPartition

        first, last = self._bounds(partitions, BEGINNING), self._bounds(partitions, END)
        placed = []
        for one in partitions:
            place = (one.topic, one.partition)
            low, high = first.get(place, offset), last.get(place, offset)
            placed.append(TopicPartition(one.topic, one.partition, max(low, min(offset, high))))
        waits = "waiting for new records" if self.selection.follow else "nothing to read there"
        for note in range_notes(offset, first, last, waits):
            self._note(note)
        return placed

    def _bounds(self, partitions: list[TopicPartition], end: int) -> dict[Place, int]:
        """First or next offsets, without partitions that have no leader now."""
        found = self.offsets_at([(one.topic, one.partition) for one in partitions], end)
        return {place: offset for place, offset in found.items() if offset >= 0}

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._is_assigned = True
        self._open |= {(one.topic, one.partition) for one in partitions}
        if self.selection.start.offset != STORED:
            assign = consumer.incremental_assign if self._is_incremental else consumer.assign
            assign(self._placed(partitions))

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._open -= {(one.topic, one.partition) for one in partitions}

    # ---- records

    def batches(self, most: int) -> Iterator[list[ConsumedRecord]]:
        """Batches of `most` records at most; empty ones while nothing comes."""
        until = self._ends()
        deadline = time.monotonic() + self._connection.timeout_s
        while True:
            messages = self._consumer.consume(min(most, _BATCH), _WAIT_S)
            if self.selection.group is None:
                messages = of_partitions(messages)
            found = cast("list[ConsumedRecord]", [message for message in messages if message.error() is None])
            if len(found) < len(messages):
                for message in messages:
                    if (error := message.error()) is not None:
                        self._handle(message, error)
            if until is not None:
                found = [message for message in found if self._is_before(message, until)]
            if self._ranges:
                found = [message for message in found if self._is_in_range(message)]
            if messages:
                deadline = time.monotonic() + self._connection.timeout_s
            yield found
            if self._is_assigned and not self._open and not self.selection.follow:
                return
            if self._lost is not None and not messages:
                self._check_lost(self._lost)
            if not self.selection.follow and time.monotonic() > deadline:
                raise UserError(
                    f"no response for {self._connection.timeout_s:g} s; check the brokers", ErrorKind.UNREACHABLE
                )

    def _check_lost(self, error: UserError) -> None:
        """Raises the error, unless its text is that all brokers are down, and one responds: librdkafka reports this when the
        first of the addresses is of a dead broker, and before it connects to the second.
        """
        from confluent_kafka import KafkaException

        if error.kind == ErrorKind.UNREACHABLE:
            with contextlib.suppress(KafkaException):
                self._consumer.list_topics(self.selection.topics[0], timeout=min(_LOST_S, self._connection.timeout_s))
                self._lost = None
                return
        raise error

    def _handle(self, message: Message, error: KafkaError) -> None:
        if error.code() == _EOF:
            self._lost = None
            if not self.selection.follow:
                self._open.discard((str(message.topic()), message.partition() or 0))
        elif not error.retriable() and error.code() != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise UserError(f"{self._subject(message)}: {_words(error)}", kind_of_code(error.code()))
        elif error.code() == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise UserError(f"topic {message.topic()} does not exist", ErrorKind.NOT_FOUND)

    def _subject(self, message: Message) -> str:
        """The partition that an error is of; the group where it is of none."""
        if message.topic() is None:
            return f"group {self.selection.group}"
        return f"{message.topic()}-{message.partition()}"

    def _ends(self) -> Position | None:
        until = self.selection.until
        if until is not None and until.timestamp_ms is None and (until.offset is None or until.offset < 0):
            if until.offset == END:
                return None
            raise Misused("--until needs an offset or @TIME")
        return until

    def _is_before(self, message: ConsumedRecord, until: Position) -> bool:
        if until.timestamp_ms is not None:
            past = message.timestamp()[1] >= until.timestamp_ms
        else:
            past = until.offset is not None and message.offset() >= until.offset
        if past:
            self._open.discard((message.topic(), message.partition()))
        return not past

    def _is_in_range(self, message: ConsumedRecord) -> bool:
        place, offset = (message.topic(), message.partition()), message.offset()
        low, high = self._ranges[place]
        if offset >= high - 1:
            self._open.discard(place)
        return bool(low <= offset < high)

    def commit(self, offsets: dict[tuple[str, int], int], *, is_last: bool) -> None:
        """Commits the group's positions: the offset after the last record that was written."""
        from confluent_kafka import TopicPartition

        if self.selection.group is None or not offsets:
            return
        places = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
        if is_last:
            self._consumer.commit(offsets=places, asynchronous=False)
        else:
            self._consumer.commit(offsets=places, asynchronous=True)


def _words(error: KafkaError) -> str:
    """The words of the error without those of the request that has it in its response."""
    return str(error.str()).rpartition(" response error: ")[2].rstrip(".")


def _reset_of(start: Position) -> str:
    """The value of auto.offset.reset: a read from an offset that is deleted meanwhile fails, and skips nothing."""
    if start.offset == END:
        return "latest"
    return "error" if start.offset is not None and start.offset >= 0 else "earliest"


def range_notes(offset: int, first: Mapping[Place, int], last: Mapping[Place, int], waits: str) -> list[str]:
    """Lines for partitions whose log does not have the offset. `waits`: what happens where it is past the end."""
    past = [f"{topic}-{index} ends at {high}" for (topic, index), high in last.items() if offset > high]
    deleted = [f"{topic}-{index} begins at {low}" for (topic, index), low in first.items() if offset < low]
    notes = [f"offset {offset} is past the end: {_some(past)}; {waits}"] if past else []
    return notes + ([f"offset {offset} is deleted: {_some(deleted)}; reading from there"] if deleted else [])


def _some(words: list[str]) -> str:
    more = f" and {len(words) - _MOST_NAMED} more" if len(words) > _MOST_NAMED else ""
    return ", ".join(words[:_MOST_NAMED]) + more
