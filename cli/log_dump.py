"""Files of a data directory as rows: batches and records of segments and snapshots, entries of indexes, checkpoints.

- `decoder_of`: decodes keys and values of records to JSON's types: those of internal topics by their tables, others
  as text or base64.
- `rows_of`: the rows of a file. A row is a mapping whose `kind` names it. Files are read in pieces; nothing is
  changed, and a broker may run meanwhile.
"""

from __future__ import annotations

import base64
import dataclasses
import enum
import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ..coordinator.result import UnknownRecord
from ..protocol.codec import MalformedMessage
from ..protocol.records.batch import CONTROL_FLAG, TRANSACTIONAL_FLAG, BatchHeader, read_header
from ..protocol.records.control import decode_control
from ..protocol.records.errors import CorruptBatch, InvalidBatch, OldFormatInLog, UnsupportedCompression
from ..protocol.records.record import decode_batch
from ..protocol.uuids import UUID_BYTES, uuid_to_text
from ..storage.files.open_files import PartitionDirectory, base_offset_of
from ..storage.segments.batches import batches_of
from ..storage.segments.index import CorruptSnapshot, decode_snapshot, read_aborted

if TYPE_CHECKING:
    from ..protocol.json_value import JsonObject, JsonValue

# ---- keys and values

Decode = Callable[[bytes | None, bytes | None, bool], "JsonObject"]
"""Takes key, value, and whether they are of a control batch."""


def plain_content(content: object) -> JsonValue:
    """A message as nested mappings. Fields of 16 bytes whose names end with id are UUIDs."""
    if dataclasses.is_dataclass(content) and not isinstance(content, type):
        named = ((one.name, getattr(content, one.name)) for one in dataclasses.fields(content))
        return {name: _field(name, value) for name, value in named if name != "unknown_tags" or value}
    if isinstance(content, list | tuple):
        return [plain_content(one) for one in content]
    if isinstance(content, enum.Enum):
        return content.name
    if isinstance(content, bytes | memoryview | bytearray):
        return as_text(bytes(content))
    return content if content is None or isinstance(content, str | int | float) else str(content)


def _field(name: str, content: object) -> JsonValue:
    if name.endswith(("id", "ids", "directories", "assignments")):
        if isinstance(content, bytes) and len(content) == UUID_BYTES:
            return uuid_to_text(content)
        if isinstance(content, list | tuple) and all(
            isinstance(one, bytes) and len(one) == UUID_BYTES for one in content
        ):
            return [uuid_to_text(one) for one in content]
    return plain_content(content)


def as_text(content: bytes | None) -> JsonValue:
    """Text, or base64 in a mapping for bytes that are no printable text."""
    if content is None:
        return None
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}
    if all(one.isprintable() or one in "\t\r\n" for one in text):
        return text
    return {"base64": base64.b64encode(content).decode()}


def decoder_of(topic: str | None) -> Decode:
    """The decoder for records of a topic; None: not known."""
    if topic == "__cluster_metadata":
        return _with_control(_metadata)
    framed = _FRAMED.get(topic or "")
    if framed is not None:
        return _with_control(framed())
    return _with_control(_undecoded_texts)


def _with_control(decode: Callable[[bytes | None, bytes | None], JsonObject]) -> Decode:
    def decoded(key: bytes | None, value: bytes | None, is_control: bool) -> JsonObject:
        try:
            if not is_control:
                return decode(key, value)
            control = decode_control(key, value)
            if control is not None:
                return {"control": control.type.name, "value": plain_content(control.message)}
        except (MalformedMessage, UnknownRecord, InvalidBatch, ValueError) as error:
            return {**_undecoded_texts(key, value), "undecoded": str(error)}
        return _undecoded_texts(key, value)

    return decoded


def _undecoded_texts(key: bytes | None, value: bytes | None) -> JsonObject:
    return {"key": as_text(key), "value": as_text(value)}


def _metadata(key: bytes | None, value: bytes | None) -> JsonObject:
    from ..metadata.records import decode_record

    message = decode_record(value or b"")
    return {"type": type(message).__name__, "value": plain_content(message)}


class KeyedRecord(Protocol):
    @property
    def key(self) -> object: ...

    @property
    def value(self) -> object: ...


def _framed(decode: Callable[[bytes, bytes | None], KeyedRecord]) -> Callable[[bytes | None, bytes | None], JsonObject]:
    def decoded(key: bytes | None, value: bytes | None) -> JsonObject:
        record = decode(key or b"", value)
        name = type(record.key).__name__.removesuffix("Key")
        return {"type": name, "key": plain_content(record.key), "value": plain_content(record.value)}

    return decoded


def _groups() -> Callable[[bytes | None, bytes | None], JsonObject]:
    from ..coordinator.groups.shard import decode_record

    return _framed(decode_record)


def _transactions() -> Callable[[bytes | None, bytes | None], JsonObject]:
    from ..coordinator.transaction import decode_record

    return _framed(decode_record)


def _share_state() -> Callable[[bytes | None, bytes | None], JsonObject]:
    from ..coordinator.share_state import decode_record

    return _framed(decode_record)


_FRAMED = {
    "__consumer_offsets": _groups,
    "__transaction_state": _transactions,
    "__share_group_state": _share_state,
}


# ---- rows

Row = dict[str, "JsonValue"]

_SNAPSHOT_OF_METADATA = re.compile(r"\d{20}-\d{10}\.checkpoint")
_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_INDEX_PIECE_BYTES = 1 << 20
#: Limit of a text file or a producer snapshot.
_MOST_BYTES = 64 << 20


class Selection:
    """`records`: those of each batch, too. `first` and `last`: only batches with offsets between, both included."""

    def __init__(self, *, records: bool, first: int = 0, last: int = (1 << 63) - 1) -> None:
        self.records, self.first, self.last = records, first, last


def rows_of(path: Path, selection: Selection, decode: Decode) -> Iterator[Row]:
    """Rows of one file. Raises OSError, and ValueError for a file that is none of a data directory."""
    name = path.name
    if name.endswith(".log") or _SNAPSHOT_OF_METADATA.fullmatch(name):
        yield from _segment(path, selection, decode)
    elif name.endswith((".index", ".timeindex", ".txnindex", ".snapshot")):
        yield from _INDEXES[path.suffix](path)
    elif name in _TEXTS or name.endswith("-checkpoint"):
        yield from _text(path)
    else:
        raise ValueError(f"{path} is not a segment, index, snapshot or checkpoint of Kafka")


def is_known(name: str) -> bool:
    suffixes = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", "-checkpoint")
    return name.endswith(suffixes) or name in _TEXTS or _SNAPSHOT_OF_METADATA.fullmatch(name) is not None


# ---- segments


def _segment(path: Path, selection: Selection, decode: Decode) -> Iterator[Row]:
    size, end = path.stat().st_size, 0
    try:
        for position, header, batch in batches_of(str(path), size):
            end = position + header.size
            if header.last_offset < selection.first:
                continue
            if header.base_offset > selection.last:
                return
            yield _batch(position, header)
            if selection.records:
                yield from _records(batch, header, decode)
    except OldFormatInLog as error:
        yield {"kind": "damage", "position": end, "bytes": size - end, "reason": str(error)}
        return
    if end != size:
        yield {"kind": "damage", "position": end, "bytes": size - end, "reason": _reason(path, end, size)}


def _reason(path: Path, position: int, size: int) -> str:
    with path.open("rb") as file:
        file.seek(position)
        head = file.read(min(size - position, 1 << 16))
    if not any(head):
        return "zeros, as a preallocated file has them"
    try:
        header = read_header(head, 0)
    except (CorruptBatch, InvalidBatch):
        return "no batch begins here"
    if position + header.size > size:
        return f"a batch of {header.size} bytes is cut short: a torn tail"
    return f"the batch of offsets {header.base_offset} to {header.last_offset} has a wrong CRC"


def _batch(position: int, header: BatchHeader) -> Row:
    try:
        compression = header.compression.name.lower()
    except UnsupportedCompression:
        compression = "unknown"
    return {
        "kind": "batch",
        "position": position,
        "bytes": header.size,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "count": header.record_count,
        "leader_epoch": header.leader_epoch,
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "compression": compression,
        "transactional": bool(header.attributes & TRANSACTIONAL_FLAG),
        "control": bool(header.attributes & CONTROL_FLAG),
        "crc": header.crc,
    }


def _records(batch: memoryview, header: BatchHeader, decode: Decode) -> Iterator[Row]:
    try:
        records = decode_batch(batch, 0, header)
    except (CorruptBatch, InvalidBatch, UnsupportedCompression) as error:
        yield {"kind": "damage", "base_offset": header.base_offset, "reason": f"its records cannot be read: {error}"}
        return
    is_control = bool(header.attributes & CONTROL_FLAG)
    for one in records:
        row: Row = {"kind": "record", "offset": one.offset, "timestamp": one.timestamp}
        row |= decode(one.key, one.value, is_control)
        if one.headers:
            row["headers"] = [{"key": name, "value": as_text(content)} for name, content in one.headers]
        yield row


# ---- indexes


def _entries(path: Path, entry: struct.Struct) -> Iterator[tuple[int, ...]]:
    """Up to the zeros that Apache Kafka keeps at the end of an index in use, 10 MB of them."""
    with path.open("rb") as file:
        while piece := file.read(_INDEX_PIECE_BYTES - _INDEX_PIECE_BYTES % entry.size):
            for found in entry.iter_unpack(piece[: len(piece) - len(piece) % entry.size]):
                if not any(found):
                    return
                yield found


def _base(path: Path) -> int:
    base = base_offset_of(path.name)
    if base is None:
        raise ValueError(f"{path}: an index is named after its segment's first offset")
    return base


def _offset_index(path: Path) -> Iterator[Row]:
    base = _base(path)
    for relative, position in _entries(path, _OFFSET_ENTRY):
        yield {"kind": "offset_index", "offset": base + relative, "position": position}


def _time_index(path: Path) -> Iterator[Row]:
    base = _base(path)
    for timestamp, relative in _entries(path, _TIME_ENTRY):
        yield {"kind": "time_index", "timestamp": timestamp, "offset": base + relative}


def _transaction_index(path: Path) -> Iterator[Row]:
    for one in read_aborted(PartitionDirectory(str(path.parent)), _base(path)):
        yield {"kind": "aborted_transaction", **one._asdict()}


def _producer_snapshot(path: Path) -> Iterator[Row]:
    try:
        entries = decode_snapshot(_limited(path))
    except CorruptSnapshot as error:
        yield {"kind": "damage", "reason": f"no producer snapshot: {error}"}
        return
    for one in entries:
        content = plain_content(one)
        assert isinstance(content, dict)
        yield {"kind": "producer", **content}


_INDEXES: dict[str, Callable[[Path], Iterator[Row]]] = {
    ".index": _offset_index,
    ".timeindex": _time_index,
    ".txnindex": _transaction_index,
    ".snapshot": _producer_snapshot,
}

# ---- texts

_TEXTS = ("meta.properties", "partition.metadata", "quorum-state", "bootstrap.checkpoint")


def _limited(path: Path) -> bytes:
    if path.stat().st_size > _MOST_BYTES:
        raise ValueError(f"{path} has more than {_MOST_BYTES >> 20} MB: it is none of these files")
    return path.read_bytes()


def _text(path: Path) -> Iterator[Row]:
    for line in _limited(path).decode(errors="backslashreplace").splitlines():
        yield {"kind": "line", "text": line}
