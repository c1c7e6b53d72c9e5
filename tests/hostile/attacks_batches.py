"""Attacks by record batches: a few kilobytes that decompress to hundreds of megabytes, or to a million records."""

from __future__ import annotations

import itertools
import random
import time

import zstandard
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.records.batch import HEADER_BYTES, seal
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.record import Record, encode_batch

from tests.hostile.attack_target import AttackTarget
from tests.hostile.attacker import make_topic, request_frame_of, send_each
from tests.hostile.poisoned_batches import KINDS, ODD

_COUNT_AT, _LAST_DELTA_AT, _ATTRIBUTES_AT, _LENGTH_AT = 57, 23, 21, 8
_numbers = itertools.count(1)


def compressed_batch(payload: bytes, count: int) -> bytearray:
    """Returns a batch of format 2 with a correct CRC and `payload` as its zstd data, valid or not."""
    batch = bytearray(encode_batch([Record(0, 0, b"k", b"v")]))[:HEADER_BYTES] + payload
    batch[_LENGTH_AT : _LENGTH_AT + 4] = (len(batch) - 12).to_bytes(4, "big")
    batch[_ATTRIBUTES_AT : _ATTRIBUTES_AT + 2] = int(Compression.ZSTD).to_bytes(2, "big")
    batch[_LAST_DELTA_AT : _LAST_DELTA_AT + 4] = (count - 1).to_bytes(4, "big")
    batch[_COUNT_AT : _COUNT_AT + 4] = count.to_bytes(4, "big")
    seal(batch, 0, len(batch))
    return batch


def produce_frame(topic: str, batch: bytes | bytearray) -> bytes:
    data = TopicProduceData(topic, partition_data=[PartitionProduceData(0, bytes(batch))])
    return request_frame_of(ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[data]), 9)


def _compressed_zeros(megabytes: int) -> bytes:
    compressor = zstandard.ZstdCompressor(level=3).compressobj()
    block = bytes(1 << 20)
    return b"".join(compressor.compress(block) for _ in range(megabytes)) + compressor.flush()


def bomb_of_zeros(room: AttackTarget, rng: random.Random) -> None:
    """Sends 256 MB of zeros in 8 KB of zstd to a compacted and an ordinary topic."""
    batch = compressed_batch(_compressed_zeros(room.scaled(256)), 1)
    for policy in ("compact", "delete"):
        topic = f"zeros-{next(_numbers)}"
        leader = make_topic(room.addresses, topic, cleanup_policy=policy)
        send_each(leader, [produce_frame(topic, batch)] * 4)


def bomb_of_records(room: AttackTarget, rng: random.Random) -> None:
    """Sends 1,000,000 empty records with keys in zstd to a compacted topic."""
    count = room.scaled(1_000_000)
    topic = f"records-{next(_numbers)}"
    leader = make_topic(room.addresses, topic, cleanup_policy="compact", max_message_bytes="5000000")
    batch = encode_batch([Record(number, 0, b"k", b"") for number in range(count)], compression=Compression.ZSTD)
    send_each(leader, [produce_frame(topic, batch)])


def lying_batches(room: AttackTarget, rng: random.Random) -> None:
    """Sends every kind of contradictory or odd batch, with every codec, to a compacted and an ordinary topic."""
    kinds = [kind for kinds in (KINDS, ODD) for kind in kinds.values()]
    for policy in ("compact", "delete"):
        topic = f"lies-{next(_numbers)}"
        leader = make_topic(room.addresses, topic, cleanup_policy=policy)
        lies = [(kind, codec) for kind in kinds for codec in Compression]
        rng.shuffle(lies)
        now_ms = time.time_ns() // 1_000_000
        frames = [produce_frame(topic, kind(codec, now_ms)) for kind, codec in lies[: room.scaled(len(lies))]]
        send_each(leader, frames, patience_s=10)


def batches_of_random_bytes(room: AttackTarget, rng: random.Random) -> None:
    """Sends batches with some random bytes and a correct CRC."""
    topic = f"changed-{next(_numbers)}"
    leader = make_topic(room.addresses, topic)
    good = encode_batch([Record(number, 0, b"key", b"value") for number in range(3)])
    frames = []
    for _ in range(room.scaled(1000)):
        batch = bytearray(good)
        for _ in range(rng.randrange(1, 4)):
            batch[rng.randrange(_ATTRIBUTES_AT, len(batch))] = rng.randrange(256)
        batch += rng.randbytes(rng.choice((0, 0, 5)))
        batch[_LENGTH_AT : _LENGTH_AT + 4] = (len(batch) - 12).to_bytes(4, "big")
        seal(batch, 0, len(batch))
        frames.append(produce_frame(topic, batch))
    send_each(leader, frames, patience_s=10)


ATTACKS = (bomb_of_zeros, bomb_of_records, lying_batches, batches_of_random_bytes)
