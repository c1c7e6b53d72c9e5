"""UUIDs in Kafka's text format."""

from __future__ import annotations

import random

import pytest
from odradek.protocol.uuids import METADATA_TOPIC_ID, ZERO_UUID, uuid_from_text, uuid_to_text
from odradek.replication.random_source import random_uuid


def test_uuid_text_equals_kafkas() -> None:
    assert uuid_to_text(ZERO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert uuid_to_text(METADATA_TOPIC_ID) == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert uuid_to_text(bytes(range(240, 256))) == "8PHy8_T19vf4-fr7_P3-_w"


def test_every_uuid_survives_text_round_trip() -> None:
    rng = random.Random(1)
    for _ in range(200):
        uuid = rng.randbytes(16)
        assert uuid_from_text(uuid_to_text(uuid)) == uuid
        assert uuid_from_text(uuid_to_text(uuid) + "==") == uuid


@pytest.mark.parametrize(
    "text",
    [
        "",
        "AAAA",
        "A" * 21,
        "A" * 25,
        "AAAAAAAAAAAAAAAAAAAAA!",
        "AAAAAAAAAAAA AAAAAAAAA",
        "ÄAAAAAAAAAAAAAAAAAAAAA",
        "A" * 10**6,
    ],
)
def test_invalid_uuid_text_raises_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        uuid_from_text(text)


def test_no_generated_id_is_one_of_the_hundred_that_kafka_reserves() -> None:
    class Zeros(random.Random):
        def randbytes(self, n: int) -> bytes:
            return bytes(n)

    assert int.from_bytes(random_uuid(Zeros()), "big") >= 100
