"""Nulls and empty values at every level of a column: a table has them as they were, also after a merge of its files."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.archive import maintenance, store
from odradek.archive.null_lists import NullKeepingProjection
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, ListType, NestedField, StructType

from tests.archive.harness.tables import KINDS, covered, dead_letter_rows, open_table, rows_of, source_of
from tests.harness.examples import examples

_ITEM = pa.struct([("x", pa.int32()), ("y", pa.list_(pa.field("element", pa.string())))])
_ITEMS = pa.list_(pa.field("element", _ITEM))
VALUE = pa.struct(
    [
        ("numbers", pa.list_(pa.field("element", pa.int64()))),
        ("items", _ITEMS),
        ("nested", pa.list_(pa.field("element", _ITEMS))),
        ("by_name", pa.map_(pa.string(), _ITEM)),
        ("lists", pa.map_(pa.string(), _ITEMS)),
        ("inner", pa.struct([("items", _ITEMS), ("by_name", pa.map_(pa.string(), pa.int64()))])),
    ]
)


def values_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_struct(kind):
        return st.none() | st.fixed_dictionaries({one.name: values_of(one.type) for one in kind})
    if pa.types.is_list(kind):
        return st.none() | st.lists(values_of(kind.value_type), max_size=2)
    if pa.types.is_map(kind):
        keys = st.sampled_from(["", "a"])
        return st.none() | st.dictionaries(keys, values_of(kind.item_type)).map(lambda one: list(one.items()))
    return st.sampled_from([None, 0, 7] if pa.types.is_integer(kind) else [None, "", "a"])


@pytest.mark.parametrize("kind", KINDS)
@given(values=st.lists(values_of(VALUE), min_size=4, max_size=8), cut=st.integers(1, 3))
@settings(max_examples=examples(8), deadline=None)
def test_nulls_and_empty_lists_are_as_they_were(kind: str, values: list[Any], cut: int) -> None:
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        for module in (store, maintenance):
            patch.setattr(module, "FILES_TO_MERGE", 2)
        table = open_table(kind, Path(place))
        for first, end in ((0, cut), (cut, len(values))):
            rows = rows_of(first, end, hours=0).drop(["value"])
            rows = rows.append_column(pa.field("value", VALUE), pa.array(values[first:end], VALUE))
            table.evolve(rows.schema)
            table.write(rows, dead_letter_rows())
            table.commit(covered(end))
        assert found(kind, Path(place)) == values
        files = [pq.read_table(one, partitioning=None) for one in Path(place).rglob("*.parquet")]
        stored = pa.concat_tables([one.select(["offset", "value"]) for one in files]).sort_by("offset")
        assert stored.column("value").to_pylist() == values
        table.maintain()
        table.close()
        assert len(source_of(kind, Path(place)).ranges()) == 1
        assert found(kind, Path(place)) == values


def found(kind: str, folder: Path) -> list[Any]:
    return list(source_of(kind, folder).read(0, 0, 99).sort_by("offset").column("value").to_pylist())


def test_null_lists_of_a_part_of_an_array_are_kept(tmp_path: Path) -> None:
    values = [{"items": one} for one in ([{"x": 1}], None, [], None, [{"x": 2}, None])]
    kind = pa.struct([("items", _ITEMS)])
    rows = rows_of(0, 5, hours=0).drop(["value"]).append_column(pa.field("value", kind), pa.array(values, kind))
    table = open_table("iceberg", tmp_path)
    table.evolve(rows.schema)
    table.write(rows.slice(1, 3), dead_letter_rows())
    table.commit(covered(4))
    assert found("iceberg", tmp_path) == [{"items": None}, {"items": []}, {"items": None}]


def test_pyiceberg_alone_still_loses_null_lists() -> None:
    """Fails with the first release of PyIceberg that keeps them: the range of versions then begins there, and our projection
    goes (https://github.com/apache/iceberg-python/issues/3833).
    """
    schema = Schema(
        NestedField(1, "items", ListType(2, StructType(NestedField(3, "x", IntegerType())), element_required=False))
    )
    kind = pa.list_(pa.struct([("x", pa.int32())]))
    values = pa.array([[{"x": 1}], None, []], kind)
    (field,) = schema.fields
    kept = []
    for projection in (NullKeepingProjection.__bases__[0], NullKeepingProjection):
        items = projection(schema).list(field.field_type, values, values.values)
        kept.append(items.to_pylist())
    assert kept == [[[{"x": 1}], [], []], [[{"x": 1}], None, []]]
