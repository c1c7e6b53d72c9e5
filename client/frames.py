"""Frames of a client: the bytes of a request, and the message of a response. The two kinds of connections share them."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from ..protocol.apis import API_VERSIONS_KEY, Api
from ..protocol.codec import MalformedMessage, decode, encode_pieces
from ..protocol.errors import ErrorCode
from ..protocol.schema import Message

if TYPE_CHECKING:
    from ..protocol.buffer import Buffer


#: The limit of a response. A correct node sends less: replica.fetch.response.max.bytes is 10 MiB by default.
MAX_RESPONSE_BYTES = 1 << 30

_HEADER = struct.Struct(">hhih")
_LENGTH = struct.Struct(">i")
_UNSUPPORTED_VERSION = struct.pack(">h", ErrorCode.UNSUPPORTED_VERSION)


def request_frame(api: Api, version: int, correlation_id: int, client_id: bytes, request: Message) -> list[Buffer]:
    """Returns the buffers to send one after the other: the length, the header, and the request. Record batches are not
    copied.
    """
    head = _HEADER.pack(api.key, version, correlation_id, len(client_id)) + client_id
    if api.request_header_version(version) == 2:
        head += b"\0"
    pieces = encode_pieces(request, version)
    return [_LENGTH.pack(len(head) + sum(map(len, pieces))), head, *pieces]


def response_size(buffer: Buffer, pos: int) -> int:
    """The length of the frame that begins at `pos`, without the four bytes of the length. Raises MalformedMessage."""
    size: int = _LENGTH.unpack_from(buffer, pos)[0]
    if not 4 <= size <= MAX_RESPONSE_BYTES:
        raise MalformedMessage(f"a response of {size} bytes")
    return size


def correlation_id_of(frame: Buffer) -> int:
    found: int = _LENGTH.unpack_from(frame)[0]
    return found


def response_of(api: Api, version: int, frame: Buffer) -> Message:
    """The response in a frame to a request of this version. Raises MalformedMessage and IndexError."""
    pos = 4
    if api.response_header_version(version) == 1:
        if frame[pos]:
            raise MalformedMessage("a response header with tagged fields")
        pos += 1
    if api.key == API_VERSIONS_KEY and frame[pos : pos + 2] == _UNSUPPORTED_VERSION:
        version = 0  # the peer does not support our version, and responds with the one that all support
    return decode(api.response, version, frame, pos)[0]
