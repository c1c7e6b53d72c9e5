"""Avro values as an array of Arrow, and the rows that Arrow does not take."""

from __future__ import annotations

import pyarrow as pa

from ..records.avro_logical import AvroValue
from .decoder import Decoded
from .shown_value import shown_value

_SHOWN_CHARACTERS = 80
_MISFITS = (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError, TypeError)


def rows_of_avro(rows: list[AvroValue], kind: pa.DataType, bad: list[int], reasons: list[str]) -> Decoded:
    """Rows as an array; those that Arrow does not take are bad, too."""
    try:
        return Decoded(pa.array(rows, kind), bad, reasons)
    except _MISFITS:
        found = dict(zip(bad, reasons, strict=True))
        for number, row in enumerate(rows):
            try:
                pa.array([row], kind)
            except _MISFITS as error:
                found[number], rows[number] = _misfit(row, kind, "") or str(error).partition("\n")[0], None
        numbers = sorted(found)
        return Decoded(pa.array(rows, kind), numbers, [found[one] for one in numbers])


def _misfit(value: AvroValue, kind: pa.DataType, name: str) -> str | None:
    """The first field that Arrow does not take, with its type."""
    if value is None:
        return None
    if pa.types.is_struct(kind) and isinstance(value, dict):
        parts = [(value.get(one.name), one.type, f"{name}.{one.name}") for one in kind]
    elif pa.types.is_list(kind) and isinstance(value, list):
        parts = [(one, kind.value_type, f"{name}[]") for one in value]
    elif pa.types.is_map(kind) and isinstance(value, dict):
        parts = [(one, kind.item_type, f"{name}{{}}") for one in value.values()]
    else:
        try:
            pa.array([value], kind)
        except _MISFITS:
            return f"{name.lstrip('.') or 'the value'} is {shown_value(value, _SHOWN_CHARACTERS)}, not {kind}"
        return None
    return next((found for part in parts if (found := _misfit(*part)) is not None), None)
