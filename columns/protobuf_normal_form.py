"""Protobuf messages in the form that ptars reads.

Of a key of a map that comes twice, and of two fields of a `oneof`, the last one counts. Groups become messages, and entries
of maps have the messages that they lack.
"""

from __future__ import annotations

from .protobuf_well_known import Descriptor


def written_again(kind: Descriptor, data: bytes) -> bytes:
    """The bytes that protobuf writes of a message: without repetitions, and with the messages of all entries."""
    from google.protobuf.message import DecodeError, EncodeError

    try:
        return bytes(kind.FromString(data).SerializeToString())
    except (DecodeError, EncodeError) as error:
        raise ValueError(str(error)) from None


def without_groups(kind: Descriptor, data: bytes) -> bytes:
    """As `written_again`, with groups as messages."""
    from google.protobuf.message import DecodeError

    try:
        return _ungrouped(kind.FromString(data))
    except DecodeError as error:
        raise ValueError(str(error)) from None


def _ungrouped(message: Descriptor) -> bytes:
    """The bytes of a message with those of a group as those of a message."""
    made = bytearray()
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            alone = type(message)()
            if field.is_repeated and field.message_type is None:
                getattr(alone, field.name).extend(value)
            elif field.is_repeated:
                getattr(alone, field.name).MergeFrom(value)
            else:
                setattr(alone, field.name, value)
            made += alone.SerializePartialToString()
            continue
        for one in value if field.is_repeated else [value]:
            inner = _ungrouped(one)
            made += _varint(field.number << 3 | 2) + _varint(len(inner)) + inner
    return bytes(made)


def _varint(number: int) -> bytes:
    made = bytearray()
    while number >= 0x80:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*made, number))
