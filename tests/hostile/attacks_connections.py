"""Attacks by connections: unfinished frames, unread responses, floods, random bytes."""

from __future__ import annotations

import itertools
import random
import struct
import time

from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.records.record import Record, encode_batch

from tests.hostile.attack_target import AttackTarget
from tests.hostile.attacker import Attacker, make_topic, request_frame_of

#: The time that attackers keep their connections, beside the good client's requests.
HELD_S = 0.3
_numbers = itertools.count(1)


def half_frames(room: AttackTarget, rng: random.Random) -> None:
    """Opens connections that send a part of a frame each and then nothing."""
    frame = request_frame_of(MetadataRequest(topics=None), 9)
    attackers = []
    for target in room.targets:
        for _ in range(room.scaled(100)):
            attacker = Attacker(target)
            attacker.send(frame[: rng.randrange(1, len(frame))])
            attackers.append(attacker)
    time.sleep(HELD_S)
    for attacker in attackers:
        attacker.close()


def giant_frame_lengths(room: AttackTarget, rng: random.Random) -> None:
    """Announces frame lengths that are negative, too large or the largest allowed, and sends few bytes after them."""
    lengths = [-1, -(2**31), 2**31 - 1, 100 << 20, (100 << 20) + 1, 0, 1, 7]
    attackers = []
    for target in room.targets:
        for _ in range(room.scaled(200)):
            attacker = Attacker(target)
            attacker.send(struct.pack(">i", rng.choice(lengths)) + rng.randbytes(rng.randrange(2000)))
            attackers.append(attacker)
    time.sleep(HELD_S)
    for attacker in attackers:
        attacker.close()


def large_frames_by_pieces(room: AttackTarget, rng: random.Random) -> None:
    """Sends almost all of 20 MB frames on several connections, and never finishes them."""
    piece = bytes(1 << 20)
    attackers = [Attacker(room.addresses[0], patience_s=10) for _ in range(room.scaled(10))]
    for attacker in attackers:
        attacker.send(struct.pack(">ihhi", 20 << 20, 0, 9, 1))
    for _ in range(19):
        for attacker in attackers:
            attacker.send(piece)
    for attacker in attackers:
        attacker.close()


def random_bytes(room: AttackTarget, rng: random.Random) -> None:
    """Sends random bytes: alone, after a correct length, and after a correct header."""
    for target in room.targets:
        for _ in range(room.scaled(500)):
            rubbish = rng.randbytes(rng.randrange(400))
            head = struct.pack(">hhih", rng.randrange(100), rng.randrange(20), 1, -1)
            frame = rng.choice((b"", head)) + rubbish
            with Attacker(target, patience_s=10) as attacker:
                attacker.send(rng.choice((b"", len(frame).to_bytes(4, "big"))) + frame)


def connection_flood(room: AttackTarget, rng: random.Random) -> None:
    """Opens and closes connections as fast as possible; every second one sends an ApiVersions request first."""
    frame = request_frame_of(ApiVersionsRequest("attacker", "1"), 3)
    for number in range(room.scaled(2000)):
        with Attacker(room.targets[number % len(room.targets)], patience_s=10) as attacker:
            if number % 2:
                attacker.exchange(frame)


def idle_connections(room: AttackTarget, rng: random.Random) -> None:
    """Opens connections that send nothing."""
    attackers = [Attacker(room.targets[number % len(room.targets)]) for number in range(room.scaled(700))]
    time.sleep(HELD_S)
    for attacker in attackers:
        attacker.close()


def slow_readers(room: AttackTarget, rng: random.Random) -> None:
    """Fetches 10 MB again and again and never reads a response."""
    topic = f"large-{next(_numbers)}"
    leader = make_topic(room.addresses, topic)
    batch = encode_batch([Record(0, 0, None, rng.randbytes(900_000))])
    data = TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch)])
    with Attacker(leader) as producer:
        for _ in range(11):
            producer.exchange(request_frame_of(ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[data]), 9))
    partition = FetchPartition(0, fetch_offset=0, partition_max_bytes=10 << 20)
    fetch = FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=10 << 20, topics=[FetchTopic(topic, partitions=[partition])]
    )
    frame = request_frame_of(fetch, 11) * 20
    attackers = [Attacker(leader, receive_buffer=4096, patience_s=1) for _ in range(room.scaled(50))]
    for attacker in attackers:
        attacker.send(frame)
    time.sleep(HELD_S)
    for attacker in attackers:
        attacker.close()


def unread_metadata(room: AttackTarget, rng: random.Random) -> None:
    """Sends many small requests with larger responses on connections that never read."""
    frame = request_frame_of(MetadataRequest(topics=None), 9) * 1000
    attackers = [Attacker(room.addresses[0], receive_buffer=4096, patience_s=0.2) for _ in range(room.scaled(20))]
    for attacker in attackers:
        attacker.send(frame)
    for attacker in attackers:
        attacker.close()


def acks_0_flood(room: AttackTarget, rng: random.Random) -> None:
    """Produces small batches with acks=0, also to a topic that does not exist."""
    topic = f"flooded-{next(_numbers)}"
    leader = make_topic(room.addresses, topic)
    frames = b""
    for name in (topic, "no such topic"):
        data = TopicProduceData(
            name, partition_data=[PartitionProduceData(0, encode_batch([Record(0, 0, None, b"x")]))]
        )
        frames += request_frame_of(ProduceRequest(acks=0, timeout_ms=1000, topic_data=[data]), 9) * 500
    attackers = [Attacker(leader, patience_s=20) for _ in range(4)]
    for _ in range(room.scaled(10)):
        for attacker in attackers:
            attacker.send(frames)
    for attacker in attackers:
        attacker.exchange(request_frame_of(ApiVersionsRequest("attacker", "1"), 3))
        attacker.close()


ATTACKS = (
    half_frames,
    giant_frame_lengths,
    large_frames_by_pieces,
    random_bytes,
    connection_flood,
    idle_connections,
    slow_readers,
    unread_metadata,
    acks_0_flood,
)
