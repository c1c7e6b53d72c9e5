"""The C and the Python check find the same batches plain, and `check_batch` accepts these unchanged."""

from __future__ import annotations

import importlib.util
import itertools
import random
import sys
import types
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from crc32c import crc32c
from odradek.protocol.records.batch import BatchHeader
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.record import Record, encode_batch
from odradek.server.partitions.append_rules import FOREVER_MS, AppendRules, Validation
from odradek.server.partitions.batch_validation import check_batch
from odradek.server.partitions.plain_batches import __name__, pure_validated_header, validated_header
from odradek.storage.segments.timestamps import DECOMPRESSED_AT_ONCE_BYTES, OPENED_AT_ONCE_BYTES

from tests.hostile.poisoned_batches import KINDS, ODD

SEED, MUTATIONS = 5, 5000
RULES = AppendRules(None, None, False, FOREVER_MS, 3_600_000, False, 1, 1 << 20, 1 << 30, 1 << 30)
#: The limit on work for one request is counted by the request's time, so each check has its own time.
_times = itertools.count(1_700_000_000_000)

needs_kernel = pytest.mark.skipif(validated_header is pure_validated_header, reason="the kernel is not installed")


def looked(records: Any, rules: AppendRules = RULES, version: int = 9) -> BatchHeader | None:
    """Returns the result of both checks, which must be equal."""
    now_ms = next(_times)
    found = validated_header(records, version, now_ms, rules, 77, 5)
    assert pure_validated_header(records, version, next(_times), rules, 77, 5) == found, bytes(records).hex()
    if found is not None:
        checked = check_batch(bytearray(records), rules, version, now_ms, "t-0")
        assert checked.buffer == records
        assert checked.header._replace(base_offset=77, leader_epoch=5) == found
    return found


def batch(codec: Compression = Compression.NONE, count: int = 3, **options: Any) -> bytearray:
    records = [Record(number, next(_times), b"k" if number % 3 else None, b"v" * 40) for number in range(count)]
    return bytearray(encode_batch(records, compression=codec, **options))


def sealed(made: bytearray) -> bytearray:
    made[8:12] = (len(made) - 12).to_bytes(4, "big")
    made[17:21] = crc32c(memoryview(made)[21:]).to_bytes(4, "big")
    return made


@pytest.mark.parametrize("codec", Compression)
def test_good_batches_are_plain(codec: Compression) -> None:
    made = batch(codec, producer_id=4, producer_epoch=1, base_sequence=8)
    header = looked(made)
    assert header is not None
    assert (header.base_offset, header.leader_epoch, header.record_count) == (77, 5, 3)
    assert looked(made, version=6) == (None if codec is Compression.ZSTD else header)
    assert looked(made, version=7) == header
    made[-1] ^= 1
    assert looked(made) is None


def test_topic_rules_decide() -> None:
    made = batch()
    assert looked(made, replace(RULES, compact=True)) is None
    assert looked(made, replace(RULES, timestamp_before_max_ms=0)) is None
    late = bytearray(encode_batch([Record(0, next(_times) + 7_200_000, b"k", b"v")]))
    assert looked(late) is None
    assert looked(late, replace(RULES, timestamp_after_max_ms=FOREVER_MS)) is not None


def test_validation_levels_leave_records_unseen() -> None:
    for codec in Compression:
        made = batch(codec)
        made[-1] ^= 1
        sealed(made)
        assert looked(made, replace(RULES, validation=Validation.HEADER)) is not None
        is_seen = codec is Compression.NONE
        made = batch(codec)
        made[61] ^= 0xFF
        sealed(made)
        assert (looked(made, replace(RULES, validation=Validation.FRAMING)) is None) == is_seen
        assert looked(made) is None


def test_large_batches_are_left_to_threads() -> None:
    rng = random.Random(SEED)
    random_value = Record(0, next(_times), None, rng.randbytes(OPENED_AT_ONCE_BYTES + 1))
    bomb = Record(0, next(_times), None, bytes(DECOMPRESSED_AT_ONCE_BYTES))
    for codec in Compression:
        if codec:
            assert looked(bytearray(encode_batch([random_value], compression=codec))) is None
            assert looked(bytearray(encode_batch([bomb], compression=codec))) is None


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec])
def test_one_request_has_its_share_of_the_loop(codec: Compression) -> None:
    half = bytearray(encode_batch([Record(0, next(_times), None, bytes(1 << 19))], compression=codec))
    for look in (validated_header, pure_validated_header):
        now_ms = next(_times)
        results = [look(half, 9, now_ms, RULES, 0, 0) is not None for _ in range(4)]
        assert results == [True, True, False, False]


@needs_kernel
@pytest.mark.parametrize("name", [*KINDS, *ODD])
def test_poisoned_batches_are_not_plain(name: str) -> None:
    for codec in Compression:
        made = bytearray({**KINDS, **ODD}[name](codec, next(_times)))
        if len(made) >= 61:
            looked(made)


@needs_kernel
def test_kernel_and_python_agree_on_mutated_batches() -> None:
    rng = random.Random(SEED)
    counts: Counter[tuple[Compression, bool]] = Counter()
    for _ in range(MUTATIONS):
        codec = rng.choice(list(Compression))
        made = batch(codec, rng.choice((1, 2, 9)))
        for _ in range(rng.choice((0, 1, 1, 2))):
            at = rng.choice((rng.randrange(61), rng.randrange(len(made))))
            made[at] = rng.choice((0, 1, 2, 127, 128, 255, rng.randrange(256)))
        if rng.random() < 0.9:
            sealed(made)
        counts[codec, looked(made, version=rng.choice((3, 9))) is not None] += 1
    assert all(counts[codec, plain] > MUTATIONS // 100 for codec in Compression for plain in (True, False)), counts


@pytest.mark.parametrize("is_installed", [True, False])
def test_kernel_validates_where_it_is_installed(is_installed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[Any, ...]] = []
    kernel = types.ModuleType("odradek_kernel")
    kernel.__dict__["validate_batch"] = lambda *arguments: calls.append(arguments)
    monkeypatch.setitem(sys.modules, "odradek_kernel", kernel if is_installed else None)
    spec = importlib.util.find_spec(__name__)
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    found = loaded.validated_header(batch(), 9, next(_times), RULES, 77, 5)
    assert (found is None, len(calls)) == ((True, 1) if is_installed else (False, 0))
