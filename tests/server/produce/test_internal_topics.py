"""Batches that clients write to the metadata topic of tiered storage: only events, and a bounded number of them."""

from __future__ import annotations

import random

import pytest
from odradek.metadata.internal_topics import REMOTE_LOG_METADATA_TOPIC
from odradek.protocol.errors import ErrorCode
from odradek.protocol.records.compression import Compression
from odradek.server.partitions.append_result import AppendResult
from odradek.server.produce.internal_topics import MOST_EVENTS, rejection
from odradek.tiers.events import encode_event
from odradek.tiers.segment_metadata import TopicIdPartition

from tests.hostile.metadata_records import valid_event
from tests.server.harness.data_path import batch_of

PARTITION = TopicIdPartition(b"topic-id-of-logs", "tiered", 0)
CLIENT = "node"
COMPRESSIONS = [Compression.NONE, Compression.ZSTD]


def rejected(*values: bytes, compression: Compression = Compression.NONE) -> AppendResult | None:
    return rejection(REMOTE_LOG_METADATA_TOPIC, CLIENT, batch_of(*values, compression=compression), [CLIENT])


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_batch_of_the_most_events_is_written(compression: Compression) -> None:
    event = encode_event(valid_event(random.Random(1), PARTITION))
    assert rejected(*[event] * MOST_EVENTS, compression=compression) is None


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_wrong_events_are_listed_and_more_than_the_most_are_not_decoded(compression: Compression) -> None:
    """A compressed batch of 2 KB has 100,000 wrong events, whose lines would take 10 MB."""
    few = rejected(*[b"x"] * MOST_EVENTS, compression=compression)
    assert few is not None and few.error == ErrorCode.INVALID_RECORD
    assert few.record_errors is not None and len(few.record_errors) == MOST_EVENTS
    many = rejected(*[b"x"] * 100 * MOST_EVENTS, compression=compression)
    assert many is not None and many.error == ErrorCode.MESSAGE_TOO_LARGE and not many.record_errors
