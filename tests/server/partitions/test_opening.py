"""Decompression on the loop and on threads, in bounded memory, which is returned to the system."""

from __future__ import annotations

import os
import threading
import time

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from odradek.protocol.records import codecs, walk
from odradek.protocol.records.compression import MAX_DECOMPRESSED_BYTES, Compression, compress, decompress_into
from odradek.protocol.records.errors import CorruptBatch, TooLargeDecompressed
from odradek.server.partitions.decompression import BUDGET, KEPT_BYTES, MemoryBudget, OpenedAtOnce, decompressed
from odradek.storage.segments.timestamps import DECOMPRESSED_AT_ONCE_BYTES, OPENED_AT_ONCE_BYTES

from tests.hostile.attack_target import rss_bytes
from tests.hostile.poisoned_batches import batch, record
from tests.server.harness.data_path import DEADLINE_S, DataPath, wait_until

CODECS = [codec for codec in Compression if codec]
PLAIN = bytes(range(256)) * 40
MANY = 200_000


@pytest.mark.parametrize("codec", CODECS)
def test_result_is_the_same_as_that_of_decompress(codec: Compression) -> None:
    packed, room = bytes(compress(codec, PLAIN)), bytearray(len(PLAIN) + 5)
    assert decompress_into(codec, packed, room) == len(PLAIN)
    assert room[: len(PLAIN)] == PLAIN
    with decompressed(codec, packed, BUDGET) as payload:
        assert payload == PLAIN


@pytest.mark.parametrize("codec", CODECS)
def test_result_over_the_limit_is_distinguished_from_damage(codec: Compression) -> None:
    packed = bytes(compress(codec, PLAIN))
    with pytest.raises(TooLargeDecompressed):
        decompress_into(codec, packed, bytearray(len(PLAIN) - 1))
    for damaged in (packed[:-1], packed[: len(packed) // 2], packed + b"rubbish", PLAIN):
        with pytest.raises(CorruptBatch) as caught:
            decompress_into(codec, damaged, bytearray(len(PLAIN) * 2))
        assert not isinstance(caught.value, TooLargeDecompressed)


@pytest.mark.parametrize("has_isal", [True, False])
def test_gzip_is_checked_by_either_library(monkeypatch: pytest.MonkeyPatch, has_isal: bool) -> None:
    if not has_isal:
        monkeypatch.setattr(codecs, "isal_zlib", None)
    packed = bytes(compress(Compression.GZIP, PLAIN))
    assert decompress_into(Compression.GZIP, packed, bytearray(len(PLAIN))) == len(PLAIN)
    wrong_crc = packed[:-8] + bytes([packed[-8] ^ 1]) + packed[-7:]
    for damaged in (wrong_crc, packed * 2, packed[:-1], packed + b"rubbish", b"", b"\x1f\x8b"):
        with pytest.raises(CorruptBatch):
            decompress_into(Compression.GZIP, damaged, bytearray(3 * len(PLAIN)))
    with pytest.raises(TooLargeDecompressed):
        decompress_into(Compression.GZIP, packed, bytearray(100))


def test_frames_that_some_client_does_not_read_are_refused() -> None:
    lz4, gzip = bytes(compress(Compression.LZ4, PLAIN)), bytes(compress(Compression.GZIP, PLAIN))
    linked = lz4[:4] + bytes([lz4[4] & ~0x20]) + lz4[5:]
    snappy = bytearray(compress(Compression.SNAPPY, PLAIN))
    snappy[11] = 2
    with pytest.raises(CorruptBatch):
        decompress_into(Compression.SNAPPY, snappy, bytearray(len(PLAIN) * 3))
    for codec, data in ((Compression.LZ4, lz4 * 2), (Compression.LZ4, linked), (Compression.GZIP, gzip * 2)):
        with pytest.raises(CorruptBatch):
            decompress_into(codec, data, bytearray(len(PLAIN) * 3))


def test_loop_opens_as_much_as_one_request_may_cost_and_leaves_the_rest() -> None:
    opened, packed = OpenedAtOnce(), bytes(compress(Compression.ZSTD, bytes(DECOMPRESSED_AT_ONCE_BYTES // 2)))
    assert [opened.decompress(4, packed, 1, now_ms=1) is not None for _ in range(4)] == [True, True, False, False]
    assert opened.decompress(4, packed, 1, now_ms=2) is not None, "another request"
    bomb = bytes(compress(Compression.ZSTD, bytes(DECOMPRESSED_AT_ONCE_BYTES + 1)))
    assert opened.decompress(4, bomb, 1, now_ms=3) is None
    assert opened.decompress(4, bytes(OPENED_AT_ONCE_BYTES + 1), 1, now_ms=4) is None
    assert opened.takes(walk.WALKED_AT_ONCE_RECORDS, now_ms=5)
    assert not opened.takes(1, now_ms=5)


def test_budget_lets_threads_wait_for_each_other() -> None:
    budget, order = MemoryBudget(100), []

    def use(size: int) -> None:
        with budget.reserve(size):
            order.append(size)

    with budget.reserve(60):
        waiting = threading.Thread(target=use, args=(50,))
        waiting.start()
        use(40)
        time.sleep(0)
        assert order == [40]
    waiting.join(DEADLINE_S)
    assert order == [40, 50]
    assert budget.used == 0


def test_bomb_is_refused_and_its_memory_goes_back(path: DataPath) -> None:
    topic = path.topic()
    now_ms = int(time.time() * 1000)
    packed = bytes(compress(Compression.ZSTD, bytes(MAX_DECOMPRESSED_BYTES + 1)))
    before = _own_rss()
    bomb = batch(b"", Compression.ZSTD, now_ms, count=1, packed=packed)
    assert path.produce(topic, bytearray(bomb)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    wait_until(lambda: BUDGET.used == 0)
    assert _own_rss() - before < MAX_DECOMPRESSED_BYTES // 2


def test_batch_of_many_empty_records_makes_no_objects_and_delays_no_request(path: DataPath) -> None:
    topic, other = path.topic(cleanup_policy="compact"), path.topic()
    now_ms = int(time.time() * 1000)
    payload = b"".join(record(number, key=b"", value=None) for number in range(MANY))
    before = _own_rss()
    sent = time.process_time()
    response = path.produce(topic, bytearray(batch(payload, Compression.ZSTD, now_ms, count=MANY)))
    assert (response.error_code, response.base_offset) == (0, 0)
    if walk.IS_COMPILED:
        assert time.process_time() - sent < 1.0
    assert path.produce(other, bytearray(batch(record(), Compression.NONE, now_ms, count=1))).error_code == 0
    assert path.hosted(topic).log_end_offset == MANY
    assert _own_rss() - before < 50 << 20


def test_response_lists_a_bounded_number_of_refused_records(path: DataPath) -> None:
    topic = path.topic(cleanup_policy="compact")
    payload = b"".join(record(number, key=None, value=None) for number in range(MANY))
    response = path.produce(topic, bytearray(batch(payload, Compression.ZSTD, int(time.time() * 1000), count=MANY)))
    assert response.error_code == ErrorCode.INVALID_RECORD
    assert len(response.record_errors) == 1000
    assert f"{MANY} record errors in total" in (response.error_message or "")


def _own_rss() -> int:
    return rss_bytes(os.getpid())


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.ZSTD])
def test_time_in_a_large_batch_is_looked_up_by_a_thread(path: DataPath, codec: Compression) -> None:
    topic, now_ms = path.topic(), int(time.time() * 1000) - MANY
    count = 80_000
    payload = b"".join(record(number, number, key=None, value=None) for number in range(count))
    made = batch(payload, codec, now_ms, count=count, max_timestamp=now_ms + count - 1)
    assert path.produce(topic, bytearray(made)).error_code == 0
    assert path.produce(topic, bytearray(made)).error_code == 0
    for wanted, offset in ((now_ms - 1, 0), (now_ms + 66_666, 66_666), (-3, count - 1)):
        response = list_offsets(path, topic, wanted)
        assert (response.error_code, response.offset) == (0, offset)
    assert list_offsets(path, topic, now_ms + count).offset == -1


def list_offsets(path: DataPath, topic: str, timestamp: int) -> ListOffsetsPartitionResponse:
    asked = ListOffsetsTopic(topic, [ListOffsetsPartition(0, timestamp=timestamp)])
    response = path.client.call(ListOffsetsRequest(-1, 0, [asked]), 8)
    found: ListOffsetsPartitionResponse = response.topics[0].partitions[0]
    return found


def test_thread_opens_usual_batches_in_the_buffer_that_it_keeps() -> None:
    packed = bytes(compress(Compression.SNAPPY, PLAIN))
    with decompressed(Compression.SNAPPY, packed, MemoryBudget(0)) as first:
        assert first == PLAIN
        whole = first.obj
    with decompressed(Compression.LZ4, bytes(compress(Compression.LZ4, PLAIN)), MemoryBudget(0)) as second:
        assert second.obj is whole
    large = bytes(compress(Compression.SNAPPY, bytes(KEPT_BYTES + 1)))
    with decompressed(Compression.SNAPPY, large, BUDGET) as third:
        assert third.obj is not whole and BUDGET.used > KEPT_BYTES
