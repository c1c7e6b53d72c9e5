"""Calls of every function of the sanitized module with arguments at their limits, and with wrong ones."""

from __future__ import annotations

import itertools
import os
import struct
import sys
import tempfile
from array import array
from pathlib import Path
from typing import Any

import odradek_kernel as kernel
from odradek.protocol.records.batch import HEADER_BYTES
from odradek.protocol.records.compression import Compression, compress
from odradek.protocol.records.record import Record, encode_batch

INT64 = (-(1 << 63), -(1 << 63) + 1, -1, 0, 1, 1_700_000_000_000, (1 << 63) - 1)
RECORDS = [Record(number, 1_700_000_000_000 + number, b"k", b"v" * 90) for number in range(3)]
FUNCTIONS = (
    "decode_records", "decompress_gzip", "decompress_lz4", "decompress_snappy", "decompress_zstd", "encode_rows",
    "find_record", "load_isal", "mark_keys", "may_have_key", "partitions_of_keys", "read_small_folders",
    "read_small_log", "read_small_logs",
    "set_zstd_functions", "stat_files", "trim_memory", "validate_batch", "walk_headers", "walk_records",
)  # fmt: skip
WRONG: tuple[Any, ...] = (None, 1, "text", b"", 1 << 70, object())


def validate_at_limits() -> int:
    accepted = 0
    for codec in Compression:
        batch = bytearray(encode_batch(RECORDS, compression=codec))
        for now, before, after in itertools.product(INT64, repeat=3):
            scratch = bytearray(1000)
            arguments = (9, now, before, after, 1 << 20, 0, 31, 100, 1000, 5, 7)
            accepted += kernel.validate_batch(batch, scratch, *arguments) is not None
        for position in range(11):
            for number in INT64:
                limits = [9, 1_700_000_000_000, 10, 10, 1 << 20, 0, 31, 100, 1000, 5, 7]
                limits[position] = number
                kernel.validate_batch(batch, bytearray(10), *limits)
        for size in range(HEADER_BYTES + 2):
            assert kernel.validate_batch(batch[:size], bytearray(9), *limits) is None
    return accepted


def walk_at_limits() -> None:
    payload = encode_batch(RECORDS)[HEADER_BYTES:]
    for count, base, bound in itertools.product(INT64, repeat=3):
        kernel.walk_records(payload, 0, min(count, 1000), bound, base, bound, bound, True, False)
        kernel.walk_records(payload, len(payload), min(count, 1000), 1 << 20, base, bound, bound, False, True)
        kernel.find_record(payload, min(count, 1000), base, bound, bound)
    for start in (-1, len(payload) + 1, -(1 << 63), (1 << 63) - 1):
        try:
            kernel.walk_records(payload, start, 1, 1, 0, 0, 0, False, False)
        except ValueError:
            continue
        raise AssertionError(start)


def decompress_at_limits() -> None:
    plain = bytes(range(256)) * 300
    for codec in (Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD):
        decompress = getattr(kernel, f"decompress_{codec.name.lower()}")
        packed = bytes(compress(codec, plain))
        assert decompress(packed, bytearray(len(plain))) == len(plain), codec
        for out in (bytearray(), bytearray(len(plain) - 1)):
            assert decompress(packed, out) < 0
        for size in range(30):
            # The header of a snappy stream without blocks is a stream without content.
            assert decompress(packed[:size], bytearray(100)) <= 0


def read_at_limits() -> None:
    batch = encode_batch(RECORDS, leader_epoch=3)
    with tempfile.TemporaryDirectory() as made:
        path = Path(made, f"{0:020d}.log")
        for suffix in (".log", ".index", ".timeindex"):
            path.with_suffix(suffix).write_bytes(batch if suffix == ".log" else b"")
        assert kernel.read_small_log(path, 0, len(batch))[2] == len(RECORDS)
        for base_offset, most_bytes in itertools.product(INT64, repeat=2):
            found = kernel.read_small_log(str(path), base_offset, most_bytes)
            assert (found is not None) == (base_offset == 0 and most_bytes >= len(batch)), (base_offset, most_bytes)
        for length in (0, 1, 3, 4, 4000, 4079, 4080, 4081, 4092, 10_000):
            assert kernel.read_small_log("/" * length + path.name, 0, 1 << 20) is None
            assert kernel.read_small_log("x" * length, 0, 1 << 20) is None
        for size in range(len(batch)):
            path.write_bytes(batch[:size])
            assert (kernel.read_small_log(path, 0, 1 << 20) is None) == (size > 0), size


def read_many_at_limits() -> None:
    batch = encode_batch(RECORDS, leader_epoch=3)
    with tempfile.TemporaryDirectory() as made:
        log = Path(made, f"{0:020d}.log")
        for suffix in (".log", ".index", ".timeindex"):
            log.with_suffix(suffix).write_bytes(batch if suffix == ".log" else b"")
        Path(made, "partition.metadata").write_bytes(b"content")
        folder, path = os.fsencode(made), os.fsencode(log)
        long = (b"", b"/", b"x" * 20, b"/" * 4000, b"/" * 4040, b"x" * 10_000, b"/" + b"9" * 20 + b".log")
        for paths in itertools.product((*long, path), repeat=2):
            rows = _rows(kernel.read_small_logs(_joined(*paths), 1 << 20))
            assert [row[0] for row in rows] == [one == path for one in paths]
        for paths in itertools.product((*long, folder), (b"", b"content", b"x" * 10_000), repeat=2):
            rows = _rows(kernel.read_small_folders(_joined(*paths), 1 << 20))
            assert [row[0] for row in rows] == [paths[at : at + 2] == (folder, b"content") for at in (0, 2)]
        for most_bytes in INT64:
            for row in _rows(kernel.read_small_folders(_joined(folder, b"content"), most_bytes)):
                assert row[0] == (most_bytes >= len(batch))
        for size in range(len(batch) + 1):
            log.write_bytes(batch[:size])
            (row,) = _rows(kernel.read_small_folders(_joined(folder, b"content"), 1 << 20))
            assert row[0] == (size in (0, len(batch))), size
            assert row == _rows(kernel.read_small_logs(_joined(path), 1 << 20))[0][:1] + row[1:]
    assert kernel.read_small_logs(b"", 1) == kernel.read_small_folders(b"", 1) == b""
    for wrong in (b"x", b"x\0y\0z\0"):
        try:
            kernel.read_small_folders(wrong, 1)
        except ValueError:
            continue
        raise AssertionError(wrong)


def _joined(*texts: bytes) -> bytes:
    return b"\0".join((*texts, b""))


def _rows(found: bytes) -> list[tuple[int, ...]]:
    return list(struct.iter_unpack("=10q", found))


def stat_at_limits() -> None:
    with tempfile.TemporaryDirectory() as made:
        file = Path(made, "file")
        file.write_bytes(b"12345")
        folder, path, found = os.fsencode(made), os.fsencode(file), file.stat()
        expected = (5, found.st_mtime_ns, found.st_mode)
        for paths in itertools.product((b"", folder, path, b"x" * 10_000, b"/" * 10_000, b"\xff"), repeat=3):
            states = list(struct.iter_unpack("=qqq", kernel.stat_files(b"\0".join((*paths, b"")))))
            assert [one == expected for one in states] == [one == path for one in paths]
            assert [one[2] == -1 for one in states] == [
                one in (b"", b"x" * 10_000, b"/" * 10_000, b"\xff") for one in paths
            ]
    assert kernel.stat_files(b"") == b""
    for wrong in (b"x", b"\0x", path):
        try:
            kernel.stat_files(wrong)
        except ValueError:
            continue
        raise AssertionError(wrong)


def columns_at_limits() -> None:
    batch, rows = encode_batch(RECORDS), array("q", [0] * 22)
    for start, stop, number in itertools.product((*INT64, len(batch)), (*INT64, len(batch)), INT64):
        try:
            found = kernel.walk_headers(batch, start, stop, number, number, False, rows)
        except ValueError:
            assert not (0 <= start <= len(batch) and 0 <= stop <= len(batch))
            continue
        assert found[0] == (start == 0 and stop == len(batch) and number <= 0)
    sizes = [("q", 3), ("q", 3), ("i", 3), ("i", 4), ("B", 1), ("B", 9), ("i", 4), ("B", 1), ("B", 999), ("i", 4)]
    sizes += [("i", 6), ("B", 1), ("B", 9), ("B", 9), ("q", 8)]
    for number, wanted in itertools.product(INT64, range(8)):
        for short in range(-1, len(sizes)):
            arrays = [array(kind, [0] * (size - (at == short))) for at, (kind, size) in enumerate(sizes)]
            batches = array("q", [HEADER_BYTES, len(batch), number, number, number, number, number, 3])
            bounds = array("q", [INT64[0], INT64[-1], INT64[0], INT64[-1]])
            faults = bytearray(1)
            try:
                kernel.decode_records(batch, batches, faults, bounds, wanted, *arrays)
            except ValueError:
                assert short >= 0
                continue
            assert (arrays[-1][0] == 3) == (faults[0] == 0)
            for at in (0, 1, 7):
                batches[at] = number
                kernel.decode_records(batch, batches, faults, bounds, wanted, *arrays)


def keys_at_limits() -> None:
    ends = array("i", [0, 1, 3, 3])
    bits = bytearray(8)
    kernel.mark_keys(bits, ends, b"abc", bytes([0b101]))
    assert kernel.may_have_key(bits, b"a") and kernel.may_have_key(bits, b"") and not kernel.may_have_key(bytes(8), b"")
    kernel.mark_keys(bytearray(1), array("i"), b"", None)
    for filter_bytes, wrong, validity in (
        (0, ends, None), (3, ends, None), (8, array("i", [0, 4]), None), (8, array("i", [2, 1]), None),
        (8, array("i", [-1, 1]), None), (8, ends, b""),
    ):  # fmt: skip
        try:
            kernel.mark_keys(bytearray(filter_bytes), wrong, b"abc", validity)
        except ValueError:
            continue
        raise AssertionError((filter_bytes, wrong, validity))


def encode_at_limits() -> None:
    ends, bits, stamps = array("i", [0, 1, 3, 3]), bytes([0b101]), array("q", [5, 6, 7])
    whole = (stamps, ends, bits, b"abc", ends, None, b"abc", ends, ends, None, b"abc", ends, bits, b"abc")
    rows = array("i", [0, 1, 2])
    assert kernel.encode_rows(bytearray(1000), 0, 0, rows, 0, 5, whole)[0] == 3
    wrong = ([0, 1, 3], [0, 2, 1, 3], [-1, 0, 1, 3], [0, 1, 2, 4], [0, 1, 2, INT64[-1] >> 32], [])
    for position, texts in itertools.product(range(len(whole)), (*wrong, None)):
        columns = list(whole)
        columns[position] = None if texts is None else b"" if isinstance(whole[position], bytes) else array("i", texts)
        for room, first, base in itertools.product((0, 1, 60, 1000), (0, 2, 3), INT64):
            try:
                kernel.encode_rows(bytearray(room), 0, 0, rows, first, base, tuple(columns))
            except ValueError:
                continue
    for size, records, first in itertools.product((*INT64, 1000), INT64, INT64):
        try:
            kernel.encode_rows(bytearray(1000), size, records, rows, first, 0, whole)
        except ValueError:
            assert not (0 <= size <= 1000 and 0 <= records < 1000 and 0 <= first <= 3)
    for row in (-1, 3, 4, (1 << 31) - 1, -(1 << 31)):
        try:
            kernel.encode_rows(bytearray(1000), 0, 0, array("i", [0, row]), 0, 0, whole)
        except ValueError:
            continue
        raise AssertionError(row)
    for partitions, kind, keys in itertools.product((-1, 0, 1, 3), range(-1, 4), (ends, array("i", [0, 9]), None)):
        try:
            kernel.partitions_of_keys(array("i", [9] * 3), (keys, bits, b"abc"), partitions, kind)
        except ValueError:
            continue
        assert partitions > 0 and kind in (0, 1)


def reject_wrong_arguments() -> None:
    for name in FUNCTIONS:
        for count, wrong in itertools.product(range(21), WRONG):
            try:
                getattr(kernel, name)(*[wrong] * count)
            except (TypeError, ValueError, OverflowError, BufferError):
                continue


def main() -> None:
    assert Path(kernel.__file__).parent == Path(sys.argv[1]), kernel.__file__
    assert set(FUNCTIONS) == {name for name in dir(kernel) if not name.startswith("_")}
    accepted = validate_at_limits()
    assert accepted > 100, accepted
    walk_at_limits()
    decompress_at_limits()
    read_at_limits()
    read_many_at_limits()
    stat_at_limits()
    columns_at_limits()
    keys_at_limits()
    encode_at_limits()
    reject_wrong_arguments()
    print("validated", accepted)


if __name__ == "__main__":
    main()
