"""Messages that keep copies of their record batches: those of a request are views of a buffer that other requests use."""

from __future__ import annotations

import copy
from typing import TypeVar

from ...protocol.schema import RECORDS, ArrayOf, Message

M = TypeVar("M", bound=Message)


def kept(message: M) -> M:
    """Returns the message with copies of its record batches."""
    made = copy.copy(message)
    for field in message.SCHEMA.fields:
        value = getattr(message, field.name)
        if field.type is RECORDS and value is not None:
            setattr(made, field.name, memoryview(bytearray(value)))
        elif isinstance(field.type, ArrayOf) and isinstance(field.type.element, type) and value:
            setattr(made, field.name, [kept(item) for item in value])
    return made
