"""Requests as bytes that our own encoder would reject: null in non-nullable fields, wrong counts, invalid UTF-8."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from construct import Construct, FormatField
from odradek.protocol import primitives as p
from odradek.protocol.apis import APIS, Api
from odradek.protocol.headers import RequestHeader
from odradek.protocol.schema import Message
from odradek.protocol.tree import construct_tree
from odradek.protocol.varint import encode_varint

CLIENT_ID = "fields"


class Count(NamedTuple):
    """A count without its elements; -1 is null."""

    count: int


class Text(NamedTuple):
    """The bytes of a string, of any content."""

    data: bytes


def frame_of(api: Api, version: int, message: Any, correlation_id: int, client_id: str | None = CLIENT_ID) -> bytes:
    out = bytearray(4)
    header = RequestHeader(
        request_api_key=api.key, request_api_version=version, correlation_id=correlation_id, client_id=client_id
    )
    write(construct_tree(RequestHeader, api.request_header_version(version)), header, out)
    write(construct_tree(api.request, version), message, out)
    struct.pack_into(">i", out, 0, len(out) - 4)
    return bytes(out)


def body_of(message: Message, version: int, client_id: str = CLIENT_ID) -> bytes:
    """Returns header and body without the length, as in an Envelope."""
    key = type(message).SCHEMA.key
    assert key is not None
    return frame_of(APIS[key], version, message, 0, client_id)[4:]


def write(codec: Construct, value: Any, out: bytearray) -> None:
    if isinstance(codec, FormatField):
        out += struct.pack(codec.fmtstr, value)
    elif isinstance(codec, p.Structure):
        _structure(codec, value, out)
    elif isinstance(codec, p.Nullable):
        out += struct.pack("b", codec.null if value is None else 1)
        if value is not None:
            write(codec.element, value, out)
    elif isinstance(codec, p.Prefixed):
        _prefixed(codec, value, out)
    else:
        out += value


def _structure(codec: p.Structure, value: Any, out: bytearray) -> None:
    for member in codec.members:
        write(member.codec, getattr(value, member.name), out)
    if not codec.flexible:
        return
    sent = dict(value.unknown_tags or {})
    for tag, member in codec.tagged.items():
        inner = bytearray()
        write(member.codec, getattr(value, member.name), inner)
        sent[tag] = bytes(inner)
    out += encode_varint(len(sent))
    for tag, data in sorted(sent.items()):
        out += encode_varint(tag) + encode_varint(len(data)) + data


def _prefixed(codec: p.Prefixed, value: Any, out: bytearray) -> None:
    if value is None:
        value = Count(-1)
    if isinstance(value, Count):
        _count(codec, value.count, out)
    elif isinstance(codec, p.Sequence):
        _count(codec, len(value), out)
        for item in value:
            write(codec.element, item, out)
    else:
        data = value.data if isinstance(value, Text) else value.encode() if isinstance(value, str) else bytes(value)
        _count(codec, len(data), out)
        out += data


def _count(codec: p.Prefixed, count: int, out: bytearray) -> None:
    if codec.compact:
        out += encode_varint((count + 1) & 0xFFFFFFFF)
    else:
        bits = 8 * codec.classic.sizeof()
        out += struct.pack(codec.classic.fmtstr, (count + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1))
