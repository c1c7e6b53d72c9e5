"""JSON objects as structs of a type.

DuckDB transforms the rows, which is fast. What it may read otherwise than RFC 8259 has it is read again, by
records/json_parsing.py: rows of which a field is null, rows with constants or commas that JSON lacks, with more levels
than MOST_DEPTH, with digits that a double would round. So each row has its value, or its reason, whatever the others are.
"""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..records.json_parsing import LONG_FRACTION, NotJson, parsed
from .decimal_texts import doubtful_texts
from .decoder import Decoded, without_rows
from .errors import InvalidScan
from .json_in_duckdb import NOT_JSON, TextQuery, doubtful_rows
from .json_raw_types import are_nameable, duckdb_structure, exact_below, raw_type
from .json_single_values import cast_error, mismatch_of_text, raw_value
from .json_texts import texts_of
from .layout import Numbers

#: Fields with nulls that take a query of DuckDB each: with more of them Python is faster.
_MOST_QUERIES = 16


class JsonDecoder:
    """Objects as structs of `type`. Fields that the type lacks are passed over; missing ones are null.

    Numbers, booleans and objects become text where the type has text, and text becomes a number or a time where the type has
    one and the text is one. Everything else does not decode.
    """

    def __init__(self, kind: pa.DataType) -> None:
        if not pa.types.is_struct(kind) or not kind.num_fields:
            raise InvalidScan("JSON values need a schema with at least one field")
        self.type = kind
        self._raw_type = raw_type(kind, 0)
        self._query = TextQuery()
        structure = json.dumps(duckdb_structure(self._raw_type)).replace("'", "''")
        #: None where DuckDB has no struct with these names.
        self._transform = f"select try(json_transform(v, '{structure}')) as v from rows" if are_nameable(kind) else None

    def decode(self, values: pa.Array) -> Decoded:
        texts, bad = texts_of(values)
        raw, suspects = self._transformed(texts)
        raw = self._read_again(texts, raw, suspects, bad)
        try:
            made = raw.cast(self.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            for row in np.flatnonzero(raw.is_valid().to_numpy(False)).tolist():
                if cast_error(raw.take([row]), self.type) is not None:
                    bad[row] = mismatch_of_text(texts[row].as_py(), self.type) or "it does not fit the schema"
            made = without_rows(raw, bad).cast(self.type)
        rows = sorted(bad)
        return Decoded(made, rows, [bad[row] for row in rows])

    def _transformed(self, texts: pa.Array) -> tuple[pa.Array, list[int]]:
        """The rows by DuckDB, and those that it may have read wrongly."""
        import duckdb

        if self._transform is not None:
            try:
                raw = self._query.rows(self._transform, texts)
                found = set(doubtful_rows(texts, f"{NOT_JSON}|{LONG_FRACTION.pattern}")) | self._null_fields(texts, raw)
                return raw, sorted(found)
            except duckdb.Error:
                pass  # of which row, DuckDB does not say
        return pa.nulls(len(texts), self._raw_type), np.flatnonzero(texts.is_valid().to_numpy(False)).tolist()

    def _read_again(self, texts: pa.Array, raw: pa.Array, rows: list[int], bad: dict[int, str]) -> pa.Array:
        """`raw` with these rows read by Python, and null in the bad ones."""
        again: list[object] = []
        places = np.arange(len(raw))
        for row, text in zip(rows, texts.take(pa.array(rows, pa.int64())).to_pylist(), strict=True):
            if row in bad:
                continue
            try:
                again.append(raw_value(parsed(text), self._raw_type, self.type, ""))
                places[row] = len(raw) + len(again) - 1
            except NotJson as reason:
                bad[row] = str(reason)
        if again:
            raw = pa.concat_arrays([raw, _with_null_fields(pa.array(again, self._raw_type))])
        elif not bad:
            return raw
        is_bad = np.zeros(len(places), bool)
        is_bad[list(bad)] = True
        return raw.take(pa.array(places, mask=is_bad))

    def _null_fields(self, texts: pa.Array, raw: pa.Array) -> set[int]:
        """Rows whose null fields may be of another type, rather than missing or null."""
        found = set(np.flatnonzero(pc.and_(raw.is_null(), texts.is_valid()).to_numpy(False)).tolist())
        is_empty = raw.is_valid().to_numpy(False)  # no field: perhaps no object
        columns = raw.flatten()
        if sum(column.null_count > 0 for column in columns) > _MOST_QUERIES:
            return set(np.flatnonzero(texts.is_valid().to_numpy(False)).tolist())
        for number, (field, column) in enumerate(zip(raw.type, columns, strict=True)):
            is_null = column.is_null().to_numpy(False)
            is_empty = is_empty & is_null
            nulls = np.flatnonzero(is_null & raw.is_valid().to_numpy(False))
            if len(nulls):
                path = json.dumps(field.name, ensure_ascii=False).replace("'", "''")
                kinds = self._query.rows(f"select json_type(v, '$.{path}') as v from rows", texts.take(pa.array(nulls)))
                wrong = pc.fill_null(pc.not_equal(kinds, "NULL"), False).to_numpy(False)
                found |= set(nulls[wrong].tolist())
            kind = self.type[number].type
            if not pa.types.is_nested(kind):
                found |= set(np.flatnonzero(_odd(column, kind)).tolist())
            elif _has_odd(column.drop_null(), kind):
                found |= set(np.flatnonzero(~is_null).tolist())
        found |= set(np.flatnonzero(is_empty).tolist())
        return found


def _with_null_fields(values: pa.Array) -> pa.Array:
    """The same values; the fields of null structs, which Arrow fills with empty ones, are null."""
    kind = values.type
    if pa.types.is_list(kind):
        inner = _with_null_fields(values.values)
        return pa.ListArray.from_arrays(values.offsets, inner, type=kind, mask=values.is_null())
    if not pa.types.is_struct(kind) or not kind.num_fields:
        return values
    fields = [_with_null_fields(part) for part in values.flatten()]
    return pa.StructArray.from_arrays(fields, fields=list(kind), mask=values.is_null())


def _odd(column: pa.Array, kind: pa.DataType) -> Numbers:
    """Returns which numbers and booleans are perhaps not those of the text."""
    if pa.types.is_boolean(kind):
        return pc.invert(pc.is_in(column, pa.array(["true", "false", None]))).to_numpy(False)
    if pa.types.is_decimal(kind):
        return doubtful_texts(column, kind)
    if pa.types.is_floating(kind):
        return pc.fill_null(pc.invert(pc.less(pc.abs(column), float(exact_below(kind)))), False).to_numpy(False)
    return np.zeros(0, bool)


def _has_odd(column: pa.Array, kind: pa.DataType) -> bool:
    """Returns whether a column has nulls, or numbers and booleans as `_odd` has them, at any level."""
    if column.null_count:
        return True
    if pa.types.is_list(kind):
        return _has_odd(column.flatten(), kind.value_type)
    if pa.types.is_struct(kind):
        return any(_has_odd(part, one.type) for part, one in zip(column.flatten(), kind, strict=True))
    return bool(_odd(column, kind).any())
