"""Attacks by many names: groups, members, producers, transactions, fetch sessions and topics that no client uses."""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Iterable

from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.records.record import Record, encode_batch
from odradek.protocol.schema import Message

from compat_tests.wire import WireClient
from tests.hostile.attack_target import AttackTarget
from tests.hostile.attacker import CLIENT_ID, Attacker, make_topic, request_frame_of

#: The number of requests in flight.
PIPELINED = 50
SESSION_TIMEOUT_MS = 6000
_GROUP, _TRANSACTION = 0, 1
_numbers = itertools.count(1)


def send_all(address: str, requests: Iterable[Message], version: int) -> None:
    """Sends the requests on one connection, `PIPELINED` at a time. Reads the responses and ignores them."""
    frames = (request_frame_of(request, version) for request in requests)
    with Attacker(address) as attacker:
        while batch := list(itertools.islice(frames, PIPELINED)):
            attacker.send(b"".join(batch))
            for _ in batch:
                attacker.receive()


def await_coordinator(room: AttackTarget, key: str, kind: int) -> str:
    """Returns the address of the coordinator. The first FindCoordinator request may have to create its topic."""
    while True:
        with contextlib.suppress(OSError), WireClient(room.addresses[0], client_id=CLIENT_ID) as client:
            response = client.call(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]), 4).coordinators[0]
            if not response.error_code:
                return f"{response.host}:{response.port}"


def group_joins(room: AttackTarget, rng: random.Random) -> None:
    """Joins 2,000 classic groups with a member each, with metadata of 1 KB, that sends nothing more."""
    coordinator = await_coordinator(room, "joined", _GROUP)
    protocols = [JoinGroupRequestProtocol("range", bytes(1024))]
    run = next(_numbers)
    requests = (
        JoinGroupRequest(f"joined-{run}-{number}", SESSION_TIMEOUT_MS, 1, "", None, "consumer", protocols)
        for number in range(room.scaled(2000))
    )
    send_all(coordinator, requests, 9)


def members_of_one_group(room: AttackTarget, rng: random.Random) -> None:
    """Requests ids for 2,000 members of one classic group, which do not join with them."""
    coordinator = await_coordinator(room, "crowded", _GROUP)
    protocols = [JoinGroupRequestProtocol("range", bytes(1024))]
    request = JoinGroupRequest("crowded", SESSION_TIMEOUT_MS, 1, "", None, "consumer", protocols)
    send_all(coordinator, itertools.repeat(request, room.scaled(2000)), 9)


def consumer_group_joins(room: AttackTarget, rng: random.Random) -> None:
    """Joins 2,000 consumer groups of the newer protocol (KIP-848) with a member each that sends no more heartbeats."""
    coordinator = await_coordinator(room, "beating", _GROUP)
    run = next(_numbers)
    requests = (
        ConsumerGroupHeartbeatRequest(
            f"beating-{run}-{number}",
            f"member-{number}",
            0,
            rebalance_timeout_ms=1000,
            subscribed_topic_names=["a", "b"],
            topic_partitions=[],
        )
        for number in range(room.scaled(2000))
    )
    send_all(coordinator, requests, 1)


def producer_ids(room: AttackTarget, rng: random.Random) -> None:
    """Requests 5,000 producer ids, and sends a batch with each of 5,000 made-up ids."""
    count = room.scaled(5000)
    send_all(room.addresses[0], itertools.repeat(InitProducerIdRequest(None, 1000), count), 4)
    topic = f"produced-{next(_numbers)}"
    leader = make_topic(room.addresses, topic)

    def produce(producer_id: int) -> ProduceRequest:
        batch = encode_batch([Record(0, 0, None, b"x")], producer_id=producer_id, producer_epoch=0, base_sequence=0)
        data = TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch)])
        return ProduceRequest(acks=1, timeout_ms=1000, topic_data=[data])

    send_all(leader, (produce(1_000_000 + number) for number in range(count)), 9)


def transactional_ids(room: AttackTarget, rng: random.Random) -> None:
    """Initialises 2,000 transactional ids that no producer uses."""
    coordinator = await_coordinator(room, "transactional", _TRANSACTION)
    run = next(_numbers)
    send_all(
        coordinator,
        (InitProducerIdRequest(f"transactional-{run}-{number}", 60_000) for number in range(room.scaled(2000))),
        4,
    )


def fetch_sessions(room: AttackTarget, rng: random.Random) -> None:
    """Opens 5,000 fetch sessions with 20 partitions each."""
    topic = f"sessions-{next(_numbers)}"
    leader = make_topic(room.addresses, topic)
    partitions = [FetchPartition(number, partition_max_bytes=1) for number in range(20)]
    topics = [FetchTopic(topic, partitions=partitions)]
    request = FetchRequest(max_wait_ms=0, min_bytes=0, session_epoch=0, topics=topics)
    send_all(leader, itertools.repeat(request, room.scaled(5000)), 11)


def large_fetch_sessions(room: AttackTarget, rng: random.Random) -> None:
    """Opens 100 fetch sessions that name 10,000 partitions each, most of which do not exist."""
    topic = f"sessions-{next(_numbers)}"
    leader = make_topic(room.addresses, topic)
    partitions = [FetchPartition(number, partition_max_bytes=1) for number in range(10_000)]
    topics = [FetchTopic(topic, partitions=partitions)]
    request = FetchRequest(max_wait_ms=0, min_bytes=0, session_epoch=0, topics=topics)
    frame = request_frame_of(request, 11)
    with Attacker(leader) as attacker:
        for _ in range(room.scaled(100)):
            attacker.exchange(frame)


def auto_created_topics(room: AttackTarget, rng: random.Random) -> None:
    """Sends Metadata with 2,000 new names, 100 in a request, which the broker creates as topics."""
    run = next(_numbers)
    names = (f"wanted-{run}-{number}" for number in range(room.scaled(2000)))
    with Attacker(room.addresses[0]) as attacker:
        while some := list(itertools.islice(names, 100)):
            topics = [MetadataRequestTopic(name=name) for name in some]
            attacker.exchange(request_frame_of(MetadataRequest(topics), 9))


ATTACKS = (
    group_joins,
    members_of_one_group,
    consumer_group_joins,
    producer_ids,
    transactional_ids,
    fetch_sessions,
    large_fetch_sessions,
    auto_created_topics,
)
