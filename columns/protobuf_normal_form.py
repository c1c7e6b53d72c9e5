"""Protobuf messages in the form that ptars reads.

Of a key of a map that comes twice, and of two fields of a `oneof`, the last one counts. Groups become messages, and entries
of maps have the messages that they lack. Fields that the schema lacks go: upb keeps entries of maps with such fields as
bytes, which ptars would take for entries.
"""

from __future__ import annotations

from .protobuf_well_known import Descriptor

_VARINT, _FIXED64, _BYTES, _GROUP, _END, _FIXED32 = range(6)
_SIZES = {_FIXED64: 8, _FIXED32: 4}


def written_again(kind: Descriptor, data: bytes) -> bytes:
    """The bytes that protobuf writes of a message: without repetitions, and with the messages of all entries.

    A required field may be missing. `SerializeToString` collects the names of missing ones for its error: with maps in the
    message, upb of protobuf 7.36 ends the process there. `SerializePartialToString` does not.
    """
    from google.protobuf.message import DecodeError, EncodeError

    try:
        found = kind.FromString(data)
        found.DiscardUnknownFields()
        return bytes(found.SerializePartialToString())
    except (DecodeError, EncodeError) as error:
        raise ValueError(str(error)) from None


def without_groups(kind: Descriptor, data: bytes) -> bytes:
    """As `written_again`, with groups as messages."""
    return _Ungrouped(written_again(kind, data)).message(kind.DESCRIPTOR, None)


class _Ungrouped:
    """One pass over bytes that protobuf has written: they are of the message, and well formed."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def message(self, kind: Descriptor, end: int | None) -> bytes:
        """The bytes of a message, whose own end before `end`, or with the end of its group for None."""
        made = bytearray()
        while self._at < (len(self._data) if end is None else end):
            start = self._at
            tag = self._number()
            if tag & 7 == _END:
                break
            inner = kind.fields_by_number[tag >> 3].message_type
            if inner is None or tag & 7 == _VARINT:
                self._skip(tag & 7)
                made += self._data[start : self._at]
                continue
            length = self._number() if tag & 7 == _BYTES else None
            body = self.message(inner, None if length is None else self._at + length)
            made += _varint(tag & ~7 | _BYTES) + _varint(len(body)) + body
        return bytes(made)

    def _skip(self, wire: int) -> None:
        if wire == _VARINT:
            self._number()
        else:
            size = _SIZES.get(wire)
            size = self._number() if size is None else size
            self._at += size

    def _number(self) -> int:
        found = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                return found
            shift += 7


def _varint(number: int) -> bytes:
    made = bytearray()
    while number >= 0x80:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*made, number))
