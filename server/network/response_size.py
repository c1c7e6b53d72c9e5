"""The size of a response, by the lengths of its arrays: whether it is too large to be encoded in one go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.schema import ArrayOf

if TYPE_CHECKING:
    from ...protocol.schema import Message

#: A response with more structures is encoded in slices: some 5 us each, with all that they may hold.
PLAIN_RESPONSE_ITEMS = 500

#: The arrays of structures of a response, each with the arrays in its structures.
Arrays = tuple[tuple[str, tuple[str, ...]], ...]


def arrays_of(cls: type[Message]) -> Arrays:
    """The arrays of structures of a response, each with the arrays in its structures."""
    return tuple((name, tuple(inner for inner, _ in _arrays(element))) for name, element in _arrays(cls))


def _arrays(cls: type[Message]) -> list[tuple[str, type[Message]]]:
    """Names and structures of the arrays of structures."""
    return [
        (field.name, field.type.element)
        for field in cls.SCHEMA.fields
        if isinstance(field.type, ArrayOf) and isinstance(field.type.element, type)
    ]


def is_large(response: Message, arrays: Arrays) -> bool:
    """Returns True if a response has too many structures to encode in one go; the third level is not counted."""
    left = PLAIN_RESPONSE_ITEMS
    for name, inner in arrays:
        structures = getattr(response, name)
        if structures:
            left -= len(structures)
            if left < 0:
                return True
            for array in inner:
                for structure in structures:
                    left -= len(getattr(structure, array) or ())
            if left < 0:
                return True
    return False
