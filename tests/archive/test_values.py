"""Values of all kinds through a table and back into a topic: the same, or a dead-letter record with a reason."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from odradek.archive import ArchiveOptions, Archiver, Replay
from odradek.columns import ValueSchema

from tests.archive.harness.broker import NOW_MS, Harness
from tests.archive.harness.tables import KINDS, open_table, source_of
from tests.harness.examples import examples

_NUMBERS = (
    "0", "-0", "1", "-1", "0.1", "1e400", "-1e400", "1e-400", "NaN", "Infinity", "-Infinity", "123456789.123456789",
)  # fmt: skip
_NUMBERS_BEYOND = [
    str(sign * (1 << bits) + step) for bits in (53, 62, 63, 64, 126, 127) for sign in (1, -1) for step in (-1, 0, 1)
]
_TEXTS = ('""', '"x"', '"\\ud800"', '"\\u0000"', '"7"', "null", "true", "[]", "{}")
_VALUES = st.sampled_from([*_NUMBERS, *_NUMBERS_BEYOND, *_TEXTS]).map(lambda one: f'{{"v": {one}}}'.encode())
_ANY = _VALUES | st.sampled_from([None, b"", b"{}", b"null", b'{"v"', b"\xff", b'{"v":1}\x00']) | st.binary(max_size=4)
#: Years 1 and 9999, and what no table takes. librdkafka writes the current time in place of 0.
_STAMPS = (1, NOW_MS, 253_402_300_799_999, 253_402_300_800_000, NOW_MS * 1000, (1 << 53) + 1, (1 << 63) - 1)
_KEYS = st.none() | st.just(b"") | st.binary(max_size=3)
_HEADERS = st.lists(
    st.tuples(st.sampled_from(["", "h", "é"]), st.none() | st.just(b"") | st.binary(max_size=2)), max_size=2
)
_RECORDS = st.lists(st.tuples(_ANY, _KEYS, st.sampled_from(_STAMPS), _HEADERS), min_size=1, max_size=12)


def write(harness: Harness, topic: str, records: list[Any]) -> None:
    producer = harness.producer()
    for value, key, stamp, headers in records:
        producer.produce(topic, value, key, 0, timestamp=stamp, headers=headers)
    assert producer.flush(30) == 0


def is_value(found: Any, text: str) -> bool:
    """Returns whether a column's value is that of JSON: exactly, as a double where JSON has one, or as its text."""
    wanted = json.loads(text, parse_float=Decimal, parse_int=Decimal)["v"]
    if isinstance(found, str):
        return (
            found == wanted or (json.loads(found, parse_float=Decimal, parse_int=Decimal) if found else None) == wanted
        )
    if isinstance(found, float) and isinstance(wanted, Decimal):
        return found == wanted or found == float(wanted)
    return bool(found == wanted)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(8), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records=_RECORDS, is_typed=st.booleans())
def test_records_come_back_or_are_dead_letter_records(
    harness: Harness, tmp_path_factory: pytest.TempPathFactory, kind: str, records: list[Any], is_typed: bool
) -> None:
    folder = tmp_path_factory.mktemp("values")
    topic = f"{kind}_{folder.name}"
    again = f"{topic}_again"
    for one in (topic, again):
        harness.create(one)
    write(harness, topic, records)
    options = ArchiveOptions(values=ValueSchema("json") if is_typed else None, keep_value=is_typed)
    (done,) = Archiver(harness.client, [topic], lambda owner: open_table(kind, folder, owner), options).run(once=True)
    assert done.rows + done.dead_letter_records == len(records)
    rows = source_of(kind, folder, topic).read(0, 0, 99).sort_by("offset").to_pylist()
    written = dict(enumerate(harness.read(topic)))
    dead = []
    if done.dead_letter_records:
        dead = source_of(kind, folder, topic, dead_letters=True).read(0, 0, 99).to_pylist()
    assert sorted(row["offset"] for row in [*rows, *dead]) == list(range(len(records)))
    for row in dead:
        assert row["reason"] and (row["key"], row["value"]) == written[row["offset"]][4:6]
    for row in rows if is_typed else ():
        value = row.get("value")
        assert row["value_bytes"] == written[row["offset"]][5]
        if isinstance(value, dict) and row["value_bytes"] != b"{}":
            assert is_value(value["v"], row["value_bytes"].decode())
    if rows:
        Replay(source_of(kind, folder, topic), harness.client, again).run()
        assert [row[2:] for row in harness.read(again)] == [written[row["offset"]][2:] for row in rows]


def test_floats_and_nulls_of_columns_are_those_of_the_values(harness: Harness, tmp_path: Path) -> None:
    harness.create("fractions")
    values = [b'{"v": 0.1}', b'{"v": null}', b"{}", b'{"v": 9007199254740993}', b'{"v": 5e-324}']
    harness.write("fractions", [*values, None])
    options = ArchiveOptions(values=ValueSchema("json", pa.schema([("v", pa.float64())])))
    (done,) = Archiver(
        harness.client, ["fractions"], lambda owner: open_table("iceberg", tmp_path, owner), options
    ).run(once=True)
    rows = source_of("iceberg", tmp_path, "fractions").read(0, 0, 99).sort_by("offset").column("value").to_pylist()
    assert rows == [{"v": 0.1}, {"v": None}, {"v": None}, {"v": 5e-324}, None]
    dead = source_of("iceberg", tmp_path, "fractions", dead_letters=True).read(0, 0, 99).to_pylist()
    assert done.dead_letter_records == 1 and dead[0]["offset"] == 3 and "9007199254740993" in dead[0]["reason"]
