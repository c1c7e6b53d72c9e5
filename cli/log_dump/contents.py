"""Keys and values of records as JSON's types: those of internal topics by their tables, others as text or base64."""

from __future__ import annotations

import base64
import dataclasses
import enum
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from ...coordinator.record_framing import UnknownRecord
from ...protocol.codec import MalformedMessage
from ...protocol.records.control import decode_control
from ...protocol.records.errors import InvalidBatch
from ...protocol.uuids import UUID_BYTES, uuid_to_text

if TYPE_CHECKING:
    from ...protocol.json_value import JsonObject, JsonValue

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
    from ...metadata.records import decode_record

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
    from ...coordinator.groups.all_kinds import ALL_KINDS
    from ...coordinator.groups.kinds import Kinds
    from ...coordinator.groups.offsets_topic_records import decode_record

    return _framed(partial(decode_record, Kinds(ALL_KINDS)))


def _transactions() -> Callable[[bytes | None, bytes | None], JsonObject]:
    from ...coordinator.transaction_records import decode_record

    return _framed(decode_record)


def _share_state() -> Callable[[bytes | None, bytes | None], JsonObject]:
    from ...coordinator.share_state_records import decode_record

    return _framed(decode_record)


_FRAMED = {
    "__consumer_offsets": _groups,
    "__transaction_state": _transactions,
    "__share_group_state": _share_state,
}
