"""The compiled walk, the Python walk and the record decoder agree on any bytes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.protocol.records import walk as walks
from odradek.protocol.records.batch import HEADER_BYTES, read_header
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.record import Record, decode_batch, encode_batch
from odradek.protocol.records.walk import (
    BROKEN,
    ENDLESS_LENGTH,
    INT_MAX,
    LONG_MAX,
    LONG_MIN,
    WHOLE,
    pure_walk,
    renumbered,
)

from tests.harness.examples import examples
from tests.hostile.poisoned_batches import KINDS, ODD

NOW = 1_700_000_000_000
SEED = 11
MUTATIONS = 4000

#: Both walks, if the compiled one is installed.
WALKS: list[Callable[..., Any]] = [pure_walk, *([walks.raw_walk] if walks.IS_COMPILED else [])]


def bare(walk: Callable[..., Any], payload: Any, count: int, **rules: Any) -> tuple[int, ...]:
    found = walk(
        payload, 0, count, rules.get("most_bytes", INT_MAX), rules.get("base", NOW), rules.get("earliest", LONG_MIN),
        rules.get("latest", LONG_MAX), rules.get("needs_key", False), rules.get("releases_gil", False),
    )  # fmt: skip
    return tuple(found)


def agreed(payload: Any, count: int, **rules: Any) -> tuple[int, ...]:
    """Returns the common result of all walks, without the meaningless counts of a broken payload."""
    found = [bare(walk, payload, count, **rules) for walk in WALKS]
    reported = [one if one[0] == WHOLE else one[:1] for one in found]
    assert all(one == reported[0] for one in reported), (found, count, bytes(payload).hex())
    return found[0]


def payload_of(records: list[Record]) -> bytes:
    return encode_batch(records)[HEADER_BYTES:]


def some_records(rng: random.Random) -> list[Record]:
    def data(most: int) -> bytes | None:
        return None if rng.random() < 0.2 else rng.randbytes(rng.choice((0, 1, 5, 63, 64, 130, most)))

    headers = [("h" * rng.randrange(3), data(10)) for _ in range(rng.choice((0, 0, 1, 3)))]
    return [
        Record(number, NOW + rng.choice((0, 1, -1, 70, -(1 << 40))), data(9), data(9000), list(headers))
        for number in range(rng.choice((1, 2, 3, 70, 200)))
    ]


@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: walk.__name__)
def test_walk_accepts_good_records_and_returns_their_largest_timestamp(walk: Callable[..., Any]) -> None:
    rng = random.Random(SEED)
    for _ in range(50):
        records = some_records(rng)
        newest = max(record.timestamp for record in records)
        payload = payload_of(records)
        assert bare(walk, payload, len(records), base=records[0].timestamp) == (WHOLE, newest, 0, 0, 0)
        keyless = sum(record.key is None for record in records)
        old = sum(record.key is not None and record.timestamp < NOW for record in records)
        found = bare(walk, payload, len(records), base=records[0].timestamp, needs_key=True, earliest=NOW)
        assert found == (WHOLE, newest, 0, keyless, old)


def test_walks_and_decoder_agree_on_mutated_payloads() -> None:
    rng = random.Random(SEED)
    broken, mutations = 0, examples(MUTATIONS)
    for _ in range(mutations):
        records = some_records(rng)[: rng.choice((1, 2, 5))]
        payload = bytearray(payload_of(records))
        for _ in range(rng.choice((0, 1, 1, 1, 2, 4))):
            mutate(payload, rng)
        count = len(records) + rng.choice((0, 0, 0, 0, 1, -1))
        found = agreed(payload, count, base=records[0].timestamp, needs_key=True, latest=NOW + 5)
        broken += found[0] != WHOLE
        if found[0] == WHOLE and count > 0:
            assert_decodes(bytes(payload), count, records[0].timestamp, found)
    assert mutations // 4 < broken < mutations


def mutate(payload: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(payload) + 1)
    kind = rng.randrange(4)
    if kind == 0 and at < len(payload):
        payload[at] = rng.choice((0, 1, 2, 3, 0x7F, 0x80, 0x81, 0xFE, 0xFF, rng.randrange(256)))
    elif kind == 1:
        del payload[at : at + rng.randrange(1, 12)]
    elif kind == 2:
        payload[at:at] = rng.randbytes(rng.randrange(1, 12))
    elif at < len(payload):
        payload[at] ^= 1 << rng.randrange(8)


def assert_decodes(payload: bytes, count: int, base: int, found: tuple[int, ...]) -> None:
    """Asserts that the record decoder, used by the cleaner and the coordinators, decodes what the walk finds WHOLE."""
    whole = bytearray(encode_batch([Record(0, base)])[:HEADER_BYTES]) + payload
    header = read_header(whole)._replace(
        record_count=count, length=HEADER_BYTES - 12 + len(payload), base_timestamp=base
    )
    records = decode_batch(whole, 0, header)
    assert len(records) == count
    assert sum(record.key is None for record in records) == found[3]
    assert sum(record.offset != number for number, record in enumerate(records)) == found[2]
    assert all(record.offset == number for number, record in enumerate(decoded_anew(payload, header, count)))


def decoded_anew(payload: bytes, header: Any, count: int) -> list[Record]:
    fixed = renumbered(payload, count)
    return decode_batch(bytes(HEADER_BYTES) + fixed, 0, header._replace(length=HEADER_BYTES - 12 + len(fixed)))


@settings(max_examples=examples(300), deadline=None)
@given(st.binary(max_size=80), st.integers(-2, 6))
def test_walks_agree_on_any_bytes(payload: bytes, count: int) -> None:
    agreed(payload, count)


@pytest.mark.parametrize("name", [*KINDS, *ODD])
def test_walks_agree_on_poisoned_batches(name: str) -> None:
    made = {**KINDS, **ODD}[name](Compression.NONE, NOW)
    if len(made) < HEADER_BYTES:
        return
    header = read_header(made)
    payload = made[HEADER_BYTES : header.size]
    for count in (header.record_count, 3):
        agreed(payload, min(count, 5000), needs_key=True, earliest=NOW - 1000, latest=NOW + 1000)


def test_payload_cut_anywhere_is_broken() -> None:
    payload = payload_of([Record(n, NOW, b"key", b"v" * 70, [("name", b"x")]) for n in range(3)])
    for end in range(len(payload)):
        assert agreed(payload[:end], 3)[0] == BROKEN


def test_unending_length_has_its_own_fault() -> None:
    assert agreed(b"\xff" * 11, 1)[0] == ENDLESS_LENGTH
    assert agreed(b"\xff" * 4, 1)[0] == BROKEN


def test_record_over_the_limit_is_broken() -> None:
    payload = payload_of([Record(0, NOW, None, bytes(1000))])
    assert agreed(payload, 1, most_bytes=2000)[0] == WHOLE
    assert agreed(payload, 1, most_bytes=1000)[0] == BROKEN


@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: walk.__name__)
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_walk_takes_any_buffer_and_any_start(walk: Callable[..., Any], kind: Any) -> None:
    payload = payload_of([Record(0, NOW, b"k", b"v")])
    assert walk(kind(b"head" + payload), 4, 1, INT_MAX, NOW, 0, LONG_MAX, False, True) == (WHOLE, NOW, 0, 0, 0)


def test_compiled_walk_rejects_start_outside_buffer() -> None:
    for compiled in WALKS[1:]:
        for start in (-1, 5):
            with pytest.raises(ValueError, match="outside"):
                compiled(b"four", start, 1, INT_MAX, 0, 0, 0, False, False)


def test_largest_timestamp_wraps_as_in_java() -> None:
    payload = payload_of([Record(0, 0), Record(1, LONG_MAX)])
    assert agreed(payload, 2, base=5, earliest=0) == (WHOLE, 5, 0, 0, 1)


def test_both_implementations_find_first_record_by_timestamp_and_offset() -> None:
    rng = random.Random(SEED)
    finds = [walks.pure_find, walks.find_record]
    for _ in range(300):
        records = some_records(rng)
        payload = bytearray(payload_of(records))
        if rng.random() < 0.3:
            mutate(payload, rng)
        wanted, least = NOW + rng.choice((-5, 0, 1, 2, 80)), rng.choice((0, 1, 60, 500))
        found = [find(payload, len(records), records[0].timestamp, wanted, least) for find in finds]
        good = payload == payload_of(records)
        expected = [(r.offset, r.timestamp) for r in records if r.timestamp >= wanted and r.offset >= least]
        if good:
            assert found == [expected[0] if expected else None] * 2
        assert found[1] in (found[0], None)
