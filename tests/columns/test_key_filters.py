"""Filters of keys leave out segments, and change no row: also those that are stale, damaged, or of another segment."""

from __future__ import annotations

import os
import random
import shutil
import struct
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from odradek.cli.messages import FAILED
from odradek.columns import ScanDataset, key_filters, scan
from odradek.columns.directory import segments_of
from odradek.columns.key_conditions import keys_of
from odradek.columns.key_filters import may_have, narrowed
from odradek.protocol.records.record import Record
from odradek.storage.log.config import LogConfig
from odradek.storage.log.retention import delete_old_segments

from compat_tests.cli.commands import odradek_command
from tests.columns.harness.layouts import Layout
from tests.columns.harness.logs import NOW_MS, GeneratedLog
from tests.harness.examples import examples

pytest.importorskip("odradek_kernel")
KEYS = (None, b"", b"k1", b"k7", b"k11", b"absent", b"'", b'"', b"\\xff", b"\xff", b") and (")


def filters(log: GeneratedLog) -> list[Path]:
    return sorted(log.path.glob("*.keys"))


def keyed(directory: Path, segments: int, config: LogConfig | None = None) -> GeneratedLog:
    """A log whose closed segments have a key of their own and one that all of them have."""
    made = GeneratedLog(
        directory, 1, config or LogConfig(segment_bytes=1_000, index_interval_bytes=200, retention_ms=-1)
    )
    for number in range(segments):
        for _ in range(2):
            base = made.end
            made.append([Record(base, NOW_MS, b"own %d" % number, b"v" * 300), Record(base + 1, NOW_MS, b"all", b"v")])
        made.log.roll(NOW_MS)
    return made


def changed(rng: random.Random, log: GeneratedLog) -> None:
    """Makes filters missing, stale, damaged, or those of another segment."""
    made = filters(log)
    for one in made:
        how = rng.randrange(9)
        content = bytearray(one.read_bytes())
        if how == 0:
            one.unlink()
        elif how == 1:
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
            one.write_bytes(content)
        elif how == 2:
            one.write_bytes(content[: rng.randrange(len(content))])
        elif how == 3:
            one.write_bytes(content + b"\0")
        elif how == 4:
            other = rng.choice(made)
            one.write_bytes(other.read_bytes() if other.exists() else b"")
        elif how == 5:
            os.utime(one.with_suffix(".log"), ns=(1, rng.randrange(1 << 60)))
        elif how == 6:
            one.write_bytes(rng.randbytes(rng.randrange(3_000)))


@given(seed=st.integers(0, 1 << 40))
@settings(max_examples=examples(25), deadline=None)
def test_every_query_by_key_has_the_rows_of_the_whole_log(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    rng = random.Random(seed)
    log = Layout(tmp_path_factory.mktemp("keys"), seed)
    log.fill(25)
    for _ in range(4):
        found = scan(
            log.topic_path, split_bytes=rng.choice((200, 2_000, 1 << 20)), latest_per_key=rng.random() < 0.2,
            isolation_level=rng.choice(("read_uncommitted", "read_committed")),
        )  # fmt: skip
        is_text = rng.random() < 0.5
        if is_text:
            found = found.as_text(["key"])
        whole, t = found.to_table(), ScanDataset(found)
        for _ in range(4):
            key = rng.choice([*KEYS[1:], *(one.key for one in log.rows.values() if one.key is not None)])
            literal = pa.scalar(key.decode(errors="backslashreplace") if is_text else key)
            condition = ds.field("key") == literal
            for _ in range(rng.randrange(3)):
                other = rng.choice(
                    [
                        ds.field("offset") < rng.randrange(log.end + 1),
                        ds.field("partition") == pa.scalar(0, pa.int32()),
                        ds.field("key") == literal,
                        ds.field("key") == (pa.scalar("k1") if is_text else pa.scalar(b"k1")),
                        ds.field("value") != pa.scalar(b'" and (key == "'),
                    ]
                )
                join = rng.choice(("and", "and", "or", "swap", "not"))
                if join == "or":
                    condition = condition | other
                elif join == "not":
                    condition = ~condition
                else:
                    condition = other & condition if join == "swap" else condition & other
            expected = whole.filter(condition).column("offset").to_pylist()
            assert t.to_table(["offset"], condition).column("offset").to_pylist() == expected
            assert t.count_rows(condition) == len(expected)
            select = duckdb.execute('select "offset" from t where key = $1 order by 1', [literal.as_py()])
            alone = whole.filter(ds.field("key") == literal).column("offset").to_pylist()
            assert [row[0] for row in select.fetchall()] == sorted(alone)
        changed(rng, log)
        if rng.random() < 0.5:
            log.compact()
        log.fill(5)
    log.close()


@given(keys=st.lists(st.binary(max_size=40), max_size=300), asked=st.binary(max_size=40))
@example(keys=[b"\0" * at for at in range(40)], asked=b"\0")
@settings(max_examples=examples(60), deadline=None)
def test_filter_has_every_key_and_few_others(
    tmp_path_factory: pytest.TempPathFactory, keys: list[bytes], asked: bytes
) -> None:
    log = GeneratedLog(tmp_path_factory.mktemp("filter"), 1)
    log.append([Record(at, NOW_MS, key, b"v") for at, key in enumerate([b"first", *keys])])
    log.log.roll(NOW_MS)
    log.close()
    segment = segments_of(str(log.path))[0]
    for _ in range(2):  # the second time from the file
        assert all(may_have(segment, key) for key in keys)
        passed = sum(may_have(segment, b"absent %d" % at) for at in range(100))
        assert passed <= 10
    (file,) = filters(log)
    assert file.stat().st_size <= key_filters.MOST_FILTER_BYTES + 100


def test_segments_without_the_key_are_not_read(tmp_path: Path) -> None:
    log = keyed(tmp_path, 12)
    found = scan(log.topic_path)
    end = found.plan.ends[0]
    own = list(narrowed(found.splits, [b"own 7"]))
    assert [(one.first_offset, one.next_offset) for one in own] == [(28, 32)]
    assert [(one.first_offset, one.next_offset) for one in narrowed(found.splits, [b"all"])] == [(0, end)]
    assert list(narrowed(found.splits, [b"absent"])) == []
    assert list(narrowed(found.splits, [b"own 7", b"own 8"])) == []
    assert len(filters(log)) == 12
    for segment in log.path.glob("*.log"):  # no other segment is opened for records
        if int(segment.stem) != 28:
            stamps = segment.stat()
            content = bytearray(segment.read_bytes())
            if len(content) > 200:
                content[90] ^= 1
            segment.write_bytes(content)
            os.utime(segment, ns=(stamps.st_atime_ns, stamps.st_mtime_ns))
    assert ScanDataset(scan(log.topic_path)).count_rows(ds.field("key") == b"own 7") == 2
    log.close()


def test_filter_of_another_content_is_not_believed(tmp_path: Path) -> None:
    log = keyed(tmp_path, 2)
    first, second = segments_of(str(log.path))[:2]
    assert not may_have(first, b"own 1") and may_have(second, b"own 1")
    one, other = filters(log)
    shutil.copyfile(one, other)
    assert may_have(second, b"own 1")
    # The segment is another one with the same name, as after a truncation.
    path = Path(first.path)
    path.write_bytes(Path(second.path).read_bytes())
    head = struct.pack(">q", 0)
    path.write_bytes(head + path.read_bytes()[8:])
    assert may_have(segments_of(str(log.path))[0], b"own 1")
    log.close()


def test_folder_that_cannot_be_written_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = keyed(tmp_path, 3)
    monkeypatch.setattr("odradek.columns.key_filters.os.access", lambda *_: False)
    t = ScanDataset(scan(log.topic_path))
    assert t.count_rows(ds.field("key") == b"own 1") == 2
    assert filters(log) == []
    log.close()


def test_damaged_segment_has_no_filter_and_its_error(tmp_path: Path) -> None:
    log = keyed(tmp_path, 3)
    segment = Path(segments_of(str(log.path))[1].path)
    content = bytearray(segment.read_bytes())
    content[100] ^= 1
    segment.write_bytes(content)
    done = odradek_command("query", "select * from t where key = 'own 2'", "--data-dir", str(tmp_path))
    assert done.status == FAILED and segment.name in done.err
    assert [int(one.stem) for one in filters(log)] == [0, 8]
    log.close()


def test_deleted_segment_takes_its_filter_along(tmp_path: Path) -> None:
    log = keyed(tmp_path, 4)
    list(narrowed(scan(log.topic_path).splits, [b"absent"]))
    assert len(filters(log)) == 4
    log.log.advance_log_start_offset(8)
    delete_old_segments(log.log, NOW_MS, log.end)
    log.log.delete_scheduled(NOW_MS + 10**9)
    assert [int(one.stem) for one in filters(log)] == [int(one.stem) for one in sorted(log.path.glob("*.log"))][:-1]
    assert len(filters(log)) == 2
    log.close()
    # Another start of the log leaves filters where they are.
    again = GeneratedLog(tmp_path, 1)
    assert len(filters(again)) == 2
    again.close()


@pytest.mark.parametrize(
    ("condition", "is_text", "expected"),
    [
        (ds.field("key") == b"a", False, (b"a",)),
        (ds.field("key") == b"", False, (b"",)),
        (ds.field("key") == "a", True, (b"a",)),
        (ds.field("key") == "größe", True, ("größe".encode(),)),
        (ds.field("key") == "a\\xff", True, ()),
        (ds.field("key") == 'a"b', True, ()),
        ((ds.field("key") == b"a") & (ds.field("offset") > 1), False, (b"a",)),
        (((ds.field("offset") > 1) & (ds.field("key") == b"a")) & (ds.field("key") == b"b"), False, (b"a", b"b")),
        ((ds.field("key") == b"a") | (ds.field("offset") > 1), False, ()),
        (~(ds.field("key") == b"a"), False, ()),
        (((ds.field("key") == b"a") | (ds.field("offset") > 1)) & (ds.field("key") == b"b"), False, (b"b",)),
        (ds.field("value") == '" and (key == "a")', True, ()),
        ((ds.field("value") == ')" and (key == "61") and "(') & (ds.field("offset") > 1), False, ()),
        (ds.field("value", "key") == b"a", False, ()),
    ],
)
def test_keys_of_conditions_are_those_that_all_rows_have(
    condition: ds.Expression, is_text: bool, expected: tuple[bytes, ...]
) -> None:
    assert keys_of(condition, is_text) == expected
