"""The records of transactions in `__transaction_state`, `__consumer_offsets` and data topics, as plain values.

After the same requests two brokers have equal records, field by field, except for times and generated ids.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from odradek.coordinator import transaction_records as of_transactions
from odradek.protocol.records.batch import BatchHeader
from odradek.protocol.records.control import decode_control
from odradek.protocol.records.record import Record
from odradek.protocol.schema import Message

from tests.coordinator.harness.kinds import decode_record

from ..batches import partition_count, read_batches, topic_names
from .topic_names import TopicNames

_IDS = ("producer_id", "previous_producer_id", "next_producer_id")
_TIMES = ("transaction_last_update_timestamp_ms", "transaction_start_timestamp_ms", "commit_timestamp")

#: Transactional id, producer or partition -> its records, in order.
History = dict[str, list[Any]]


@dataclass
class Internals:
    """The records of one run. `mark` is in every name of the run; other records are left out."""

    bootstrap: str
    mark: str
    states: History = field(default_factory=lambda: defaultdict(list))
    offsets: History = field(default_factory=lambda: defaultdict(list))
    topics: History = field(default_factory=lambda: defaultdict(list))
    #: Producer id -> its name: the transactional id, and the number of the producer id under it.
    _producers: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._names = TopicNames(self.bootstrap)

    def read(self) -> Internals:
        for header, record in self._records("__transaction_state"):
            self._take_state(header, record)
        for header, record in self._records("__consumer_offsets"):
            self._take_offset(header, record)
        for topic in topic_names(self.bootstrap):
            if self.mark in topic:
                self._take_topic(topic)
        return self

    def _take_topic(self, topic: str) -> None:
        """Takes the headers of the topic's batches, and its markers."""
        for index in range(partition_count(self.bootstrap, topic)):
            for header, records in read_batches(self.bootstrap, topic, index):
                self.topics[f"{topic}-{index}"].append(self._header(header, records[0]))

    def _records(self, topic: str) -> Iterator[tuple[BatchHeader, Record]]:
        for index in range(partition_count(self.bootstrap, topic)):
            for header, records in read_batches(self.bootstrap, topic, index):
                for record in records:
                    yield header, record

    def _take_state(self, header: BatchHeader, record: Record) -> None:
        assert record.key is not None and not header.has_producer_id
        key, value, version, *_ = of_transactions.decode_record(record.key, record.value)
        name = key.transactional_id  # type: ignore[attr-defined]
        if self.mark not in name:
            return
        if value is not None:
            known = [one for one in self._producers.values() if one.startswith(f"{name}/")]
            self._producers.setdefault(value.producer_id, f"{name}/{len(known)}")  # type: ignore[attr-defined]
        self.states[name].append((version, self._words(value)))

    def _take_offset(self, header: BatchHeader, record: Record) -> None:
        producer = self._producers.get(header.producer_id)
        if header.is_control:
            if producer is not None:
                self.offsets[producer].append(self._header(header, record))
            return
        assert record.key is not None
        key, value, version, *_ = decode_record(record.key, record.value)
        if self.mark in getattr(key, "group", ""):
            place = (*self._header(header, record), key.topic, key.partition)  # type: ignore[attr-defined]
            self.offsets[producer or "outside"].append((place, version, self._words(value)))

    def _header(self, header: BatchHeader, record: Record) -> tuple[Any, ...]:
        control = decode_control(record.key, record.value) if header.is_control else None
        producer = self._producers.get(header.producer_id, "none" if header.producer_id < 0 else "unknown")
        kept = (header.attributes, producer, header.producer_epoch, header.base_sequence, header.leader_epoch)
        return (*kept, control and (control.type.name, self._words(control.message)))

    def _words(self, message: Message | None) -> Any:
        """Returns every field of a message."""
        if message is None:
            return None
        return {one.name: self._word(message, one.name) for one in message.SCHEMA.fields}

    def _word(self, message: Message, name: str) -> Any:
        value = getattr(message, name)
        if name == "topic_id":
            return self._names.of_id(value)
        if name in _IDS:
            return self._producers.get(value, value) if value >= 0 else value
        if name in _TIMES:
            return "a time" if value >= 0 else value
        if isinstance(value, list):
            return sorted((self._words(one) if isinstance(one, Message) else one for one in value), key=str)
        return value


def differences(theirs: History, ours: History) -> Iterator[str]:
    """Yields a line for each difference, the value of `theirs` first."""
    for name in sorted(theirs.keys() | ours.keys()):
        pairs = zip_longest(theirs.get(name, ()), ours.get(name, ()), fillvalue=())
        for number, (their, our) in enumerate(pairs):
            a, b = dict(_flat("", their)), dict(_flat("", our))
            for path in sorted(a.keys() | b.keys()):
                if a.get(path) != b.get(path):
                    yield f"{name} | record {number} | {path}: {a.get(path)!r} but {b.get(path)!r}"


def _flat(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict | list | tuple):
        entries = value.items() if isinstance(value, dict) else enumerate(value)
        for key, one in entries:
            yield from _flat(f"{path}.{key}" if path else str(key), one)
    else:
        yield path, value
