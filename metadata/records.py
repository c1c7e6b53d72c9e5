"""The framing of metadata records: encoding a message as a record value of `__cluster_metadata`, and decoding it.

A value is three unsigned varints (frame version, record key, record version) and the message.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..protocol.codec import MalformedMessage, decode, encode
from ..protocol.internal import cluster_metadata as records
from ..protocol.internal.cluster_metadata import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord
from ..protocol.schema import Message
from ..protocol.varint import Buffer, encode_varint, varint
from . import metadata_version as levels

_FRAME_VERSION = 1

#: Record key to message class.
RECORD_CLASSES: dict[int, type[Message]] = {
    value.SCHEMA.key: value
    for value in vars(records).values()
    if isinstance(value, type) and issubclass(value, Message) and value is not Message and value.SCHEMA.key is not None
}

#: The metadata.version from which a record version above 0 is written, highest first; only for records that have one.
_WRITTEN_VERSIONS: dict[type[Message], tuple[tuple[int, int], ...]] = {
    records.RegisterBrokerRecord: (
        (levels.CORDONED_LOG_DIRS, 4),
        (levels.DIRECTORY_ASSIGNMENT, 3),
        (levels.ZK_MIGRATION, 2),
        (levels.MINIMUM, 1),
    ),
    records.PartitionRecord: ((levels.ELIGIBLE_LEADER_REPLICAS, 2), (levels.DIRECTORY_ASSIGNMENT, 1)),
    records.PartitionChangeRecord: ((levels.ELIGIBLE_LEADER_REPLICAS, 2), (levels.DIRECTORY_ASSIGNMENT, 1)),
}


def record_version(message: Message, metadata_version: int) -> int:
    """Returns the version in which a record is written at this `metadata_version`."""
    if isinstance(message, records.BrokerRegistrationChangeRecord):
        return _change_version(message)
    for level, version in _WRITTEN_VERSIONS.get(type(message), ()):
        if metadata_version >= level:
            return version
    return 0


def _change_version(change: records.BrokerRegistrationChangeRecord) -> int:
    """Returns the lowest version that has the fields in use, as Kafka writes it."""
    if change.cordoned_log_dirs is not None:
        return 3
    if change.log_dirs:
        return 2
    return 1 if change.in_controlled_shutdown else 0


def encode_record(message: Message, metadata_version: int) -> bytes:
    """Encodes the value of a record of the metadata log."""
    cls = type(message)
    version = record_version(message, metadata_version)
    key = cls.SCHEMA.key
    assert key is not None, f"{cls.__name__} is not a metadata record"
    return bytes((_FRAME_VERSION,)) + encode_varint(key) + encode_varint(version) + encode(message, version)


def decode_record(value: Buffer) -> Message:
    """Decodes a record value. Raises MalformedMessage if it is not a known metadata record."""
    try:
        frame_version, position = varint(value, 0)
        key, position = varint(value, position)
        version, position = varint(value, position)
    except (ValueError, IndexError):
        raise MalformedMessage("the frame of a metadata record is cut short") from None
    cls = RECORD_CLASSES.get(key)
    if frame_version != _FRAME_VERSION or cls is None or version not in cls.SCHEMA.versions:
        raise MalformedMessage(f"unknown metadata record: frame {frame_version}, key {key}, version {version}")
    message, end = decode(cls, version, value, position)
    if end != len(value):
        raise MalformedMessage(f"{len(value) - end} bytes after a {cls.__name__}")
    return message


# Transactions of metadata records (KIP-868): records between Begin and End take effect together, or not at all after
# Abort.


class MetadataTransactions:
    """A stage between the log and a delta: holds back the records of a transaction until it ends."""

    def __init__(self) -> None:
        self._held: list[Message] | None = None

    @property
    def is_open(self) -> bool:
        return self._held is not None

    def take(self, record: Message) -> Sequence[Message]:
        """Takes the next record of the log. Returns the records to replay now."""
        if isinstance(record, BeginTransactionRecord):
            assert self._held is None, "a transaction of metadata begins inside another"
            self._held = []
            return ()
        if isinstance(record, EndTransactionRecord | AbortTransactionRecord):
            held, self._held = self._held, None
            assert held is not None, "a transaction of metadata ends that has not begun"
            return held if isinstance(record, EndTransactionRecord) else ()
        if self._held is None:
            return (record,)
        self._held.append(record)
        return ()
