"""JSON without a schema: one table, wherever its commits end, and no record that stops or hides another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from odradek.archive import ArchiveError, ArchiveOptions, Archiver, topic_archive
from odradek.columns import ValueSchema
from odradek.columns.inference import MOST_FIELDS
from odradek.records.json_parsing import Literal, parsed

from tests.archive.harness.broker import Harness
from tests.archive.harness.tables import KINDS, open_table, source_of
from tests.harness.examples import examples

_OPTIONS = ArchiveOptions(values=ValueSchema("json"))
_SCALARS = st.sampled_from(
    [
        0,
        1,
        1.5,
        -(2**60),
        2**53 + 1,
        2**63 - 1,
        2**63,
        2**70,
        10**38,
        "x",
        "7",
        "",
        "\0",
        True,
        None,
        1e300,
        5e-324,
        -0.0,
    ]
)
#: Names that differ in case, that Iceberg's writers make equal, and that are paths of other fields.
_NAMES = st.sampled_from(["v", "w", "V", "1", "_1", "v.w", "v.element", "v_x2Ew", "element", "offset", "", "\0"])
_VALUES = st.recursive(_SCALARS, lambda one: st.lists(one, max_size=2) | st.dictionaries(_NAMES, one, max_size=3))
_OBJECTS = st.dictionaries(_NAMES, _VALUES, max_size=3).map(lambda one: json.dumps(one).encode())
_ODD = st.sampled_from(
    [b"broken", None, b"", b"[1]", b"5", b"null", b"\xff", b'{"v": NaN}', b'{"v": 1, "v": 2}', b'{"v": -1E400}']
)
_RECORDS = st.lists(_OBJECTS | _ODD, min_size=2, max_size=6)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def archive(harness: Harness, kind: str, folder: Path, topic: str, options: ArchiveOptions = _OPTIONS) -> Any:
    made = Archiver(harness.client, [topic], lambda owner: open_table(kind, folder, owner), options)
    (done,) = made.run(once=True)
    return done


def contents(kind: str, folder: Path, topic: str) -> tuple[pa.DataType | None, list[Any], list[Any]]:
    """The type of values; the rows; the dead-letter records."""
    source = source_of(kind, folder, topic)
    rows = source.read(0, 0, 1 << 40).sort_by("offset")
    names = [one for one in ("offset", "value", "value_json") if one in rows.schema.names]
    kept = rows.select(names).to_pylist()
    for row in kept:
        row.setdefault("value_json", None)
        row.setdefault("value", None)
    try:
        dead = source_of(kind, folder, topic, dead_letters=True).read(0, 0, 1 << 40).sort_by("offset")
    except ArchiveError as error:
        assert "has no table" in str(error)  # none came
        return _type(rows.schema), kept, []
    return _type(rows.schema), kept, dead.select(["offset", "value"]).to_pylist()


def _type(schema: pa.Schema) -> pa.DataType | None:
    return _sorted(schema.field("value").type) if "value" in schema.names else None


def _sorted(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([(one.name, _sorted(one.type)) for one in sorted(kind, key=lambda one: one.name)])
    if pa.types.is_large_string(kind):  # PyIceberg's reading of a column that some files lack
        return pa.string()
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    return pa.list_(_sorted(kind.value_type)) if is_list else kind


def test_integer_then_fraction_is_the_same_table_in_one_commit_or_two(
    harness: Harness, kind: str, tmp_path: Path
) -> None:
    topic = f"widened_{kind}"
    harness.create(topic)
    harness.write(topic, [b'{"v": 1}', b"broken"])
    archive(harness, kind, tmp_path / "two", topic)
    harness.write(topic, [b'{"v": 1.5}'])
    archive(harness, kind, tmp_path / "two", topic)
    archive(harness, kind, tmp_path / "one", topic)
    found = contents(kind, tmp_path / "two", topic)
    assert found == contents(kind, tmp_path / "one", topic)
    assert found[0] == pa.struct([("v", pa.float64())])
    assert [row["value"] for row in found[1]] == [{"v": 1.0}, {"v": 1.5}]
    assert [row["offset"] for row in found[2]] == [1]
    assert archive(harness, kind, tmp_path / "two", topic).commits == 0


@settings(max_examples=examples(10), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records=_RECORDS, cuts=st.sets(st.integers(1, 5), min_size=1, max_size=2))
def test_table_does_not_depend_on_where_commits_end(
    harness: Harness, kind: str, tmp_path_factory: pytest.TempPathFactory, records: list[bytes], cuts: set[int]
) -> None:
    folder = tmp_path_factory.mktemp("cuts")
    topic = f"{kind}_{folder.name.replace('-', '_')}"
    harness.create(topic)
    ends = [*sorted(one for one in cuts if one < len(records)), len(records)]
    for start, end in zip([0, *ends], ends):
        harness.write(topic, records[start:end])
        archive(harness, kind, folder / "cut", topic)
    archive(harness, kind, folder / "whole", topic)
    cut, whole = contents(kind, folder / "cut", topic), contents(kind, folder / "whole", topic)
    assert cut == whole
    offsets = sorted(row["offset"] for row in cut[1]) + [row["offset"] for row in cut[2]]
    assert sorted(offsets) == list(range(len(records)))
    for row in cut[1]:
        content = records[row["offset"]]
        assert row["value_json"] in (None, None if content is None else content.decode())
        if row["value_json"] is None:
            assert_has_all(row["value"], None if content is None else parsed(content.decode()))


def assert_has_all(found: Any, value: Any) -> None:
    """Checks that a value of a column has all of a JSON value; texts of columns may be JSON."""
    if isinstance(value, dict) and isinstance(found, dict):
        for name, one in value.items():
            assert one is None or name in found
            assert_has_all(found.get(name), one)
        assert all(one is None for name, one in found.items() if name not in value)
    elif isinstance(value, list) and isinstance(found, list):
        assert len(found) == len(value)
        for one, other in zip(found, value, strict=True):
            assert_has_all(one, other)
    elif isinstance(value, str) and not isinstance(value, Literal):
        assert found == value
    elif isinstance(found, str):
        assert parsed(found) == value
    elif isinstance(value, Literal):
        assert found == float(value)
    else:
        assert found == value and isinstance(found, bool) == isinstance(value, bool)


def test_after_the_sample_types_stay_and_no_field_is_lost(
    harness: Harness, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_archive, "SAMPLE_ROWS", 4)
    topic = f"closed_{kind}"
    harness.create(topic)
    harness.write(topic, [b'{"v": 1}'] * 6)
    archive(harness, kind, tmp_path, topic)
    harness.write(topic, [b'{"v": 1.5}', b'{"v": 2, "new": [1]}', b'{"v": 3}'])
    archive(harness, kind, tmp_path, topic)
    kinds, rows, dead = contents(kind, tmp_path, topic)
    assert kinds == pa.struct([("v", pa.int64())])
    assert [(row["value"], row["value_json"]) for row in rows[6:]] == [
        ({"v": 2}, '{"v": 2, "new": [1]}'), ({"v": 3}, None)
    ]  # fmt: skip
    assert [row["value"] for row in dead] == [b'{"v": 1.5}']


def test_records_that_no_column_takes_leave_the_others_and_other_topics_alone(
    harness: Harness, kind: str, tmp_path: Path
) -> None:
    odd = [
        b'{"a":1,"A":2}', b'{"":1}', b'{"\\u0000":1}', b"[" * 3000 + b"]" * 3000, b'{"x":' * 3000 + b"1" + b"}" * 3000,
        json.dumps({f"f{one}": one for one in range(200_000)}).encode(), b'{"v": Infinity}', b'{"w": "\\ud800"}',
    ]  # fmt: skip
    odd_topic, good_topic = f"odd_{kind}", f"good_{kind}"
    for topic in (odd_topic, good_topic):
        harness.create(topic, max_message_bytes=8 << 20)
    harness.write(odd_topic, [b'{"v": 1}', *odd, b'{"v": 2}'], message_max_bytes=8 << 20)
    harness.write(good_topic, [b'{"v": 1}'])
    made = Archiver(harness.client, [odd_topic, good_topic], lambda owner: open_table(kind, tmp_path, owner), _OPTIONS)
    assert [one.error for one in made.run(once=True)] == [None, None]
    _, rows, dead = contents(kind, tmp_path, odd_topic)
    found = {row["offset"]: row for row in rows}
    assert sorted([*found, *(row["offset"] for row in dead)]) == list(range(len(odd) + 2))
    assert found[0]["value"]["v"] == 1 and found[9]["value"]["v"] == 2
    for offset, row in found.items():  # what is no column is in the text
        assert offset in (0, 9) or row["value_json"] is not None
    reasons = source_of(kind, tmp_path, odd_topic, dead_letters=True).read(0, 0, 99).column("reason").to_pylist()
    assert all(reasons) and len(contents(kind, tmp_path, good_topic)[1]) == 1


def test_new_key_in_each_record_ends_as_text_and_not_as_columns(harness: Harness, kind: str, tmp_path: Path) -> None:
    topic = f"keys_{kind}"
    harness.create(topic)
    harness.write(topic, [b'{"k%d": 1}' % one for one in range(MOST_FIELDS // 2)])
    archive(harness, kind, tmp_path, topic)
    harness.write(topic, [b'{"k%d": 1}' % one for one in range(MOST_FIELDS // 2, 20_000)])
    done = archive(harness, kind, tmp_path, topic)
    kinds, rows, dead = contents(kind, tmp_path, topic)
    assert kinds == pa.string() and not dead and len(rows) == 20_000 and done.dead_letter_records == 0
    assert rows[19_999]["value"] == '{"k19999": 1}'
