"""Messages to bytes and back: the face of the codecs for the rest of the program.

The lowered code does the work; where it stops, the interpreted codec reads the same bytes again and says which field
was at fault. Both raise `MalformedMessage` and nothing else for bytes that are not a message.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from typing import Any, TypeVar

from construct import ConstructError

from .lower_decode import lower_decoder
from .lower_encode import lower_encoder, lower_joined_encoder
from .schema import Message
from .tree import construct_tree, remembered
from .varint import Buffer

M = TypeVar("M", bound=Message)
Decoder = Callable[[Buffer, int], tuple[Any, int]]
Encoder = Callable[[Any, Callable[[Any], None]], None]

_FAULTS = (ValueError, struct.error, IndexError)


class MalformedMessage(ValueError):
    """The bytes are not a message of the version that they claim to be; says which field, by construct's path."""


@remembered  # bounded by the messages and versions that exist
def lowered_decoder(cls: type[Message], version: int) -> Decoder:
    """`decode(buf, pos) -> (message, end)`, raising what `decode` turns into MalformedMessage. For hot loops."""
    return lower_decoder(construct_tree(cls, version), f"{cls.__name__} v{version}")


@remembered
def lowered_encoder(cls: type[Message], version: int) -> Encoder:
    """`encode(message, write)`: calls `write` with each piece in order."""
    return lower_encoder(construct_tree(cls, version), f"{cls.__name__} v{version}")


@remembered
def lowered_joined_encoder(cls: type[Message], version: int) -> Callable[[Any], bytes]:
    """`encode(message) -> bytes`."""
    return lower_joined_encoder(construct_tree(cls, version), f"{cls.__name__} v{version}")


def decode(cls: type[M], version: int, buf: Buffer, pos: int = 0) -> tuple[M, int]:
    """Reads one message at `pos`: (message, position after it).

    Fields of type `records` are views of `buf`; all else is copied. A memoryview is copied whole where the message has
    no such fields: who reads many messages out of one large view passes slices of it. Raises MalformedMessage.
    """
    try:
        return lowered_decoder(cls, version)(buf, pos)
    except _FAULTS:
        raise _explained(cls, version, buf, pos) from None


def encode_pieces(message: Message, version: int) -> list[Any]:
    """The message as a list of buffers to be sent one after the other; record batches are passed through uncopied."""
    pieces: list[Any] = []
    lowered_encoder(type(message), version)(message, pieces.append)
    return pieces


def encode(message: Message, version: int) -> bytes:
    return lowered_joined_encoder(type(message), version)(message)


def interpreted_decode(cls: type[M], version: int, buf: Buffer, pos: int = 0) -> tuple[M, int]:
    """The same by construct's interpreted codecs: the reference for tests, and the words for errors."""
    stream = io.BytesIO(bytes(buf))
    stream.seek(pos)
    try:
        made: M = construct_tree(cls, version)._parse(stream, None, cls.__name__)
    except ConstructError as error:
        raise MalformedMessage(f"{cls.__name__} v{version}: {error}".replace("\n", " ")) from None
    return made, stream.tell()


def interpreted_encode(message: Message, version: int) -> bytes:
    stream = io.BytesIO()
    construct_tree(type(message), version)._build(message, stream, None, type(message).__name__)
    return stream.getvalue()


def _explained(cls: type[M], version: int, buf: Buffer, pos: int) -> MalformedMessage:
    try:
        interpreted_decode(cls, version, buf, pos)
    except MalformedMessage as error:
        return error
    raise AssertionError(f"{cls.__name__} v{version}: the lowered decoder refuses what the interpreted one reads")
