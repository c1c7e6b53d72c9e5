"""Rows of Arrow become records as others encode them, in the partitions of Java and librdkafka: kernel and Python alike."""

from __future__ import annotations

import random
import time
import zlib
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2
from odradek.protocol.records.batch import check_crc, read_header
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.record import Record, decode_batch, encode_batch
from odradek.sink import batches as batches_module
from odradek.sink import rows as loops
from odradek.sink.batches import Batch, Batches, Producer
from odradek.sink.columns import InvalidRows, rows_of

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
NOW_MS = 1_700_000_000_000
IMPLEMENTATIONS = {
    "kernel": (loops.encode_rows, loops.partitions_of_keys),
    "python": (loops.encode_rows_in_python, loops.partitions_of_keys_in_python),
}
small = st.one_of(st.none(), st.binary(max_size=40))
pairs = st.lists(st.tuples(st.text(max_size=4), small), max_size=3)
times = st.one_of(st.none(), st.integers(-(1 << 50), 1 << 50), st.integers(NOW_MS - 5, NOW_MS + 5))
one_row = st.tuples(small, small, st.one_of(st.none(), pairs), times)


def batch_of(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    headers = [None if row[2] is None else [{"key": key, "value": value} for key, value in row[2]] for row in rows]
    return pa.record_batch(
        {
            "key": pa.array([row[0] for row in rows], pa.binary()),
            "value": pa.array([row[1] for row in rows], pa.binary()),
            "headers": pa.array(headers, HEADERS),
            "timestamp": pa.array([row[3] for row in rows], pa.timestamp("ms", "UTC")),
        }
    )


def made_by(name: str, batch: pa.RecordBatch, monkeypatch: pytest.MonkeyPatch, **producer: Any) -> list[Batch]:
    with monkeypatch.context() as patched:
        patched.setattr(loops, "encode_rows", IMPLEMENTATIONS[name][0])
        patched.setattr(loops, "partitions_of_keys", IMPLEMENTATIONS[name][1])
        random.seed(7)
        made = Batches(Producer(9, 2, **producer))
        return [*made.add("orders", 3, rows_of(batch), NOW_MS), *made.finish()]


@given(
    rows=st.lists(one_row, min_size=1, max_size=30), skipped=st.integers(0, 10), bytes_=st.sampled_from([1, 200, 4000])
)
def test_records_are_those_of_the_rows_by_both_implementations(
    rows: list[tuple[Any, ...]], skipped: int, bytes_: int
) -> None:
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr(batches_module, "LEAST_PAYLOAD_BYTES", 1)
    rows = [(*row[:3], NOW_MS if row[3] is None else row[3]) for row in rows]
    batch = batch_of(rows).slice(min(skipped, len(rows) - 1))
    by_kernel, in_python = (made_by(name, batch, monkeypatch, payload_bytes=bytes_) for name in IMPLEMENTATIONS)
    monkeypatch.undo()
    assert by_kernel == in_python
    found: list[Any] = []
    for one in by_kernel:
        header = read_header(one.content)
        check_crc(one.content, 0, header)
        records = decode_batch(one.content)
        assert header.record_count == len(records) == one.records
        assert header.max_timestamp == max(record.timestamp for record in records)
        assert (header.producer_id, header.producer_epoch, header.is_transactional) == (9, 2, True)
        again = encode_batch(
            [Record(index, *_parts(record)) for index, record in enumerate(records)],
            producer_id=9, producer_epoch=2, base_sequence=header.base_sequence, transactional=True,
        )  # fmt: skip
        assert again == one.content
        found += [(record.key, record.value, record.headers, record.timestamp) for record in records]
    expected = [(row[0], row[1], list(row[2] or []), row[3]) for row in rows[min(skipped, len(rows) - 1) :]]
    assert sorted(found, key=repr) == sorted(expected, key=repr)


def _parts(record: Record) -> tuple[Any, ...]:
    return record.timestamp, record.key, record.value, record.headers


@pytest.mark.parametrize("name", IMPLEMENTATIONS)
def test_sequences_of_a_partition_have_no_gap(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(b"%d" % number, b"v" * 90, None, NOW_MS) for number in range(2000)]
    made = made_by(name, batch_of(rows), monkeypatch, compression=Compression.LZ4, payload_bytes=20_000)
    for partition in range(3):
        expected = 0
        for one in (one for one in made if one.partition == partition):
            assert read_header(one.content).base_sequence == expected
            expected += one.records
        assert expected > 500


@pytest.mark.parametrize("name", IMPLEMENTATIONS)
@given(
    keys=st.lists(st.one_of(st.none(), st.binary(max_size=20)), min_size=1, max_size=20), partitions=st.integers(1, 50)
)
def test_partitions_are_those_of_java_and_librdkafka(name: str, keys: list[bytes | None], partitions: int) -> None:
    array = pa.array(keys, pa.binary())
    validity, ends, content = array.buffers()
    buffers = (ends, validity if array.null_count else None, content)
    found = np.empty(len(keys), dtype=np.int32)
    IMPLEMENTATIONS[name][1](found, buffers, partitions, loops.JAVA)
    java = [-1 if key is None else (murmur2(key) & 0x7FFFFFFF) % partitions for key in keys]
    assert found.tolist() == java
    IMPLEMENTATIONS[name][1](found, buffers, partitions, loops.LIBRDKAFKA)
    assert found.tolist() == [zlib.crc32(key) % partitions if key else -1 for key in keys]


@pytest.mark.parametrize("name", IMPLEMENTATIONS)
def test_rows_outside_of_the_columns_are_refused(name: str) -> None:
    ends = np.array([0, 3, 6], dtype=np.int32)
    columns = (None, None, None, None, ends, None, b"abcdef", *[None] * 7)
    for row in (2, 7, 1 << 30):
        with pytest.raises(ValueError):
            IMPLEMENTATIONS[name][0](bytearray(100), 0, 0, np.array([0, row], dtype=np.int32), 0, 0, columns)


@pytest.mark.parametrize("ends", [[0, 3, 99], [0, -1, 6], [-5, 3, 6], [4, 2, 6], [0, 1 << 30, 6]])
@pytest.mark.parametrize("name", IMPLEMENTATIONS)
def test_bytes_outside_of_a_column_are_refused(name: str, ends: list[int]) -> None:
    encode_rows, partitions_of_keys = IMPLEMENTATIONS[name]
    texts = (np.array(ends, dtype=np.int32), None, b"abcdef")
    with pytest.raises(ValueError):
        encode_rows(
            bytearray(100), 0, 0, np.array([0, 1], dtype=np.int32), 0, 0, (None, *[None] * 3, *texts, *[None] * 7)
        )
    with pytest.raises(ValueError):
        partitions_of_keys(np.empty(2, dtype=np.int32), texts, 3, loops.JAVA)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"key": pa.array([b"k"])}, "no column 'value'"),
        ({"value": pa.array([b"v"]), "valeu": pa.array([b"v"])}, "no use for the column 'valeu'"),
        ({"value": pa.array([1])}, "'value' is int64"),
        ({"value": pa.array([b"v"]), "topic": pa.array([None], pa.string())}, "null topic"),
        ({"value": pa.array([b"v"]), "timestamp": pa.array([1])}, "'timestamp' is int64"),
        ({"value": pa.array([b"v"]), "partition": pa.array(["x"])}, "'partition' is string"),
        ({"value": pa.array([b"v"]), "headers": pa.array([["x"]])}, "'headers' is list"),
        ({"value": pa.array([b"v"]), "headers": pa.array([[{"key": None, "value": b""}]], HEADERS)}, "null key"),
    ],
)
def test_columns_of_other_types_are_refused_by_name(columns: dict[str, pa.Array], words: str) -> None:
    with pytest.raises(InvalidRows, match=words):
        rows_of(pa.record_batch(columns))


def test_partition_of_a_column_has_precedence_and_is_checked() -> None:
    columns = {"key": pa.array([b"k"] * 3), "value": pa.array([b"v"] * 3), "partition": pa.array([2, 0, 2], pa.int32())}
    made = Batches(Producer(1, 0))
    found = [*made.add("orders", 3, rows_of(pa.record_batch(columns)), 0), *made.finish()]
    assert sorted((one.partition, one.records) for one in found) == [(0, 1), (2, 2)]
    columns["partition"] = pa.array([0, 3, 0], pa.int32())
    with pytest.raises(InvalidRows, match="partition 3, and the topic orders has 3"):
        list(made.add("orders", 3, rows_of(pa.record_batch(columns)), 0))


def test_partition_of_a_row_is_checked_by_its_own_topic() -> None:
    columns = {"value": pa.array([b"a", b"b", b"c"]), "partition": pa.array([9, 0, None], pa.int32())}
    rows, made = rows_of(pa.record_batch(columns)), Batches(Producer(1, 0))
    of_wide, of_narrow = np.array([0], dtype=np.int32), np.array([1, 2], dtype=np.int32)
    found = [*made.add("narrow", 1, rows, 0, of_narrow), *made.add("wide", 10, rows, 0, of_wide), *made.finish()]
    assert [(one.topic, one.partition, one.records) for one in found] == [("narrow", 0, 2), ("wide", 9, 1)]
    with pytest.raises(InvalidRows, match="partition 9, and the topic narrow has 1"):
        list(made.add("narrow", 1, rows, 0, of_wide))


@pytest.mark.parametrize(
    "partitions",
    [pa.array([-1], pa.int32()), pa.array([0, -7], pa.int64()), pa.array([1 << 31]), pa.array([1 << 63], pa.uint64())],
)
def test_partition_that_no_topic_has_is_refused(partitions: pa.Array) -> None:
    batch = pa.record_batch({"value": pa.array([b"v"] * len(partitions)), "partition": partitions})
    with pytest.raises(InvalidRows, match=f"a row has the partition {partitions[-1]}"):
        rows_of(batch)


def test_partitions_may_be_numbers_of_any_width() -> None:
    for kind in (pa.int8(), pa.int64(), pa.uint8(), pa.uint64()):
        batch = pa.record_batch({"value": pa.array([b"v"] * 3), "partition": pa.array([2, None, 0], kind)})
        found = rows_of(batch).partitions
        assert found is not None and found.tolist() == [2, loops.NO_PARTITION, 0]


def test_headers_without_a_key_are_refused_in_rows_of_the_batch_alone() -> None:
    headers = pa.array([[{"key": "a", "value": b""}], [{"key": None, "value": b""}]], HEADERS)
    batch = pa.record_batch({"value": pa.array([b"v", b"w"]), "headers": headers})
    assert rows_of(batch.slice(0, 1)).count == 1
    for refused in (batch, batch.slice(1)):
        with pytest.raises(InvalidRows, match="null key"):
            rows_of(refused)


def test_open_payloads_of_all_topics_have_one_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches_module, "MOST_OPEN_BYTES", 200_000)
    made, expected, found = Batches(Producer(1, 0)), [], []
    for turn in range(3):
        for topic in range(30):
            values = [b"%d-%d-%d" % (turn, topic, row) for row in range(20)] + [b"x" * 30_000]
            rows = rows_of(pa.record_batch({"value": pa.array(values)}))
            for batch in made.add(f"topic-{topic}", 2, rows, turn):
                found.append(batch)
                assert made.open_bytes <= 200_000
            assert made.open_bytes <= 200_000
            expected += [(f"topic-{topic}", value) for value in values]
    found += made.finish()
    assert made.open_bytes == 0
    assert sorted(expected) == sorted(
        (one.topic, record.value) for one in found for record in decode_batch(one.content)
    )
    sequences: dict[tuple[str, int], int] = {}
    for one in found:
        place = (one.topic, one.partition)
        assert read_header(one.content).base_sequence == sequences.get(place, 0)
        sequences[place] = sequences.get(place, 0) + one.records


def test_time_that_is_null_is_the_present() -> None:
    least_ms = int(time.time() * 1000)
    batch = pa.record_batch({"value": pa.array([b"v"]), "timestamp": pa.array([None], pa.timestamp("us", "UTC"))})
    (stamp,) = np.asarray(rows_of(batch).columns[0])
    assert least_ms <= stamp <= int(time.time() * 1000)


def test_strings_and_large_types_are_bytes() -> None:
    for kind in (pa.string(), pa.large_string(), pa.large_binary()):
        text = ["ä", None] if kind in (pa.string(), pa.large_string()) else ["ä".encode(), None]
        made = Batches(Producer(1, 0))
        list(made.add("orders", 1, rows_of(pa.record_batch({"value": pa.array(text, kind)})), 5))
        (one,) = made.finish()
        assert [(record.value, record.timestamp) for record in decode_batch(one.content)] == [
            ("ä".encode(), 5),
            (None, 5),
        ]


def test_record_larger_than_a_payload_is_a_batch_of_its_own() -> None:
    values = [b"a", b"x" * 3_000_000, b"b"]
    made = Batches(Producer(1, 0, payload_bytes=20_000))
    found = [*made.add("orders", 1, rows_of(pa.record_batch({"value": pa.array(values)})), 5), *made.finish()]
    assert [record.value for one in found for record in decode_batch(one.content)] == values
    assert [one.records for one in found] == [1, 1, 1]
