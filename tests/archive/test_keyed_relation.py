"""`odradek.relation` of a keyed table: the rows that the archiver would leave, before it has the changes of the log."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from odradek.archive import ArchiveError, ArchiveOptions, Archiver, keyed_rows
from odradek.archive.key_columns import KeyColumns
from odradek.archive.keyed import Envelope, Keyed
from odradek.archive.relation import Relation, relation
from odradek.columns import INFER, ValueSchema

from tests.archive.harness.broker import NOW_MS, Harness
from tests.archive.harness.keyed import open_keyed, scanned

INFERRED = ValueSchema("json", INFER)
_DEADLINE_S = 60
_KEYS, _PARTITIONS = 12, 3
#: The first records decide the types of JSON.
_SAMPLE = 10_001


def keyed(*names: str, envelope: Envelope = Envelope.none) -> Keyed:
    return Keyed(KeyColumns.named(names), envelope)


def archiver(harness: Harness, folder: Path, topic: str, settings: Keyed, **options: Any) -> Archiver:
    return Archiver(
        harness.client, [topic], lambda owner: open_keyed(folder, settings, owner), ArchiveOptions(**options)
    )  # fmt: skip


def related(harness: Harness, folder: Path, topic: str, **options: Any) -> Relation:
    return relation(topic, client=harness.client, warehouse=folder, **options)


def in_order(rows: pa.Table) -> list[dict[str, Any]]:
    return sorted(rows.to_pylist(), key=lambda row: (row["partition"], row["offset"]))


def raw(rng: random.Random, number: int) -> bytes | None:
    return rng.choice([None, b"", b"v%d" % number])


def fields(rng: random.Random, number: int) -> bytes | None:
    """A value with its key; some have a new field, no key, or are no JSON."""
    made: dict[str, Any] = {"id": rng.randrange(_KEYS), "v": number}
    if number < _SAMPLE:
        return json.dumps(made).encode()
    if number % 3:
        made["new"] = "x" * rng.randrange(3)
    return rng.choice([json.dumps(made).encode()] * 8 + [b'{"v": 1}', b"no JSON", b'{"id": "text"}', None])


def event(rng: random.Random, number: int) -> bytes | None:
    row, before = ({"id": rng.randrange(_KEYS), "v": number} for _ in range(2))
    return json.dumps(
        rng.choice(
            [{"op": "u", "before": None, "after": row}] * 4
            + [{"op": "d", "before": before, "after": None}]
            + ([] if number < _SAMPLE else [{"op": "t", "before": None, "after": None}])
        )
    ).encode()


FORMS: dict[str, tuple[Keyed, ValueSchema | None, Callable[[random.Random, int], bytes | None]]] = {
    "raw": (keyed("key"), None, raw),
    "fields": (keyed("id"), INFERRED, fields),
    "events": (keyed("id", envelope=Envelope.debezium), INFERRED, event),
}


class History:
    """Records of a few keys in several partitions, with times in any order."""

    def __init__(self, harness: Harness, topic: str, form: str) -> None:
        self._harness, self._topic = harness, topic
        self._rng = random.Random(form)
        self._made = FORMS[form][2]
        self._number = 0

    def write(self, count: int) -> None:
        producer = self._harness.producer()
        for _ in range(count):
            key = self._rng.choice([b"k%d" % self._rng.randrange(_KEYS)] * 9 + [None])
            stamp = NOW_MS + self._rng.randrange(1000)
            partition = self._rng.choice([0, 0, 1, 2])
            producer.produce(self._topic, self._made(self._rng, self._number), key, partition, timestamp=stamp)
            self._number += 1
        assert producer.flush(30) == 0


@pytest.mark.parametrize("form", FORMS)
def test_relation_is_the_table_that_the_archiver_makes_next(harness: Harness, tmp_path: Path, form: str) -> None:
    topic, (settings, values, _) = f"next_{form}", FORMS[form]
    harness.create(topic, _PARTITIONS)
    history = History(harness, topic, form)
    history.write(40 if values is None else _SAMPLE)
    archiver(harness, tmp_path, topic, settings, values=values).run(once=True)
    for count in (25, 1, 30):
        history.write(count)
        before = related(harness, tmp_path, topic, values=values)
        rows, dead = in_order(before.to_table()), in_order(before.dead_letter_records())
        condition = (ds.field("partition") != 1) & (ds.field("offset") > 3)
        some = in_order(before.to_table(["partition", "offset", "key"], condition))
        tasks = before.tasks(["partition", "offset"], task_bytes=1_000)
        places = [(row["partition"], row["offset"]) for row in rows]
        archiver(harness, tmp_path, topic, settings, values=values).run(once=True)
        stored = scanned(tmp_path, topic)
        if "value_json" in before.schema.names and "value_json" not in stored.schema.names:  # no value needs it so far
            stored = stored.append_column("value_json", pa.nulls(stored.num_rows, pa.string()))
        assert rows == in_order(stored.select(before.schema.names))
        assert some == in_order(stored.filter(condition).select(["partition", "offset", "key"]))
        found = [tuple(row.values()) for task in tasks for batch in task.batches() for row in batch.to_pylist()]
        assert sorted(found) == places and (count == 1 or len(tasks) > 1)
        after = related(harness, tmp_path, topic, values=values)
        assert all(start == end for start, end in after.offsets.values())
        assert in_order(after.to_table()) == rows and in_order(after.dead_letter_records()) == dead
        # As of its point, also when the table has gone on.
        assert in_order(before.to_table()) == rows


def test_engines_take_the_last_rows_of_keys(harness: Harness, tmp_path: Path) -> None:
    harness.create("balances")
    harness.write("balances", [b'{"id": %d, "v": 1}' % number for number in range(5)])
    archiver(harness, tmp_path, "balances", keyed("id"), values=INFERRED).run(once=True)
    harness.write("balances", [b'{"id": 1, "v": 10}', b'{"id": 7, "v": 7}', b'{"id": 1, "v": 20}'])
    balances = related(harness, tmp_path, "balances", values=INFERRED)
    assert duckdb.sql("select count(*), sum(value.v) from balances").fetchall() == [(6, 31)]
    assert sorted(duckdb.sql('select value.v from balances where "offset" > 5').fetchall()) == [(7,), (20,)]
    assert polars.DataFrame(balances).height == balances.count_rows() == 6


def test_relation_beside_a_running_archiver_has_each_key_once(harness: Harness, tmp_path: Path) -> None:
    topic = "running_keys"
    harness.create(topic)
    harness.write(topic, [b"0"] * 7)
    archiver(harness, tmp_path, topic, keyed("key")).run(once=True)
    running = archiver(harness, tmp_path, topic, keyed("key"), freshness_s=0.1)
    thread = threading.Thread(target=running.run)
    thread.start()
    starts = set()
    try:
        for number in range(1, 11):
            harness.write(topic, [b"%d" % number] * 7)
            made = related(harness, tmp_path, topic)
            rows = in_order(made.to_table())
            assert [row["value"] for row in rows] == [b"%d" % number] * 7
            assert {row["key"] for row in rows} == {b"k%d" % one for one in range(7)}
            starts.add(made.offsets[0][0])
    finally:
        running.stop()
        thread.join(_DEADLINE_S)
    assert not thread.is_alive()
    assert len(starts) > 1, "the table grew meanwhile"


def test_changes_beyond_the_budget_are_an_error(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.create("beyond")
    harness.write("beyond", [b"1"] * 7)
    archiver(harness, tmp_path, "beyond", keyed("key")).run(once=True)
    harness.write("beyond", [b"x" * 1000] * 7)
    monkeypatch.setattr(keyed_rows, "MOST_CHANGED_BYTES", 4_000)
    with pytest.raises(ArchiveError, match="run `odradek archive` first"):
        related(harness, tmp_path, "beyond").to_table()
    monkeypatch.undo()
    assert related(harness, tmp_path, "beyond").count_rows() == 7
