"""Encoding and decoding of messages: the public interface of the codecs.

The lowered code does the work. If it fails, the interpreted codec decodes the same bytes again, up to a size limit,
and reports the invalid field. For invalid bytes both raise `MalformedMessage` and nothing else.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Generator
from typing import Any, TypeVar, cast

from construct import ConstructError

from .buffer import Buffer
from .lower_decode import lower_decoder, lower_stepwise_decoder
from .lower_encode import lower_encoder, lower_joined_encoder, lower_stepwise_encoder
from .primitives import Sequence, Structure
from .schema import Message
from .tree import construct_tree, remembered

M = TypeVar("M", bound=Message)
Decoder = Callable[[Buffer, int], tuple[M, int]]
#: Takes a part of a message: bytes, or what a field of records has.
AddPiece = Callable[[Any], None]
Encoder = Callable[[M, AddPiece], None]

#: The arrays that a decoder in steps has begun: the latest one of each field.
Arrays = dict[str, list[Message]]
StepwiseDecoder = Callable[[Buffer, int, Arrays], Generator[int | None, None, tuple[M, int]]]
StepwiseEncoder = Callable[[M, AddPiece], Generator[None, None, None]]

#: The exceptions of lowered decoders for invalid bytes.
DECODE_FAULTS = (ValueError, struct.error, IndexError)
#: The interpreted codec searches for an error only up to this offset: it is a hundred times slower than the lowered
#: one.
EXPLAINED_BYTES = 4 * 1024
#: Larger messages get no detailed error: the interpreted codec works on a copy.
COPIED_BYTES = 4 * 1024 * 1024


class MalformedMessage(ValueError):
    """The bytes are not a valid message of this version. The text names the field, by construct's path."""


@remembered  # bounded by the messages and versions that exist
def lowered_decoder(cls: type[M], version: int) -> Decoder[M]:
    """Returns `decode(buf, pos) -> (message, end)`, for hot loops. It raises what `decode` turns into MalformedMessage."""
    return lower_decoder(construct_tree(cls, version), f"{cls.__name__} v{version}")


@remembered
def lowered_encoder(cls: type[M], version: int) -> Encoder[M]:
    """Returns `encode(message, write)`, which calls `write` with each piece in order."""
    return lower_encoder(construct_tree(cls, version), f"{cls.__name__} v{version}")


@remembered
def lowered_joined_encoder(cls: type[M], version: int) -> Callable[[M], bytes]:
    """Returns `encode(message) -> bytes`."""
    return lower_joined_encoder(construct_tree(cls, version), f"{cls.__name__} v{version}")


@remembered
def stepwise_decoder(cls: type[M], version: int) -> StepwiseDecoder[M]:
    """Returns `decode(buf, pos, arrays)`, a generator that yields after each element of an array, for messages of any size.

    It yields None for one element, or a count for several. `arrays` gets the arrays as they are begun: a caller that
    drops the message before its end empties them in steps.
    """
    return lower_stepwise_decoder(construct_tree(cls, version), f"{cls.__name__} v{version}")


@remembered
def stepwise_encoder(cls: type[M], version: int) -> StepwiseEncoder[M]:
    """Returns `encode(message, write)`, a generator that yields after each element of an array."""
    return lower_stepwise_encoder(construct_tree(cls, version), f"{cls.__name__} v{version}")


@remembered
def stepwise_element_encoder(cls: type[Message], array: str, version: int) -> StepwiseEncoder[Message]:
    """Returns `encode(element, write)` for the elements of an array of structures in the message. The pieces that it
    writes are the content of an `Encoded` element.
    """
    (codec,) = (member.codec for member in construct_tree(cls, version).members if member.name == array)
    assert isinstance(codec, Sequence)
    assert isinstance(codec.element, Structure)
    return lower_stepwise_encoder(codec.element, f"an element of {array} of {cls.__name__} v{version}")


def decode(cls: type[M], version: int, buf: Buffer, pos: int = 0) -> tuple[M, int]:
    """Decodes one message at `pos`. Returns (message, position after it).

    Fields of type `records` are views of `buf`; everything else is copied. If the message has no such fields, a
    memoryview is copied whole. To decode many messages from one large view, pass slices of it. Raises
    MalformedMessage.
    """
    try:
        return lowered_decoder(cls, version)(buf, pos)
    except DECODE_FAULTS:
        raise _explained(cls, version, buf, pos) from None


def encode_pieces(message: Message, version: int) -> list[Any]:
    """Encodes a message as a list of buffers to send one after the other. Record batches are not copied."""
    pieces: list[Any] = []
    lowered_encoder(type(message), version)(message, pieces.append)
    return pieces


def encode(message: Message, version: int) -> bytes:
    return lowered_joined_encoder(type(message), version)(message)


def interpreted_decode(cls: type[M], version: int, buf: Buffer, pos: int = 0) -> tuple[M, int]:
    """Decodes with construct's interpreted codecs: the reference for tests, and the source of error texts."""
    stream = io.BytesIO(bytes(buf))
    stream.seek(pos)
    return _interpreted(cls, version, stream)


def _interpreted(cls: type[M], version: int, stream: io.BytesIO) -> tuple[M, int]:
    try:
        made = cast(M, construct_tree(cls, version)._parse(stream, None, cls.__name__))
    except ConstructError as error:
        raise MalformedMessage(f"{cls.__name__} v{version}: {error}".replace("\n", " ")) from None
    return made, stream.tell()


def interpreted_encode(message: Message, version: int) -> bytes:
    stream = io.BytesIO()
    construct_tree(type(message), version)._build(message, stream, None, type(message).__name__)
    return stream.getvalue()


class _Beginning(io.BytesIO):
    """A stream of which only the beginning can be read."""

    def __init__(self, buf: Buffer, pos: int) -> None:
        super().__init__(bytes(buf))
        self.seek(pos)
        self._last = pos + EXPLAINED_BYTES
        self.is_over = False

    def read(self, size: int | None = -1) -> bytes:
        if self.tell() > self._last:
            self.is_over = True
            return b""  # this ends the interpreted codec
        return super().read(size)


def _explained(cls: type[M], version: int, buf: Buffer, pos: int) -> MalformedMessage:
    """Returns the error with the text of the interpreted codec, or a general one if the error is far from the beginning."""
    unexplained = MalformedMessage(f"{cls.__name__} v{version}: {len(buf) - pos} bytes are not this message")
    if len(buf) > COPIED_BYTES:
        return unexplained
    beginning = _Beginning(buf, pos)
    try:
        _interpreted(cls, version, beginning)
    except MalformedMessage as error:
        return unexplained if beginning.is_over else error
    raise AssertionError(
        f"{cls.__name__} v{version}: the lowered decoder rejects bytes that the interpreted decoder accepts"
    )
