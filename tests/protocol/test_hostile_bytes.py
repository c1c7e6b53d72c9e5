"""Invalid messages: truncated, flipped bits, hostile lengths, or random bytes.

Each raises MalformedMessage or decodes to a message, with the same result from the lowered and the interpreted codec,
in time and memory proportional to its size. `ODRADEK_FUZZ` multiplies the number of random inputs.
"""

from __future__ import annotations

import gc
import os
import random
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from odradek.protocol.codec import (
    DECODE_FAULTS,
    MalformedMessage,
    decode,
    encode,
    interpreted_decode,
    lowered_decoder,
    stepwise_decoder,
)
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.primitives import MAX_ARRAY_ELEMENTS, MAX_TAGGED_FIELDS
from odradek.protocol.schema import Message
from odradek.protocol.varint import encode_varint

from tests.harness.examples import examples
from tests.protocol.random_messages import random_message
from tests.protocol.steps import result_of
from tests.protocol.tables import messages, versions
from tests.protocol.walk import walk

EFFORT = int(os.environ.get("ODRADEK_FUZZ", "1"))
NAMES = sorted(messages())
#: Hostile values of lengths: the largest and smallest numbers of each width, and varints at and over their limit.
HOSTILE = (
    *(b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\x00\x00\x00", b"\x00\x0f\x42\x41", b"\x00\x00\xff\xff"),
    *(b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x7f", b"\xff\xff\xff\xff\xff\x01", b"\x80\x80\x80\x80\x00"),
    *(b"\x7f\xff", b"\x80\x00", b"\xff\xfe", encode_varint(MAX_ARRAY_ELEMENTS + 2), encode_varint(40_000)),
)
#: A message may take this multiple of its size in memory: an array of empty structures is the worst case.
MEMORY_FACTOR = 400
MEMORY_ALLOWANCE = 64 << 10
#: Far more than any input here takes; a decoder that counts to two billion exceeds it.
MOST_SECONDS = 2.0


def outcome(made: type[Message], version: int, data: bytes) -> tuple[Any, int] | None:
    """Returns the common result of all decoders; None for MalformedMessage. Fails if they differ or raise anything else."""
    try:
        lowered = decode(made, version, data)
    except MalformedMessage:
        lowered = None
    try:
        interpreted = interpreted_decode(made, version, data)
    except MalformedMessage:
        interpreted = None
    # Compared by repr: a NaN is not equal to itself.
    assert lowered == interpreted or repr(lowered) == repr(interpreted), (made, version, data)
    try:
        stepwise = result_of(stepwise_decoder(made, version)(data, 0, {}))
    except DECODE_FAULTS:
        stepwise = None
    assert stepwise == lowered or repr(stepwise) == repr(lowered), (made, version, data)
    return lowered


def samples(name: str, salt: str, most: int) -> Iterator[tuple[type[Message], int, bytes, random.Random]]:
    made = messages()[name]
    for version in versions(made):
        rng = random.Random(f"{name} {version} {salt}")
        data = encode(random_message(rng, made, version), version)
        yield made, version, data[:most], rng


def test_message_truncated_at_any_byte_is_malformed() -> None:
    def check(name: str) -> None:
        for made, version, data, _ in samples(name, "cut", 1 << 20):
            step = max(1, len(data) // examples(60 * EFFORT))
            for end in range(0, len(data), step):
                assert outcome(made, version, data[:end]) is None, (version, data, end)

    walk(NAMES, check)


def test_flipped_bits_decode_or_are_malformed() -> None:
    def check(name: str) -> None:
        for made, version, data, rng in samples(name, "flip", 1 << 20):
            for _ in range(examples(20 * EFFORT)):
                flipped = bytearray(data or b"\0")
                for _ in range(rng.choice((1, 1, 3))):
                    flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
                outcome(made, version, bytes(flipped))

    walk(NAMES, check)


def test_hostile_lengths_decode_or_are_malformed() -> None:
    def check(name: str) -> None:
        for made, version, data, rng in samples(name, "length", 1 << 20):
            for _ in range(examples(20 * EFFORT)):
                at, number = rng.randrange(len(data) + 1), rng.choice(HOSTILE)
                outcome(made, version, data[:at] + number + data[at + rng.choice((0, len(number))) :])

    walk(NAMES, check)


def test_random_bytes_decode_or_are_malformed() -> None:
    def check(name: str) -> None:
        for made, version, _, rng in samples(name, "noise", 0):
            for _ in range(examples(10 * EFFORT)):
                noise = rng.randbytes(rng.choice((0, 1, 3, 10, 60, 300)))
                outcome(made, version, noise)
                # Small numbers pass more checks.
                outcome(made, version, bytes(byte & rng.choice((1, 3, 7)) for byte in noise))

    walk(NAMES, check)


def test_hostile_bytes_take_memory_proportional_to_size() -> None:
    def check(name: str) -> None:
        made = messages()[name]
        version = versions(made)[-1]
        rng = random.Random(name)
        honest = encode(random_message(rng, made, version), version)
        inputs = [number * 20 for number in HOSTILE] + [b"\x02" * 3000, b"\x01" * 3000, b"\0" * 3000]
        inputs += [
            honest[:at] + rng.choice(HOSTILE) + honest[at:]
            for at in range(0, len(honest), len(honest) // examples(20) + 1)
        ]
        lowered_decoder(made, version)
        for data in inputs:
            started = time.process_time()
            tracemalloc.start()
            try:
                decode(made, version, data)
            except MalformedMessage:
                pass
            finally:
                _, peak = tracemalloc.get_traced_memory()
                tracemalloc.stop()
            assert peak < MEMORY_ALLOWANCE + MEMORY_FACTOR * len(data), (data, peak)
            assert time.process_time() - started < MOST_SECONDS

    walk(NAMES, check)


def test_array_over_limit_is_malformed_even_if_complete() -> None:
    count = (MAX_ARRAY_ELEMENTS + 1).to_bytes(4, "big")
    with pytest.raises(MalformedMessage, match=r"topics.*array of 1000001 elements"):
        decode(MetadataRequest, 1, count + bytes(2 * MAX_ARRAY_ELEMENTS + 2))


def test_tagged_fields_over_limit_are_malformed_even_if_complete() -> None:
    head = encode(ApiVersionsRequest(), 3)[:-1]
    tags = b"".join(encode_varint(100 + tag) + b"\0" for tag in range(MAX_TAGGED_FIELDS + 1))
    with pytest.raises(MalformedMessage, match="10001 tagged fields"):
        decode(ApiVersionsRequest, 3, head + encode_varint(MAX_TAGGED_FIELDS + 1) + tags)
    started = time.process_time()
    data = head + encode_varint(MAX_TAGGED_FIELDS) + tags[:-3]
    assert outcome(ApiVersionsRequest, 3, data) is not None
    assert time.process_time() - started < MOST_SECONDS


def test_error_names_message_and_field() -> None:
    with pytest.raises(MalformedMessage, match=r"MetadataRequest v9: .*topics -> 0 -> name"):
        decode(MetadataRequest, 9, b"\x02\x7fabc")


def test_error_far_from_beginning_is_not_searched_for() -> None:
    """The interpreted codec, which names the field of an error, takes six times as long."""
    topics = [MetadataRequestTopic(name="t") for _ in range(60_000)]
    data = encode(MetadataRequest(topics=topics), 9)[:-3]
    gc.collect()
    gc.disable()
    try:
        started = time.process_time()
        with pytest.raises(MalformedMessage, match="bytes are not this message"):
            decode(MetadataRequest, 9, data)
        searched = time.process_time()
        with pytest.raises(MalformedMessage):
            interpreted_decode(MetadataRequest, 9, data)
        ended = time.process_time()
    finally:
        gc.enable()
    assert searched - started < (ended - searched) / 2
