"""The codecs of the protocol by construct, types and structures: the reference for the lowered code.

Every class reads untrusted bytes. A count or a length is compared with the remaining bytes before anything is
allocated for it. Errors are construct's, with its path to the invalid field. Fixed-size numbers are construct's own
`FormatField`; a UUID is `construct.Bytes(16)`.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, NamedTuple

import construct
from construct import Construct, FormatField, IntegerError, StreamError, stream_read, stream_write

if TYPE_CHECKING:
    from .buffer import Buffer

#: Larger arrays are rejected before a byte of the array is read, as in Kafka 4.4.
MAX_ARRAY_ELEMENTS = 1_000_000
#: The limit for the tagged fields of one structure.
MAX_TAGGED_FIELDS = 10_000
#: Kafka's limit for strings in UTF-8 bytes, in both encodings.
MAX_STRING_BYTES = 32_767
#: A longer string may grow over MAX_STRING_BYTES when each invalid byte becomes U+FFFD, which takes three bytes.
MAX_UNCHECKED_TEXT_BYTES = MAX_STRING_BYTES // 3
#: Error texts are cut to this size. A reader needs no more, and Kafka's longest text without a client's names is far
#: shorter. So the response to a request of many long names is not many times its size.
MAX_ERROR_TEXT_BYTES = 4096
#: The end of a cut error text.
CUT_SIGN = "... (cut)"
#: An unsigned varint carries at most 32 bits, so at most five bytes.
MAX_VARINT_BYTES = 5
Bool = FormatField(">", "?")
Int8, Int16, Int32, Int64 = (FormatField(">", code) for code in "bhlq")
UInt16, UInt32 = (FormatField(">", code) for code in "HL")
Float64 = FormatField(">", "d")
Uuid = construct.Bytes(16)


class UnsignedVarint(Construct):  # type: ignore[misc]
    """Seven bits per byte, least significant first, at most 32 bits (KIP-482)."""

    def _parse(self, stream: io.BytesIO, context: object, path: str) -> int:
        value = 0
        for shift in range(0, 7 * MAX_VARINT_BYTES, 7):
            byte: int = stream_read(stream, 1, path)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value > 0xFFFFFFFF:
                    raise IntegerError("varint over 32 bits", path=path)
                return value
        raise IntegerError("varint over five bytes", path=path)

    def _build(self, obj: int, stream: io.BytesIO, context: object, path: str) -> int:
        value = obj
        while value >= 0x80:
            stream_write(stream, bytes((value & 0x7F | 0x80,)), 1, path)
            value >>= 7
        stream_write(stream, bytes((value,)), 1, path)
        return obj


UVarint = UnsignedVarint()


class Prefixed(Construct):  # type: ignore[misc]
    """A value preceded by its count: in the compact form an unsigned varint of count + 1, otherwise a signed number.

    None is encoded as -1, or as 0 in the compact form.
    """

    classic: FormatField = Int32

    def __init__(self, compact: bool, nullable: bool) -> None:
        super().__init__()
        self.compact = compact
        self.nullable = nullable

    def read_count(self, stream: io.BytesIO, path: str) -> int | None:
        if self.compact:
            count = UVarint._parse(stream, None, path) - 1
        else:
            count = self.classic._parse(stream, None, path)
        if count >= 0:
            return count
        if not self.nullable:
            raise StreamError(f"null (count {count}) where a value is needed", path=path)
        if count != -1:
            raise StreamError(f"negative count {count}", path=path)
        return None

    def write_count(self, count: int | None, stream: io.BytesIO, path: str) -> None:
        if count is None and not self.nullable:
            raise StreamError("None where a value is needed", path=path)
        number = -1 if count is None else count
        if self.compact:
            UVarint._build(number + 1, stream, None, path)
        else:
            self.classic._build(number, stream, None, path)


class Text(Prefixed):
    """A UTF-8 string. Invalid bytes decode as U+FFFD, as in Kafka's broker: a client with such names is still served.

    A text that would decode to more than a string can hold is malformed, so every decoded text can be encoded.
    """

    classic = Int16

    def _parse(self, stream: io.BytesIO, context: object, path: str) -> str | None:
        count = self.read_count(stream, path)
        if count is None:
            return None
        if count > MAX_STRING_BYTES:
            raise StreamError(f"string of {count} bytes, over {MAX_STRING_BYTES}", path=path)
        text = _read_counted(stream, count, path).decode(errors="replace")
        if count > MAX_UNCHECKED_TEXT_BYTES and len(text.encode()) > MAX_STRING_BYTES:
            raise StreamError(f"string of {count} bytes, not UTF-8, over {MAX_STRING_BYTES} when replaced", path=path)
        return text

    def _build(self, obj: str | None, stream: io.BytesIO, context: object, path: str) -> str | None:
        data = None if obj is None else obj.encode()
        if data is not None and len(data) > MAX_STRING_BYTES:
            raise StreamError(f"string of {len(data)} bytes, over {MAX_STRING_BYTES}", path=path)
        self.write_count(None if data is None else len(data), stream, path)
        stream_write(stream, data or b"", len(data or b""), path)
        return obj


class ErrorText(Text):
    """An error text: cut to MAX_ERROR_TEXT_BYTES, so that it never makes a response fail."""

    def _build(self, obj: str | None, stream: io.BytesIO, context: object, path: str) -> str | None:
        data = None if obj is None else encode_error_text(obj)
        self.write_count(None if data is None else len(data), stream, path)
        stream_write(stream, data or b"", len(data or b""), path)
        return obj


def encode_error_text(text: str) -> bytes:
    """Encodes as UTF-8, cut at a character boundary. A lone surrogate, as in an odd file name, becomes a question mark."""
    data = text.encode(errors="replace")
    if len(data) <= MAX_ERROR_TEXT_BYTES:
        return data
    kept = data[: MAX_ERROR_TEXT_BYTES - len(CUT_SIGN)].decode(errors="ignore")
    return (kept + CUT_SIGN).encode()


class Blob(Prefixed):
    """Bytes. `view` asks the lowered code for a memoryview into the frame (record batches) rather than a copy."""

    def __init__(self, compact: bool, nullable: bool, view: bool) -> None:
        super().__init__(compact, nullable)
        self.view = view

    def _parse(self, stream: io.BytesIO, context: object, path: str) -> bytes | None:
        count = self.read_count(stream, path)
        return None if count is None else _read_counted(stream, count, path)

    def _build(self, obj: Buffer | None, stream: io.BytesIO, context: object, path: str) -> Buffer | None:
        self.write_count(None if obj is None else len(obj), stream, path)
        stream_write(stream, b"" if obj is None else bytes(obj), 0 if obj is None else len(obj), path)
        return obj


class Sequence(Prefixed):
    def __init__(self, element: Construct, compact: bool, nullable: bool) -> None:
        super().__init__(compact, nullable)
        self.element = element
        self.element_size = smallest_size(element)
        # Otherwise a count could request endless elements. No message of Kafka has such an array.
        assert self.element_size > 0, "an array of elements without bytes"

    def _parse(self, stream: io.BytesIO, context: object, path: str) -> list[object] | None:
        count = self.read_count(stream, path)
        if count is None:
            return None
        if count > MAX_ARRAY_ELEMENTS:
            raise StreamError(f"array of {count} elements, over {MAX_ARRAY_ELEMENTS}", path=path)
        if count * self.element_size > _remaining(stream):
            raise StreamError(f"array of {count} elements but {_remaining(stream)} bytes remain", path=path)
        return [self.element._parse(stream, context, f"{path} -> {index}") for index in range(count)]

    def _build(self, obj: list[object] | None, stream: io.BytesIO, context: object, path: str) -> list[object] | None:
        self.write_count(None if obj is None else len(obj), stream, path)
        for index, item in enumerate(obj or ()):
            self.element._build(item, stream, context, f"{path} -> {index}")
        return obj


class Nullable(Construct):  # type: ignore[misc]
    """A structure that may be None, preceded by one byte: -1 for None and 1 for a value (KIP-893).

    In a tagged field Kafka writes an unsigned varint there instead, 0 for None and 1 for a value.
    """

    def __init__(self, element: Structure, tagged: bool) -> None:
        super().__init__()
        self.element = element
        self.tagged = tagged

    def _parse(self, stream: io.BytesIO, context: object, path: str) -> object:
        if self.tagged:
            present = UVarint._parse(stream, context, path) > 0
        else:
            present = Int8._parse(stream, context, path) >= 0
        return self.element._parse(stream, context, path) if present else None

    def _build(self, obj: object, stream: io.BytesIO, context: object, path: str) -> object:
        Int8._build(self.null if obj is None else 1, stream, context, path)
        if obj is not None:
            self.element._build(obj, stream, context, path)
        return obj

    @property
    def null(self) -> int:
        return 0 if self.tagged else -1


class Member(NamedTuple):
    """A field that the version contains; `default` is its value if it is tagged and not sent."""

    name: str
    codec: Construct
    default: object


class Structure(Construct):  # type: ignore[misc]
    """A message or a nested structure, in one version.

    `members` are in wire order, `tagged` in the order of their tags (KIP-482). `absent` are the fields that this
    version does not contain. Builds instances of `cls` (see schema.Message).
    """

    def __init__(
        self, cls: type, members: list[Member], tagged: dict[int, Member], absent: list[Member], flexible: bool
    ) -> None:
        super().__init__()
        self.cls = cls
        self.members = members
        self.tagged = tagged
        self.absent = absent
        self.flexible = flexible

    def _parse(self, stream: io.BytesIO, context: object, path: str) -> object:
        values = {
            member.name: member.codec._parse(stream, context, f"{path} -> {member.name}") for member in self.members
        }
        made = self.cls(**values)
        if self.flexible:
            self._parse_tags(made, stream, path)
        return made

    def _parse_tags(self, structure: Any, stream: io.BytesIO, path: str) -> None:
        count = UVarint._parse(stream, None, path)
        if count > MAX_TAGGED_FIELDS:
            raise StreamError(f"{count} tagged fields, over {MAX_TAGGED_FIELDS}", path=path)
        for _ in range(count):
            tag = UVarint._parse(stream, None, path)
            data = _read_counted(stream, UVarint._parse(stream, None, path), path)
            member = self.tagged.get(tag)
            if member is None:
                structure.unknown_tags = structure.unknown_tags or {}
                structure.unknown_tags[tag] = data
                continue
            inner = io.BytesIO(data)
            setattr(structure, member.name, member.codec._parse(inner, None, f"{path} -> {member.name}"))
            if _remaining(inner):
                raise StreamError(f"{_remaining(inner)} bytes left in tag {tag}", path=f"{path} -> {member.name}")

    def _build(self, obj: object, stream: io.BytesIO, context: object, path: str) -> object:
        for member in self.members:
            member.codec._build(getattr(obj, member.name), stream, context, f"{path} -> {member.name}")
        if self.flexible:
            self._build_tags(obj, stream, path)
        return obj

    def _build_tags(self, obj: Any, stream: io.BytesIO, path: str) -> None:
        sent = dict(obj.unknown_tags or {})
        for tag, member in self.tagged.items():
            value = getattr(obj, member.name)
            if value != member.default:
                inner = io.BytesIO()
                member.codec._build(value, inner, None, f"{path} -> {member.name}")
                sent[tag] = inner.getvalue()
        UVarint._build(len(sent), stream, None, path)
        for tag, data in sorted(sent.items()):
            UVarint._build(tag, stream, None, path)
            UVarint._build(len(data), stream, None, path)
            stream_write(stream, data, len(data), path)


def _remaining(stream: io.BytesIO) -> int:
    return stream.getbuffer().nbytes - stream.tell()


def _read_counted(stream: io.BytesIO, count: int, path: str) -> bytes:
    if count > _remaining(stream):
        raise StreamError(f"length {count} but {_remaining(stream)} bytes remain", path=path)
    return bytes(stream_read(stream, count, path))


def smallest_size(codec: Construct) -> int:
    """Returns the minimum size of a value. A count is compared with it before it is used."""
    if isinstance(codec, Structure):
        return sum(smallest_size(member.codec) for member in codec.members) + codec.flexible
    if isinstance(codec, Prefixed):
        return 1 if codec.compact else int(codec.classic.sizeof())
    if isinstance(codec, Nullable):
        return 1
    return int(codec.sizeof())
