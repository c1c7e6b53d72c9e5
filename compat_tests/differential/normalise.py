"""A response as {path: value}, with placeholders for values that differ between any two brokers.

An id becomes the name under which a step kept it, else its kind and the order of its first appearance. So an id that must
occur twice is still compared. Times become `<time>` unless they are the sentinel. Lists are sorted by name, since Kafka
orders some at random. A record batch becomes the fields of its header and a hash of its records.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Any

from odradek.protocol.messages.fetch import FetchableTopicResponse
from odradek.protocol.records import batch as batch_format
from odradek.protocol.records.batch import TimestampType
from odradek.protocol.schema import RECORDS, Field, Message
from odradek.protocol.uuids import ZERO_UUID, uuid_to_text

#: Field -> the kind of id it is. An empty or negative value stands for "none" and is compared as it is.
IDS = {
    "topic_id": "topic",
    "cluster_id": "cluster",
    "member_id": "member",
    "leader": "member",
    "producer_id": "producer",
    "session_id": "session",
    "client_instance_id": "instance",
    "replica_directory_id": "directory",
    "port": "port",
    "log_dir": "directory",
}
TIMES = {
    "log_append_time_ms",
    "last_fetch_timestamp",
    "last_caught_up_timestamp",
    "last_timestamp",
    "transaction_start_time_ms",
}
#: Fields about the machine, not about the broker.
ENVIRONMENT = {"total_bytes", "usable_bytes"}
#: Response -> fields that are not compared: positions in the metadata log, which every heartbeat moves; the controller's
#: host, which the test configures; the id of a telemetry subscription.
UNSTEADY = {
    "GetTelemetrySubscriptionsResponse": {"subscription_id"},
    "ApiVersionsResponse": {"finalized_features_epoch"},
    "DescribeQuorumResponse": {"high_watermark", "log_end_offset", "leader_epoch", "host"},
}
#: Fields that identify an element of a list; the first that the element has counts.
KEYS = (
    "transactional_id", "name", "topic", "topic_name", "topic_id", "group_id", "key", "api_key", "feature", "resource_name",
    "log_dir", "index", "partition_index", "partition", "partition_id", "broker_id", "node_id", "replica_id", "member_id",
    "entity_type", "mechanism",
)  # fmt: skip

#: A number in a text that is a time or a producer id, or is computed from one.
_LONG_NUMBER = re.compile(r"-?\d{12,}")

Flat = dict[str, Any]


class Names:
    """The names for the ids of one broker in one run of a scenario."""

    def __init__(self) -> None:
        self._names: dict[Any, str] = {}
        self._counts: dict[str, int] = {}
        #: Fields of the current response that are not compared.
        self.unsteady: set[str] = set()

    def keep(self, name: str, value: Any) -> None:
        if isinstance(value, int):
            return  # an epoch must not rename equal numbers in other fields
        self._names.setdefault(value, f"<{name}>")

    def of(self, kind: str, value: Any) -> Any:
        if value in ("", None, ZERO_UUID) or (isinstance(value, int) and value < (0 if kind == "producer" else 1)):
            return value
        if value not in self._names:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._names[value] = f"<{kind} {self._counts[kind]}>"
        return self._names[value]

    def within(self, text: str) -> str:
        """Returns a text with its ids replaced by their names."""
        for value, name in self._names.items():
            raw = uuid_to_text(value) if isinstance(value, bytes) and len(value) == 16 else value
            if isinstance(raw, str) and len(raw) >= 8:
                text = text.replace(raw, name)
        return _LONG_NUMBER.sub("<number>", text)


def flatten(response: Message, version: int, names: Names) -> Flat:
    names.unsteady = UNSTEADY.get(type(response).__name__, set())
    return dict(_pairs(response, version, names, ""))


def _pairs(value: Message, version: int, names: Names, path: str) -> Iterator[tuple[str, Any]]:
    for field in value.SCHEMA.fields:
        if version in field.versions:
            yield from _field(field, getattr(value, field.name), version, names, f"{path}.{field.name}".lstrip("."))
    if value.unknown_tags:
        yield f"{path}.unknown_tags", sorted(value.unknown_tags)


def _field(field: Field, value: Any, version: int, names: Names, path: str) -> Iterable[tuple[str, Any]]:
    if isinstance(value, Message):
        return _pairs(value, version, names, path)
    if isinstance(value, list):
        return _elements(value, version, names, path)
    if field.type is RECORDS:
        return _batches(value, names, path)
    return ((path, plain(field.name, value, names)),)


def plain(name: str, value: Any, names: Names) -> Any:
    """Returns a value of a field in the form that is compared."""
    if name in IDS:
        return names.of(IDS[name], value)
    if name in TIMES:
        return value if value < 0 else "<time>"
    if name == "throttle_time_ms":
        return value and "<throttled>"
    if name in names.unsteady:
        return "<changing>"
    if name in ENVIRONMENT:
        return value if value < 0 else "<bytes>"
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    return names.within(value) if isinstance(value, str) else value


def _elements(values: list[Any], version: int, names: Names, path: str) -> Iterator[tuple[str, Any]]:
    values = _merged(values)
    yield f"{path}.length", len(values)
    if not values or not isinstance(values[0], Message):
        yield path, sorted(values, key=repr)
        return
    keyed = sorted(((_key(value, version, names), value) for value in values), key=lambda pair: repr(pair[0]))
    labels = [str(n) if key is None else str(key) for n, (key, _) in enumerate(keyed)]
    for n, (_, value) in enumerate(keyed):
        label = labels[n] if labels.count(labels[n]) == 1 else f"{labels[n]}#{labels[:n].count(labels[n])}"
        yield from _pairs(value, version, names, f"{path}[{label}]")


def _merged(values: list[Any]) -> list[Any]:
    """Merges the entries of each topic: a Fetch response may have several."""
    if not values or not isinstance(values[0], FetchableTopicResponse):
        return values
    found: dict[tuple[str, bytes], FetchableTopicResponse] = {}
    for value in values:
        known = found.setdefault(
            (value.topic, value.topic_id), FetchableTopicResponse(topic=value.topic, topic_id=value.topic_id)
        )
        known.partitions += value.partitions
    return list(found.values())


def _key(value: Message, version: int, names: Names) -> Any:
    present = {field.name for field in value.SCHEMA.fields if version in field.versions}
    for name in KEYS:
        if name in present and (found := getattr(value, name)) not in (None, ""):
            return plain(name, found, names)
    if "entity" in present:  # a quota
        return "+".join(sorted(f"{part.entity_type}={part.entity_name}" for part in value.entity))  # type: ignore[attr-defined]
    return None


def _batches(records: Any, names: Names, path: str) -> Iterator[tuple[str, Any]]:
    if records is None:
        yield path, None
        return
    data, pos, number = bytes(records), 0, 0
    while pos < len(data):
        remaining = len(data) - pos
        if remaining < batch_format.HEADER_BYTES or remaining < batch_format.read_header(data, pos).size:
            break  # Kafka cuts the last batch at the size limit; clients drop the part
        header = batch_format.read_header(data, pos)
        yield from _batch(data[pos : pos + header.size], header, names, f"{path}[{number}]")
        pos, number = pos + header.size, number + 1
    yield f"{path}.batches", number


def _batch(data: bytes, header: batch_format.BatchHeader, names: Names, path: str) -> Iterator[tuple[str, Any]]:
    # Markers and batches with log-append time carry the broker's own time.
    own_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME or header.is_control
    has_producer = header.producer_id >= 0
    reported = header._asdict() | {
        "crc": "<of what differs>" if own_time or has_producer else header.crc,
        "base_timestamp": "<time>" if header.is_control else header.base_timestamp,
        "max_timestamp": "<time>" if own_time else header.max_timestamp,
        "producer_id": names.of("producer", header.producer_id),
    }
    for name, value in reported.items():
        yield f"{path}.{name}", value
    yield f"{path}.records", hashlib.sha256(data[batch_format.HEADER_BYTES :]).hexdigest()[:16]
