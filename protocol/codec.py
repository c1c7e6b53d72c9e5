"""Messages to bytes and back: the face of the codecs for the rest of the program.

The lowered code does the work; where it stops, the interpreted codec reads the same bytes again, if they are not too many,
and says which field was at fault. Both raise `MalformedMessage` and nothing else for bytes that are not a message.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from construct import ConstructError

from .lower_decode import lower_decoder, lower_stepwise_decoder
from .lower_encode import lower_encoder, lower_joined_encoder, lower_stepwise_encoder
from .schema import Message
from .tree import construct_tree, remembered
from .varint import Buffer

M = TypeVar("M", bound=Message)
Decoder = Callable[[Buffer, int], tuple[Any, int]]
Encoder = Callable[[Any, Callable[[Any], None]], None]

StepwiseDecoder = Callable[[Buffer, int], Generator[int | None, None, tuple[Any, int]]]
StepwiseEncoder = Callable[[Any, Callable[[Any], None]], Generator[None, None, None]]

#: What the lowered decoders raise for bytes that are not the message.
DECODE_FAULTS = (ValueError, struct.error, IndexError)
#: The interpreted codec looks for a fault so far into a message: it takes a hundred times as long as the lowered one.
EXPLAINED_BYTES = 4 * 1024
#: Larger messages are refused without its words: it works on a copy.
COPIED_BYTES = 4 * 1024 * 1024


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


@remembered
def stepwise_decoder(cls: type[Message], version: int) -> StepwiseDecoder:
    """`decode(buf, pos)` as a generator that yields after each element of an array, for messages of any size.

    It yields None for one element, or a count of several.
    """
    return lower_stepwise_decoder(construct_tree(cls, version), f"{cls.__name__} v{version}")


@remembered
def stepwise_encoder(cls: type[Message], version: int) -> StepwiseEncoder:
    """`encode(message, write)` as a generator that yields after each element of an array."""
    return lower_stepwise_encoder(construct_tree(cls, version), f"{cls.__name__} v{version}")


def decode(cls: type[M], version: int, buf: Buffer, pos: int = 0) -> tuple[M, int]:
    """Reads one message at `pos`: (message, position after it).

    Fields of type `records` are views of `buf`; all else is copied. A memoryview is copied whole where the message has
    no such fields: who reads many messages out of one large view passes slices of it. Raises MalformedMessage.
    """
    try:
        return lowered_decoder(cls, version)(buf, pos)
    except DECODE_FAULTS:
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
    return _interpreted(cls, version, stream)


def _interpreted(cls: type[M], version: int, stream: io.BytesIO) -> tuple[M, int]:
    try:
        made: M = construct_tree(cls, version)._parse(stream, None, cls.__name__)
    except ConstructError as error:
        raise MalformedMessage(f"{cls.__name__} v{version}: {error}".replace("\n", " ")) from None
    return made, stream.tell()


def interpreted_encode(message: Message, version: int) -> bytes:
    stream = io.BytesIO()
    construct_tree(type(message), version)._build(message, stream, None, type(message).__name__)
    return stream.getvalue()


class _Beginning(io.BytesIO):
    """A message of which only the beginning may be read."""

    def __init__(self, buf: Buffer, pos: int) -> None:
        super().__init__(bytes(buf))
        self.seek(pos)
        self._last = pos + EXPLAINED_BYTES
        self.is_over = False

    def read(self, size: int | None = -1) -> bytes:
        if self.tell() > self._last:
            self.is_over = True
            return b""  # which ends the interpreted codec
        return super().read(size)


def _explained(cls: type[M], version: int, buf: Buffer, pos: int) -> MalformedMessage:
    """The fault in the words of the interpreted codec; without them where it is far from the beginning."""
    unexplained = MalformedMessage(f"{cls.__name__} v{version}: {len(buf) - pos} bytes are not this message")
    if len(buf) > COPIED_BYTES:
        return unexplained
    beginning = _Beginning(buf, pos)
    try:
        _interpreted(cls, version, beginning)
    except MalformedMessage as error:
        return unexplained if beginning.is_over else error
    raise AssertionError(f"{cls.__name__} v{version}: the lowered decoder refuses what the interpreted one reads")
