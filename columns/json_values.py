"""JSON values as columns: structs of a type, or JSON text.

DuckDB transforms the rows, which is fast. What it may read otherwise than RFC 8259 has it is read again, by
records/json_parsing.py: rows of which a field is null, rows with constants or commas that JSON lacks, with more levels
than MOST_DEPTH, with digits that a double would round. So each row has its value, or its reason, whatever the others are.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..protocol.json_value import JsonValue
from ..records.json_parsing import MOST_DEPTH, Literal, NotJson, double_of, is_unicode, parsed, written
from .errors import InvalidScan
from .inference import MOST_LEVELS, is_nameable
from .json_texts import texts_of
from .layout import Numbers

_SHOWN_CHARACTERS = 40
#: Fields with nulls that take a query of DuckDB each: with more of them Python is faster.
_MOST_QUERIES = 16
#: Constants and commas that DuckDB takes.
_NOT_JSON = r"(?i)[:\[,]\s*-?(?:nan|inf(?:inity)?)\s*[,\]}]|,\s*[\]}]"
#: Fractions of more digits than a double has, and exponents near its bounds: as text and as decimals they are exact.
_LONG_FRACTION = r"\.\d{13}|\d{13}\.\d|\d{8}\.\d{4}|\d{4}\.\d{8}|\d[eE][+-]?\d{3}"
#: From here on, doubles do not have every integer.
_EXACT = 1 << 53


class Decoded(NamedTuple):
    """`values`: of the decoder's type for each row, null for null and for rows that do not decode. `bad`: numbers of these,
    ascending.
    """

    values: pa.Array
    bad: list[int]
    reasons: list[str]


class JsonDecoder:
    """Objects as structs of `type`. Fields that the type lacks are passed over; missing ones are null.

    Numbers, booleans and objects become text where the type has text, and text becomes a number or a time where the type has
    one and the text is one. Everything else does not decode.
    """

    def __init__(self, kind: pa.DataType) -> None:
        if not pa.types.is_struct(kind) or not kind.num_fields:
            raise InvalidScan("JSON values need a schema with at least one field")
        self.type = kind
        self._raw_type = _raw_type(kind, 0)
        self._query = _Query()
        structure = json.dumps(_structure(self._raw_type)).replace("'", "''")
        #: None where DuckDB has no struct with these names.
        self._transform = (
            f"select try(json_transform(v, '{structure}')) as v from rows" if _are_nameable(kind) else None
        )

    def decode(self, values: pa.Array) -> Decoded:
        texts, bad = texts_of(values)
        raw, suspects = self._transformed(texts)
        raw = self._read_again(texts, raw, suspects, bad)
        try:
            made = raw.cast(self.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            for row in np.flatnonzero(raw.is_valid().to_numpy(False)).tolist():
                if _uncast(raw.take([row]), self.type) is not None:
                    bad[row] = _mismatch_of_text(texts[row].as_py(), self.type) or "it does not fit the schema"
            made = without_rows(raw, bad).cast(self.type)
        rows = sorted(bad)
        return Decoded(made, rows, [bad[row] for row in rows])

    def _transformed(self, texts: pa.Array) -> tuple[pa.Array, list[int]]:
        """The rows by DuckDB, and those that it may have read wrongly."""
        import duckdb

        if self._transform is not None:
            try:
                raw = self._query.rows(self._transform, texts)
                found = set(exotic_rows(texts, f"{_NOT_JSON}|{_LONG_FRACTION}")) | self._null_fields(texts, raw)
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
                again.append(_raw_value(parsed(text), self._raw_type, self.type, ""))
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
        if sum(pc.struct_field(raw, [at]).null_count > 0 for at in range(raw.type.num_fields)) > _MOST_QUERIES:
            return set(np.flatnonzero(texts.is_valid().to_numpy(False)).tolist())
        for number, field in enumerate(raw.type):
            column = pc.struct_field(raw, [number])
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


class JsonTextDecoder:
    """JSON values of any kind as the texts that they are. Texts that are no JSON do not decode."""

    type = pa.string()

    def __init__(self) -> None:
        self._query = _Query()

    def decode(self, values: pa.Array) -> Decoded:
        texts, bad = texts_of(values)
        valid = self._query.rows("select json_valid(v) as v from rows", texts)
        doubtful = set(np.flatnonzero(pc.equal(valid, False).fill_null(False).to_numpy(False)).tolist())
        for row in sorted(doubtful | set(exotic_rows(texts, _NOT_JSON))):
            try:
                parsed(texts[row].as_py())
            except NotJson as reason:
                bad[row] = str(reason)
        rows = sorted(bad)
        return Decoded(without_rows(texts, bad) if bad else texts, rows, [bad[row] for row in rows])


class _Query:
    """DuckDB over one column of texts."""

    def __init__(self) -> None:
        import duckdb

        self._connection = duckdb.connect(config={"threads": 1})

    def rows(self, sql: str, texts: pa.Array) -> pa.Array:
        cursor = self._connection.cursor()
        cursor.register("rows", pa.table({"v": texts}))
        table = cursor.sql(sql).to_arrow_table()  # a relation: of a result, DuckDB 2 makes another copy of the rows
        assert table is not None
        found = table.column("v").combine_chunks()
        assert len(found) == len(texts)
        return found


def exotic_rows(texts: pa.Array, pattern: str) -> list[int]:
    """Rows that match, and those that may have more than MOST_DEPTH levels."""
    is_exotic = pc.match_substring_regex(texts, pattern)
    is_long = pc.greater(pc.binary_length(texts), 2 * MOST_DEPTH)
    if pc.any(is_long).as_py():
        levels = pc.add(pc.count_substring(texts, "["), pc.count_substring(texts, "{"))
        is_exotic = pc.or_(is_exotic, pc.greater(levels, MOST_DEPTH))
    return np.flatnonzero(pc.fill_null(is_exotic, False).to_numpy(False)).tolist()


def without_rows(values: pa.Array, rows: Iterable[int]) -> pa.Array:
    """The values with null, fields included, in these rows."""
    mask = np.zeros(len(values), bool)
    mask[list(rows)] = True
    return values.take(pa.array(np.arange(len(values)), mask=mask))


def _with_null_fields(values: pa.Array) -> pa.Array:
    """The same values; the fields of null structs, which Arrow fills with empty ones, are null."""
    kind = values.type
    if pa.types.is_list(kind):
        inner = _with_null_fields(values.values)
        return pa.ListArray.from_arrays(values.offsets, inner, type=kind, mask=values.is_null())
    if not pa.types.is_struct(kind) or not kind.num_fields:
        return values
    fields = [_with_null_fields(pc.struct_field(values, [at])) for at in range(kind.num_fields)]
    return pa.StructArray.from_arrays(fields, fields=list(kind), mask=values.is_null())


# ---- types


def _raw_type(kind: pa.DataType, level: int) -> pa.DataType:
    """The type that JSON is transformed to first: numbers that could be rounded, and times, are text until they are cast."""
    if level > MOST_LEVELS:
        raise InvalidScan(f"a schema of more than {MOST_LEVELS} levels")
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, _raw_type(one.type, level + 1)) for one in kind])
    if pa.types.is_list(kind):
        return pa.list_(_raw_type(kind.value_type, level + 1))
    if pa.types.is_floating(kind):
        return pa.float64()
    is_text = _is_text(kind) or pa.types.is_boolean(kind)
    is_cast = any(check(kind) for check in (pa.types.is_integer, pa.types.is_decimal, pa.types.is_temporal))
    if is_text or is_cast:
        return pa.string()
    raise InvalidScan(f"JSON values cannot be of the type {kind}")


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _structure(kind: pa.DataType) -> JsonValue:
    if pa.types.is_struct(kind):
        return {one.name: _structure(one.type) for one in kind}
    if pa.types.is_list(kind):
        return [_structure(kind.value_type)]
    return "DOUBLE" if pa.types.is_floating(kind) else "VARCHAR"


def _are_nameable(kind: pa.DataType) -> bool:
    """Returns whether DuckDB has a struct with these names, which it compares without case."""
    if pa.types.is_list(kind):
        return _are_nameable(kind.value_type)
    if not pa.types.is_struct(kind):
        return True
    names = [one.name for one in kind]
    are_distinct = len({name.lower() for name in names}) == len(names)
    return are_distinct and all(map(is_nameable, names)) and all(_are_nameable(one.type) for one in kind)


def _odd(column: pa.Array, kind: pa.DataType) -> Numbers:
    """Returns which numbers and booleans are perhaps not those of the text."""
    if pa.types.is_boolean(kind):
        return pc.invert(pc.is_in(column, pa.array(["true", "false", None]))).to_numpy(False)
    if pa.types.is_floating(kind):
        return pc.fill_null(pc.invert(pc.less(pc.abs(column), float(_EXACT))), False).to_numpy(False)
    return np.zeros(0, bool)


def _has_odd(column: pa.Array, kind: pa.DataType) -> bool:
    """Returns whether a column has nulls, or numbers and booleans as `_odd` has them, at any level."""
    if column.null_count:
        return True
    if pa.types.is_list(kind):
        return _has_odd(column.flatten(), kind.value_type)
    if pa.types.is_struct(kind):
        return any(_has_odd(pc.struct_field(column, [at]), one.type) for at, one in enumerate(kind))
    return bool(_odd(column, kind).any())


# ---- one value


def _raw_value(value: JsonValue, raw: pa.DataType, kind: pa.DataType, name: str) -> object:
    """A parsed value as one of the raw type. Raises NotJson with the reason where it is not of the type `kind`."""
    where = name or "the value"
    if value is None:
        return None
    if pa.types.is_struct(kind):
        if not isinstance(value, dict):
            raise NotJson(f"{where} is {_kind_of(value)}, not an object")
        return {
            one.name: _raw_value(value.get(one.name), raw[at].type, one.type, f"{name}.{one.name}".lstrip("."))
            for at, one in enumerate(kind)
        }
    if pa.types.is_list(kind):
        if not isinstance(value, list):
            raise NotJson(f"{where} is {_kind_of(value)}, not a list")
        return [_raw_value(one, raw.value_type, kind.value_type, f"{where}[{at}]") for at, one in enumerate(value)]
    if isinstance(value, str) and not is_unicode(value):
        raise NotJson(f"{where} has half of a surrogate pair")
    if _is_text(kind):
        return str(value) if isinstance(value, str) else written(value)
    return _raw_scalar(value, kind, where)


def _raw_scalar(value: JsonValue, kind: pa.DataType, where: str) -> object:
    wrong = f"{where} is {_kind_of(value)}, not {kind}"
    if isinstance(value, dict | list | None):
        raise NotJson(wrong)
    if pa.types.is_boolean(kind):
        if isinstance(value, bool) or value in ("true", "false"):
            return str(value).lower()
        raise NotJson(wrong)
    if isinstance(value, bool):
        raise NotJson(wrong)
    if pa.types.is_floating(kind):
        return _raw_double(value, where, wrong)
    text = str(value)
    if _uncast(pa.array([text]), kind) is not None:
        raise NotJson(wrong)
    return text


def _raw_double(value: str | float, where: str, wrong: str) -> float:
    if isinstance(value, str):
        try:
            is_finite = math.isfinite(float(value))
        except ValueError:
            is_finite = False
        if not is_finite:
            raise NotJson(wrong)
        value = Literal(value)
    made = double_of(value if isinstance(value, Literal) else int(value))
    if made is None:
        raise NotJson(f"{where} is {_shown(value)}, which a double would round")
    return made


def _mismatch_of_text(text: str, kind: pa.DataType) -> str | None:
    """Returns why a text is not of a type; None where it is."""
    try:
        _raw_value(parsed(text), _raw_type(kind, 0), kind, "")
    except NotJson as reason:
        return str(reason)
    return None


def _uncast(column: pa.Array, kind: pa.DataType) -> str | None:
    try:
        column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        return str(error).partition("\n")[0]
    return None


def _kind_of(value: object) -> str:
    if isinstance(value, Literal):
        return _shown(value)
    if isinstance(value, str):
        shown = value if is_unicode(value) else json.dumps(value)
        return f"the text {_shown(shown)!r}"
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return _shown(json.dumps(value))


def _shown(value: object) -> str:
    text = str(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
