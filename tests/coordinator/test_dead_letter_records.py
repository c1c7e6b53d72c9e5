"""Dead-letter records, and the reasons why a queue cannot be written."""

from __future__ import annotations

import pytest
from odradek.coordinator.dead_letters import (
    Content,
    Contents,
    DeadLetter,
    Origin,
    Packed,
    Queue,
    backoff_ms,
    destination,
    pack,
    validation_error,
)
from odradek.coordinator.share_partition import (
    AckBatch,
    AckType,
    Limits,
    SharePartition,
)
from odradek.coordinator.share_runs import RecordState
from odradek.coordinator.state_batches import StateBatch
from odradek.protocol.records.record import encode_batch

ORIGIN = Origin("g", "orders", 3)
DEAD_LETTER = DeadLetter(10, 14, 5, is_rejected=False)
EMPTY = Contents({}, 14)
GOOD = Queue("dlq.orders", "dlq.", is_there=True, is_enabled=True, is_created=False)
NOW = 1_700_000_000_000


def packed(contents: Contents = EMPTY, first: int = 10, most: int = 1_000_000) -> Packed:
    return pack(ORIGIN, DEAD_LETTER, first, contents, NOW, most)


def test_dead_letter_headers_have_kafkas_names_and_order() -> None:
    record = packed().records[1]
    assert record.headers == [
        ("__dlq.errors.topic", b"orders"),
        ("__dlq.errors.partition", b"3"),
        ("__dlq.errors.offset", b"11"),
        ("__dlq.errors.group", b"g"),
        ("__dlq.errors.delivery.count", b"5"),
        ("__dlq.errors.message", b"Offset delivery count exceeded the threshold."),
    ]
    assert (record.key, record.value, record.timestamp) == (None, None, NOW)
    assert DEAD_LETTER._replace(is_rejected=True).cause == "Offset rejected by client."


def test_computed_size_equals_encoded_batch_size() -> None:
    contents = Contents({10: Content(b"key", b"value" * 50), 12: Content(None, b"")}, 14)
    found = packed(contents)
    assert found.size == len(encode_batch(found.records))
    assert found.next_offset == 15


@pytest.mark.parametrize("most", range(61, 1200, 37))
def test_batch_exceeds_max_message_bytes_only_for_one_large_record(most: int) -> None:
    contents = Contents({offset: Content(None, b"v" * 40) for offset in range(10, 15)}, 14)
    first = 10
    while first <= DEAD_LETTER.last:
        found = packed(contents, first, most)
        assert len(found.records) == 1 or found.size <= most
        assert found.next_offset == first + len(found.records) > first
        first = found.next_offset
    assert first == DEAD_LETTER.last + 1


def test_records_not_read_yet_wait_for_next_batch() -> None:
    assert packed(Contents({}, 12)).next_offset == 13
    assert packed(Contents({}, 9)).next_offset == 11, "a batch has at least one record"


@pytest.mark.parametrize(
    ("queue", "words"),
    [
        (GOOD, None),
        (GOOD._replace(prefix=""), None),
        (GOOD._replace(is_there=False, is_created=True), None),
        (GOOD._replace(topic=""), "Configured DLQ topic name in share group: g is empty."),
        (
            GOOD._replace(topic="__dlq"),
            "Configured DLQ topic name in share group: g cannot start with __, topic: __dlq.",
        ),
        (
            GOOD._replace(is_enabled=False),
            "DLQ is not enabled on configured DLQ topic for share group: g, topic: dlq.orders.",
        ),
        (
            GOOD._replace(is_there=False),
            "DLQ topic does not exist and auto create is disabled on cluster for share group: g, topic: dlq.orders.",
        ),
        (
            GOOD._replace(prefix="dead."),
            "Configured DLQ topic name does not comply with the DLQ topic prefix in share group: g, topic: dlq.orders, "
            "prefix: dead..",
        ),
    ],
)
def test_invalid_queue_has_kafkas_error_message(queue: Queue, words: str | None) -> None:
    assert validation_error("g", queue) == words


def test_dead_letters_are_spread_over_queue_partitions() -> None:
    assert [destination(index, 3) for index in range(5)] == [0, 1, 2, 0, 1]


def test_backoff_doubles_up_to_maximum() -> None:
    assert [backoff_ms(tries, 0.5) for tries in (1, 2, 3, 4, 9)] == [2_000, 4_000, 8_000, 16_000, 30_000]
    assert (backoff_ms(1, 0.0), backoff_ms(1, 1.0)) == (1_600, 2_400)


def test_rejected_record_is_archiving_until_dead_letter_is_written() -> None:
    partition = SharePartition(0, [StateBatch(0, 3, 0, 1)], Limits(has_dead_letters=True))
    for run in partition.runs.between(0, 3):
        partition.give(run, "m", 0)
    partition.acknowledge("token", "m", [AckBatch(0, 1, [AckType.REJECT]), AckBatch(2, 3, [AckType.GAP])], 0)
    (first,), replies, dead_letter_records = partition.take()
    assert first.batches == (StateBatch(0, 1, 3, 2), StateBatch(2, 3, 4, 2))
    assert (first.delivery_complete_count, replies, dead_letter_records) == (2, [], []), "no output before the write"

    partition.written(first.id, None)
    writes, (reply,), (dead_letter,) = partition.take()
    assert (writes, reply) == ([], ("token", None))
    assert dead_letter == DeadLetter(0, 1, 2, is_rejected=True)
    assert partition.start_offset == 0

    partition.dead_letter_written(dead_letter)
    ((second,), _, _) = partition.take()
    assert second.batches == (StateBatch(0, 1, 4, 2),)
    assert second.delivery_complete_count == 4
    partition.written(second.id, None)
    assert partition.start_offset == 4
    partition.dead_letter_written(dead_letter)
    assert partition.take() == ([], [], [])


def test_new_leader_sends_dead_letters_of_archiving_records() -> None:
    batches = [StateBatch(0, 1, 3, 2), StateBatch(2, 2, 2, 1), StateBatch(3, 3, 3, 5)]
    partition = SharePartition(0, batches, Limits(delivery_count=5))
    assert partition.take().dead_letter_records == [
        DeadLetter(0, 1, 2, is_rejected=True),
        DeadLetter(3, 3, 5, is_rejected=False),
    ]
    assert partition.next_fetch_offset() == 4
    assert next(iter(partition.runs)).state is RecordState.ARCHIVING
