"""Filters that Spark pushes down as one condition of Arrow: files, parts of the log and rows that fail it are not read.

Spark applies its filters to the rows once more. So a filter that is left out here costs time and changes no result; one that
is taken must keep each row that Spark keeps. Floats are left out: NaN is equal to itself in Spark, and in Arrow it is not.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc

_EQUAL = ("EqualTo", "EqualNullSafe")
_ORDERS: dict[str, Callable[[pc.Expression, pa.Scalar], pc.Expression]] = {
    "GreaterThan": operator.gt,
    "GreaterThanOrEqual": operator.ge,
    "LessThan": operator.lt,
    "LessThanOrEqual": operator.le,
}
#: Values of a list: an expression of more takes longer than the rows.
_MOST_VALUES = 1_000


def condition_of(filters: Iterable[object], schema: pa.Schema) -> pc.Expression | None:
    """The filters that Arrow can decide, joined by "and"; None where there is none. `schema`: of the relation."""
    found = None
    for one in filters:
        made = _condition(one, schema)
        if made is not None:
            found = made if found is None else found & made
    return found


def _condition(given: object, schema: pa.Schema) -> pc.Expression | None:
    import pyarrow as pa
    import pyarrow.dataset as ds

    attribute: tuple[str, ...] = getattr(given, "attribute", ())
    kind = _type_at(schema, attribute)
    if kind is None:
        return None
    column, name, value = ds.field(*attribute), type(given).__name__, getattr(given, "value", None)
    if name == "IsNotNull":
        return ~column.is_null()
    if name == "IsNull":
        return column.is_null()
    if name == "In" and isinstance(value, Sequence) and 0 < len(value) <= _MOST_VALUES:
        values = [_scalar(one, kind) for one in value]
        return None if any(one is None for one in values) else column.isin(pa.array(values, kind))
    scalar = None if value is None else _scalar(value, kind)
    if scalar is None:
        return None
    if name in _EQUAL:
        return column == scalar
    if name in _ORDERS and _is_ordered(kind):
        return _ORDERS[name](column, scalar)
    return None


def _type_at(schema: pa.Schema, attribute: Sequence[str]) -> pa.DataType | None:
    """The type of a column, or of a field in one; None where there is none."""
    import pyarrow as pa

    if not attribute or attribute[0] not in schema.names:
        return None
    kind = schema.field(attribute[0]).type
    for name in attribute[1:]:
        if not pa.types.is_struct(kind) or kind.get_field_index(name) < 0:
            return None
        kind = kind.field(name).type
    return kind


def _scalar(value: object, kind: pa.DataType) -> pa.Scalar | None:
    """A value in the type of its column; None where it is none of these types, or does not fit."""
    import pyarrow as pa

    checks = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_string, pa.types.is_binary)
    if not any(check(kind) for check in checks) and not _is_ordered(kind):
        return None
    try:
        return pa.scalar(bytes(value) if isinstance(value, bytearray) else value, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError, ValueError):
        return None


def _is_ordered(kind: pa.DataType) -> bool:
    """Returns whether Arrow orders the values of a type as Spark does, texts left aside."""
    import pyarrow as pa

    is_instant = pa.types.is_timestamp(kind) and kind.tz is not None
    return bool(pa.types.is_integer(kind) or pa.types.is_date(kind) or is_instant)
