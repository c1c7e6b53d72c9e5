"""JSON values with fields for which a type has no column.

DuckDB names the structure of each value: where all its fields are in the type, the value is not read in Python. It joins the
fields of names that an object repeats, and of the objects of a list, so a structure has at least the fields of its value.
"""

from __future__ import annotations

import json
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..columns.json_in_duckdb import NOT_JSON, TextQuery, doubtful_rows
from ..columns.json_texts import texts_of

#: Fields by name: None for a value that is no object, else the fields below.
Names: TypeAlias = "dict[str, Names] | None"

_STRUCTURES = "select case when json_valid(v) then cast(json_structure(v) as varchar) end as v from rows"
#: Where there are more, as in maps with keys of their own, a structure tells of one value: reading the values costs less.
_MOST_STRUCTURES = 1_000
#: DuckDB's words for lists with values of several kinds and for empty objects, and that for nulls.
_UNKNOWN, _NULL = "JSON", "NULL"


class ValuesBeyond:
    """Looks for such values."""

    def __init__(self) -> None:
        self._query = TextQuery()

    def texts(self, values: pa.Array, kind: pa.DataType) -> pa.Array:
        """Returns the texts of JSON values with a field, other than null, that a type lacks; null for others."""
        texts, names = texts_of(values)[0], names_of(kind)
        decode = json.JSONDecoder().decode
        found: list[str | None] = [None] * len(texts)
        for row in self.rows_to_read(texts, names):
            text = texts[row].as_py()
            try:
                value = None if text is None else decode(text)
            except (ValueError, RecursionError):  # the decoder has the reason
                value = None
            if isinstance(value, dict) and has_more(value, names):
                found[row] = text
        return pa.array(found, pa.string())

    def rows_to_read(self, texts: pa.Array, names: Names) -> list[int]:
        """Returns the rows whose structures do not show that they have no more fields."""
        doubtful = np.zeros(len(texts), bool)
        doubtful[doubtful_rows(texts, NOT_JSON)] = True
        sure = pc.if_else(pa.array(doubtful), pa.scalar(None, pa.string()), texts)
        structures = self._query.rows(_STRUCTURES, sure).dictionary_encode()
        if len(structures.dictionary) > _MOST_STRUCTURES:
            return np.flatnonzero(texts.is_valid().to_numpy(False)).tolist()
        within = [_has_only(one, names) for one in structures.dictionary.to_pylist()]
        is_within = pc.take(pa.array(within, pa.bool_()), structures.indices)
        to_read = pc.and_(texts.is_valid(), pc.invert(pc.fill_null(is_within, False)))
        return np.flatnonzero(to_read.to_numpy(False)).tolist()


def _has_only(structure: str, names: Names) -> bool:
    try:
        return _is_within(json.loads(structure), names)
    except RecursionError:
        return False


def _is_within(structure: object, names: Names) -> bool:
    """Returns whether a value of that structure certainly has no field that the names lack."""
    if names is None:
        return True
    if isinstance(structure, list):
        return all(_is_within(one, names) for one in structure)
    if isinstance(structure, dict):
        return all(
            inner == _NULL or (name in names and _is_within(inner, names[name])) for name, inner in structure.items()
        )
    return structure != _UNKNOWN


def names_of(kind: pa.DataType) -> Names:
    if pa.types.is_list(kind):
        return names_of(kind.value_type)
    return {one.name: names_of(one.type) for one in kind} if pa.types.is_struct(kind) else None


def has_more(value: object, names: Names) -> bool:
    """Returns whether a value has a field, other than null, without a column."""
    if names is None:
        return False
    if isinstance(value, list):
        return any(has_more(one, names) for one in value)
    if not isinstance(value, dict):
        return False
    return any(
        one is not None and (name not in names or (isinstance(one, dict | list) and has_more(one, names[name])))
        for name, one in value.items()
    )
