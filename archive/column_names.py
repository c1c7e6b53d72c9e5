"""Names that fields of one table cannot have together.

Iceberg finds a field by its path, the names joined by dots: a field `a.b` has the path of the field `b` of `a`, and
`element`, `key` and `value` are names inside lists and maps. Its writers replace signs that Avro's names lack: `1` becomes
`_1`. And engines compare names without case. JSON has objects with all of these names.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyiceberg.schema import make_compatible_name

_ELEMENT, _KEY, _VALUE = "element", "key", "value"


def distinct_fields(kind: pa.DataType, kept: pa.DataType | None = None) -> pa.DataType:
    """The type without fields whose names others have. Those of `kept` stay; then plain names come before odd ones, and the
    result does not depend on the order of the fields.
    """
    taken = set() if kept is None else {one for path in _paths(kept, ()) for one in _names(path, folds=True)}
    return _distinct(kind, (), taken, kept, folds=True)


def names_in_conflict(kind: pa.DataType) -> list[str]:
    """Fields that no table of Iceberg takes beside others of the type; those that differ in case only are not among them."""
    left = set(_paths(_distinct(kind, (), set(), None, folds=False), ()))
    return sorted({".".join(path) for path in _paths(kind, ()) if path not in left})


def _distinct(
    kind: pa.DataType, path: tuple[str, ...], taken: set[str], kept: pa.DataType | None, *, folds: bool
) -> pa.DataType:
    if pa.types.is_list(kind):
        inner = kept.value_type if kept is not None and pa.types.is_list(kept) else None
        item = kind.value_field
        return pa.list_(item.with_type(_distinct(item.type, (*path, _ELEMENT), taken, inner, folds=folds)))
    if pa.types.is_map(kind):
        inner = kept.item_type if kept is not None and pa.types.is_map(kept) else None
        return pa.map_(kind.key_type, _distinct(kind.item_type, (*path, _VALUE), taken, inner, folds=folds))
    if not pa.types.is_struct(kind):
        return kind
    known = {one.name: one.type for one in kept} if kept is not None and pa.types.is_struct(kept) else {}
    chosen: dict[str, pa.Field] = {}
    for field in sorted(kind, key=lambda one: (one.name not in known, *_oddness(one.name))):
        own = (*path, field.name)
        if field.name not in known:
            names = {one for inner in _own_paths(field.type, own) for one in _names(inner, folds=folds)}
            if names & taken:
                continue
            taken |= names
        made = _distinct(field.type, own, taken, known.get(field.name), folds=folds)
        if made != field.type and _is_empty(made):
            continue
        chosen[field.name] = field.with_type(made)
    return pa.struct([chosen[one.name] for one in kind if one.name in chosen])


def _is_empty(kind: pa.DataType) -> bool:
    if pa.types.is_list(kind):
        return _is_empty(kind.value_type)
    if pa.types.is_map(kind):
        return _is_empty(kind.item_type)
    return bool(pa.types.is_struct(kind) and not kind.num_fields)


def _oddness(name: str) -> tuple[bool, bool, str]:
    return "." in name, make_compatible_name(name) != name, name


def _own_paths(kind: pa.DataType, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The paths of a field without those of fields of structs."""
    yield path
    if pa.types.is_list(kind):
        yield from _own_paths(kind.value_type, (*path, _ELEMENT))
    if pa.types.is_map(kind):
        yield (*path, _KEY)
        yield from _own_paths(kind.item_type, (*path, _VALUE))


def _paths(kind: pa.DataType, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The paths of all fields of a type."""
    if pa.types.is_struct(kind):
        for one in kind:
            yield (*path, one.name)
            yield from _paths(one.type, (*path, one.name))
    elif pa.types.is_list(kind):
        yield (*path, _ELEMENT)
        yield from _paths(kind.value_type, (*path, _ELEMENT))
    elif pa.types.is_map(kind):
        yield (*path, _KEY)
        yield (*path, _VALUE)
        yield from _paths(kind.item_type, (*path, _VALUE))


def _names(path: tuple[str, ...], *, folds: bool) -> set[str]:
    """A path as readers and writers have it."""
    names = {".".join(path), ".".join(map(make_compatible_name, path))}
    return {one.lower() for one in names} if folds else names
