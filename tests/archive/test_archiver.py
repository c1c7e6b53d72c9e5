"""Topics of a broker process as tables: equal to the records that kafka-python reads, and up to date."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from kafka.errors import TopicAlreadyExistsError
from odradek.archive import ArchiveError, ArchiveOptions, Archiver, Owner
from odradek.archive.ownership import table_name
from odradek.archive.rows import TypedRows
from odradek.archive.store import Table
from odradek.columns import ScanError, ValueSchema
from pyiceberg.exceptions import NoSuchTableError

from tests.archive.harness.broker import NOW_MS, Harness, rows_of_table
from tests.archive.harness.tables import KINDS, open_table, source_of

_DEADLINE_S = 60


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def archive(harness: Harness, kind: str, folder: Path, *topics: str, **options: Any) -> Any:
    """One run up to the end of the topics."""
    made = Archiver(
        harness.client, topics, lambda topic: open_table(kind, folder, topic), ArchiveOptions(**options)
    )  # fmt: skip
    return made.run(once=True)


def table_of(kind: str, folder: Path, topic: str, *, dead_letters: bool = False) -> pa.Table:
    source = source_of(kind, folder, topic, dead_letters=dead_letters)
    partitions = {one.partitions[0] for one in source.ranges()} | {one.partitions[1] for one in source.ranges()}
    return pa.concat_tables([source.read(one, 0, 1 << 40) for one in sorted(partitions)])


def test_tables_equal_the_records_that_a_consumer_reads(harness: Harness, kind: str, tmp_path: Path) -> None:
    topic = f"equal_{kind}"
    harness.create(topic, 2, segment_bytes=1 << 20)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        harness.fill(topic, 1200, compression_type=codec)
    harness.fill(topic, 300, partition=1)
    harness.fill_transactions(topic)
    (done,) = archive(harness, kind, tmp_path, topic, file_bytes=1 << 20)
    expected = harness.read(topic)
    assert rows_of_table(table_of(kind, tmp_path, topic)) == expected
    assert (done.rows, done.dead_letter_records) == (len(expected), 0)
    harness.grow(topic, 3)
    harness.fill(topic, 40, partition=2)
    harness.fill_transactions(topic, 4)
    (again,) = archive(harness, kind, tmp_path, topic)
    assert rows_of_table(table_of(kind, tmp_path, topic)) == harness.read(topic)
    assert again.rows == len(harness.read(topic)) - len(expected)
    (nothing,) = archive(harness, kind, tmp_path, topic)
    assert (nothing.rows, nothing.commits) == (0, 0)


@contextmanager
def running(archiver: Archiver) -> Iterator[None]:
    thread = threading.Thread(target=archiver.run)
    thread.start()
    try:
        yield
    finally:
        archiver.stop()
        thread.join(_DEADLINE_S)
        assert not thread.is_alive()


def until(check: Any) -> Any:
    deadline = time.monotonic() + _DEADLINE_S
    while not (found := check()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def test_records_of_the_active_segment_are_in_the_table_while_the_archiver_runs(
    harness: Harness, tmp_path: Path
) -> None:
    harness.create("fresh")
    errors: list[Exception] = []

    def rows() -> int:
        try:
            return int(table_of("parquet", tmp_path, "fresh").num_rows)
        except (ArchiveError, FileNotFoundError, pa.ArrowInvalid):
            return 0

    made = Archiver(
        harness.client, ["fresh"], lambda topic: open_table("parquet", tmp_path, topic), ArchiveOptions(freshness_s=0.4),
        on_error=lambda topic, error: errors.append(error),
    )  # fmt: skip
    with running(made):
        for count in (3, 5, 9):
            harness.write("fresh", [b"v"] * (count - rows()))
            until(lambda count=count: rows() == count)
    assert errors == []


def test_an_error_of_one_topic_does_not_stop_the_others(harness: Harness, tmp_path: Path) -> None:
    harness.create("healthy")
    harness.write("healthy", [b"1", b"2"])
    with pytest.raises(Exception, match="missing"):
        archive(harness, "parquet", tmp_path, "missing", "healthy")
    assert table_of("parquet", tmp_path, "healthy").num_rows == 2


def test_typed_columns_grow_and_rows_that_break_are_dead_letter_records(
    harness: Harness, kind: str, tmp_path: Path
) -> None:
    topic = f"typed_{kind}"
    harness.create(topic)
    first = [json.dumps({"id": one, "customer": f"c{one % 7}"}).encode() for one in range(200)]
    harness.write(topic, [*first, b"no json", None])
    old = ValueSchema("json", pa.schema([("id", pa.int64()), ("customer", pa.string())]))
    (done,) = archive(harness, kind, tmp_path, topic, values=old)
    assert (done.rows, done.dead_letter_records) == (201, 1)
    second = [json.dumps({"id": 1000 + one, "note": "new"}).encode() for one in range(100)]
    harness.write(topic, [*second, b'{"id": "many"}'])
    new = ValueSchema("json", pa.schema([("id", pa.int64()), ("note", pa.string())]))
    (done,) = archive(harness, kind, tmp_path, topic, values=new)
    assert (done.rows, done.dead_letter_records) == (100, 1)
    values = table_of(kind, tmp_path, topic).sort_by("offset").column("value").to_pylist()
    assert values[0] == {"id": 0, "customer": "c0", "note": None}
    assert values[200] is None and values[201] == {"id": 1000, "customer": None, "note": "new"}
    assert sum(one["id"] for one in values if one) == sum(range(200)) + sum(range(1000, 1100))
    dead = table_of(kind, tmp_path, topic, dead_letters=True).sort_by("offset")
    assert dead.column("offset").to_pylist() == [200, 302]
    assert dead.column("value").to_pylist() == [b"no json", b'{"id": "many"}']
    assert "JSON" in dead.column("reason")[0].as_py() and "many" in dead.column("reason")[1].as_py()
    with pytest.raises(ArchiveError, match="are typed"):
        archive(harness, kind, tmp_path, topic)


def test_records_with_timestamps_in_microseconds_are_dead_letter_records(
    harness: Harness, kind: str, tmp_path: Path
) -> None:
    topic = f"stamps_{kind}"
    harness.create(topic)
    producer = harness.producer()
    for stamp in (NOW_MS, NOW_MS * 1000, -1, NOW_MS + 1):
        producer.produce(topic, b"v", timestamp=stamp)
    producer.flush(30)
    (done,) = archive(harness, kind, tmp_path, topic)
    assert (done.rows, done.dead_letter_records) == (3, 1)
    assert table_of(kind, tmp_path, topic, dead_letters=True).column("offset").to_pylist() == [1]


def test_deleted_records_stop_the_topic_or_leave_a_dead_letter_record(
    harness: Harness, kind: str, tmp_path: Path
) -> None:
    topic = f"deleted_{kind}"
    harness.create(topic)
    harness.write(topic, [b"v"] * 20)
    archive(harness, kind, tmp_path, topic)
    harness.write(topic, [b"v"] * 20)
    harness.delete_records(topic, {0: 30})
    with pytest.raises(ScanError, match="offset 20 is gone: the log starts at 30"):
        archive(harness, kind, tmp_path, topic)
    archive(harness, kind, tmp_path, topic, skip_unreadable=True)
    found = sorted(table_of(kind, tmp_path, topic).column("offset").to_pylist())
    assert found == [*range(20), *range(30, 40)]
    (reason,) = table_of(kind, tmp_path, topic, dead_letters=True).column("reason").to_pylist()
    assert reason.startswith(f"{topic}-0: offsets 20 to 29 cannot be read")


def test_a_topic_that_was_created_again_is_an_error(harness: Harness, kind: str, tmp_path: Path) -> None:
    topic = f"again_{kind}"
    harness.create(topic)
    harness.write(topic, [b"v"] * 20)
    archive(harness, kind, tmp_path, topic)
    harness.delete(topic)
    until(lambda: _created(harness, topic))
    harness.write(topic, [b"w"] * 5)
    with pytest.raises(ArchiveError, match=f"topic {topic} was deleted and created again"):
        archive(harness, kind, tmp_path, topic)
    assert table_of(kind, tmp_path, topic).num_rows == 20


def _created(harness: Harness, topic: str) -> bool:
    try:
        harness.create(topic)
    except TopicAlreadyExistsError:  # the deletion is not complete
        return False
    return True


def test_a_turn_that_fails_leaves_no_row_and_the_next_one_has_all(harness: Harness, kind: str, tmp_path: Path) -> None:
    topic = f"fails_{kind}"
    harness.create(topic)
    harness.write(topic, [b"v"] * 50)
    failures, commits = [OSError("disk full")], []

    class Failing:
        """A table whose first commit fails."""

        def __init__(self, table: Table) -> None:
            self._table = table

        def __getattr__(self, name: str) -> Any:
            return getattr(self._table, name)

        def commit(self, covered: Any) -> None:
            if failures:
                raise failures.pop()
            self._table.commit(covered)
            commits.append(covered)

    made = Archiver(
        harness.client, [topic], lambda topic: Failing(open_table(kind, tmp_path, topic)),  # type: ignore[arg-type, return-value]
        ArchiveOptions(freshness_s=0.2), on_error=lambda topic, error: None,
    )  # fmt: skip
    thread = threading.Thread(target=made.run)
    thread.start()
    until(lambda: commits)
    made.stop()
    thread.join(_DEADLINE_S)
    assert rows_of_table(table_of(kind, tmp_path, topic)) == harness.read(topic)


@pytest.mark.parametrize("step", ["evolve", "write", "commit", "maintain", "decode"])
@pytest.mark.parametrize(
    "error",
    [
        KeyError("k"), MemoryError(), OSError("disk full"), NoSuchTableError("gone")
    ],
    ids=lambda one: type(one).__name__,
)  # fmt: skip
def test_any_error_of_a_topic_is_contained_named_and_repeated(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, error: Exception
) -> None:
    bad, good = (f"{word}-{step}-{type(error).__name__}" for word in ("bad", "good"))
    for topic in (bad, good):
        harness.create(topic)
        harness.write(topic, [b'{"a": 1}', b'{"a": 2}'])
    failures, shown = [error], []

    def fails_once(*given: Any) -> None:
        if failures:
            raise failures.pop()

    class Failing:
        """A table one of whose steps fails once."""

        def __init__(self, table: Table) -> None:
            self._table = table

        def __getattr__(self, name: str) -> Any:
            if name == step:
                fails_once()
            return getattr(self._table, name)

    def opened(owner: Owner) -> Table:
        table = open_table("parquet", tmp_path, owner)
        return Failing(table) if owner.topic == bad else table  # type: ignore[return-value]

    if step == "decode":
        original = TypedRows.rows
        monkeypatch.setattr(TypedRows, "rows", lambda self, batch: fails_once() or original(self, batch))
    made = Archiver(
        harness.client, [bad, good], opened, ArchiveOptions(freshness_s=0.2, values=ValueSchema("json")),
        on_error=lambda topic, error: shown.append((topic, error)),
    )  # fmt: skip
    with running(made):
        until(lambda: len(made.archived) == 2 and all(one.rows == 2 for one in made.archived))
    ((topic, found),) = shown
    assert topic == bad and bad in str(found) and type(error).__name__ in str(found)
    assert isinstance(found, ArchiveError) and "\n" not in str(found)
    if step == "decode":
        assert f"{bad}-0: offsets 0 to 1" in str(found)
    for one in (bad, good):
        assert table_of("parquet", tmp_path, table_name(one)).column("offset").to_pylist() == [0, 1]
