"""Decides by the lengths of a response's arrays whether it is too large to be encoded in one go."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...protocol.schema import ArrayOf, Message

#: A response with more structures is encoded in slices: some 5 us each, with all that they may hold.
PLAIN_RESPONSE_ITEMS = 500

#: The arrays of structures of a response, each with the arrays in its structures.
Arrays = tuple[tuple[str, tuple[str, ...]], ...]


def arrays_of(cls: type[Message]) -> Arrays:
    """The arrays of structures of a response, each with the arrays in its structures."""
    return tuple((field.name, tuple(inner.name for inner in _arrays(field.type.element))) for field in _arrays(cls))


def _arrays(cls: Any) -> Iterable[Any]:
    fields: Iterable[Any] = cls.SCHEMA.fields
    return [field for field in fields if isinstance(field.type, ArrayOf) and isinstance(field.type.element, type)]


def is_large(response: Any, arrays: Arrays) -> bool:
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
