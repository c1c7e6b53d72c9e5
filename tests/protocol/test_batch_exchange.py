"""Exchange of record batches with Apache's classes in both directions, with every compression codec."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable
from typing import Any

import pytest
from odradek.protocol.internal import control_records
from odradek.protocol.records.batch import BatchHeader, TimestampType, check_batch, read_header
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.control import ControlRecord, ControlType, decode_control, encode_control_batch
from odradek.protocol.records.end_markers import encode_end_transaction
from odradek.protocol.records.record import Record, decode_batch, encode_batch

from tests.protocol.codec_oracle import CodecOracle
from tests.protocol.random_messages import random_bytes, random_message

BATCHES = 40
CODECS = list(Compression)
SHOWN = (
    *("base_offset", "last_offset", "next_offset", "size", "leader_epoch", "magic", "crc", "compression"),
    *("timestamp_type", "max_timestamp", "producer_id", "producer_epoch", "base_sequence", "last_sequence"),
    *("is_transactional", "is_control", "record_count"),
)


def random_records(rng: random.Random, count: int, base_offset: int = 0) -> list[Record]:
    records = []
    for index in range(count):
        key, value = (rng.choice((None, b"", random_bytes(rng), b"text " * rng.randint(0, 400))) for _ in range(2))
        headers = [(rng.choice(("", "h", "Größe")), rng.choice((None, b"", b"x")))] * rng.choice((0, 0, 0, 1, 3))
        timestamp = 1_700_000_000_000 + rng.choice((0, index, -index, rng.randint(-(1 << 40), 1 << 40)))
        records.append(Record(base_offset + index, timestamp, key, value, headers))
    return records


def as_json(header: BatchHeader, records: list[Record]) -> dict[str, Any]:
    """Returns a batch in the format of CodecOracle.java."""
    shown: dict[str, Any] = {name: getattr(header, name) for name in SHOWN}
    shown["delete_horizon"] = header.base_timestamp if header.has_delete_horizon else None
    shown["records"] = [
        {
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": text(record.key),
            "value": text(record.value),
            "headers": [[name, text(value)] for name, value in record.headers],
        }
        for record in records
    ]
    return shown


def text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


@pytest.mark.parametrize("compression", CODECS, ids=lambda codec: codec.name)
@pytest.mark.parametrize("level", [None, 1, 5])
def test_apache_decodes_our_batches(compression: Compression, level: int | None, codec_oracle: CodecOracle) -> None:
    rng = random.Random(f"{compression} {level}")
    data, expected = b"", []
    for _ in range(BATCHES):
        records = random_records(rng, rng.choice((1, 2, 3, 50, 300)), rng.randrange(1 << 40))
        made = encode_batch(
            records,
            compression=compression,
            level=level,
            leader_epoch=rng.randrange(99),
            producer_id=rng.choice((-1, 1 << 60)),
            producer_epoch=rng.randrange(9),
            base_sequence=rng.choice((-1, 0, 0x7FFFFFFE)),
            log_append_time=rng.choice((None, None, 1_700_000_000_001)),
            delete_horizon=rng.choice((None, None, 1_700_000_000_002)),
            transactional=rng.random() < 0.3,
        )
        header = read_header(made)
        check_batch(made, 0, header)
        expected.append(as_json(header, decode_batch(made)))
        data += made
    assert codec_oracle.batches(data) == expected


@pytest.mark.parametrize("compression", CODECS, ids=lambda codec: codec.name)
def test_we_decode_apaches_batches(compression: Compression, codec_oracle: CodecOracle) -> None:
    for seed in range(BATCHES):
        data, shown = codec_oracle.random_batch(compression.name.lower(), seed)
        header = read_header(data)
        check_batch(data, 0, header)
        records = decode_batch(data)
        assert as_json(header, records) == shown
        # With LogAppendTime the producer's timestamps are in the bytes, but not in the decoded records.
        if compression is Compression.NONE and header.timestamp_type is TimestampType.CREATE_TIME:
            assert written_again(header, records) == data


def written_again(header: BatchHeader, records: list[Record]) -> bytes:
    return encode_batch(
        records,
        leader_epoch=header.leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
    )


@pytest.mark.parametrize("committed", [True, False])
def test_apache_decodes_our_transaction_marker(committed: bool, codec_oracle: CodecOracle) -> None:
    data = encode_end_transaction(
        committed, base_offset=7, timestamp=99, producer_id=4, producer_epoch=2, coordinator_epoch=3, leader_epoch=5
    )
    assert codec_oracle.batches(data) == [as_json(read_header(data), decode_batch(data))]


CONTROL: dict[ControlType, Callable[[random.Random], Any]] = {
    ControlType.LEADER_CHANGE: lambda rng: random_message(rng, control_records.LeaderChangeMessage, 0),
    ControlType.SNAPSHOT_HEADER: lambda rng: random_message(rng, control_records.SnapshotHeaderRecord, 0),
    ControlType.SNAPSHOT_FOOTER: lambda rng: random_message(rng, control_records.SnapshotFooterRecord, 0),
    ControlType.KRAFT_VERSION: lambda rng: random_message(rng, control_records.KRaftVersionRecord, 0),
    ControlType.KRAFT_VOTERS: lambda rng: random_message(rng, control_records.VotersRecord, 0),
}


@pytest.mark.parametrize("kind", CONTROL, ids=lambda kind: kind.name)
def test_apache_decodes_our_kraft_control_records(kind: ControlType, codec_oracle: CodecOracle) -> None:
    message = CONTROL[kind](random.Random(kind))
    message.version = 0
    data = encode_control_batch([ControlRecord(kind, message)], base_offset=3, timestamp=8, leader_epoch=1)
    records = decode_batch(data)
    assert codec_oracle.batches(data) == [as_json(read_header(data), records)]
    assert decode_control(records[0].key, records[0].value) == ControlRecord(kind, message)
    java_class = f"org.apache.kafka.common.message.{type(message).__name__}"
    assert records[0].value is not None
    assert codec_oracle.echo(java_class, 0, records[0].value)[0] == records[0].value
