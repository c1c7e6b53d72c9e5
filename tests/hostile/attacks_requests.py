"""Attacks by single requests: long error texts, giant lists, amplified responses, long malformed frames."""

from __future__ import annotations

import itertools
import random
import time

from odradek.protocol.apis import APIS
from odradek.protocol.messages.add_raft_voter import AddRaftVoterRequest
from odradek.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from odradek.protocol.varint import encode_varint

from tests.hostile import fields
from tests.hostile.attack_target import AttackTarget
from tests.hostile.attacker import framed, make_topic, request_frame_of, send_each
from tests.hostile.cost_requests import World, request_of, shapes

METADATA, OFFSET_FETCH = APIS[3], APIS[9]
_BROKER = 4
#: At full scale.
FIELD_EDGES_S = 60
MOST_SHAPES = 400
#: Some of these requests wait for an event that does not happen.
ITEMS_PATIENCE_S = 5
_numbers = itertools.count(1)


def giant_cluster_id(room: AttackTarget, rng: random.Random) -> None:
    """Sends AddRaftVoter and RemoveRaftVoter whose error text would repeat 32,767 bytes of cluster id."""
    voter = rng.randrange(5, 1 << 30)
    for version in (0, 1):
        add = AddRaftVoterRequest("y" * 32767, 1000, voter, bytes(15) + b"\x05", [])
        remove = RemoveRaftVoterRequest("y" * 32767, voter, bytes(15) + b"\x05")
        frames = [request_frame_of(add, version)] + ([request_frame_of(remove, 0)] if version == 0 else [])
        for target in room.targets:
            send_each(target, frames, patience_s=20)


def metadata_of_unknown_names(room: AttackTarget, rng: random.Random) -> None:
    """Sends Metadata with 40,000 topics that do not exist, without auto-creation."""
    topics = [MetadataRequestTopic(name=f"unknown-{number}") for number in range(room.scaled(40_000))]
    send_each(room.addresses[0], [request_frame_of(MetadataRequest(topics, allow_auto_topic_creation=False), 9)])


def metadata_of_one_million_names(room: AttackTarget, rng: random.Random) -> None:
    """Sends Metadata with the largest number of names in a request."""
    count = room.scaled(999_999)
    names = b"".join(b"\x07" + f"{number:06}".encode() + b"\x00" for number in range(count))
    body = encode_varint(count + 1) + names + b"\x00\x00\x00\x00"
    (response,) = send_each(room.addresses[0], [framed(METADATA, 9, body)])
    assert response is not None, "the broker did not answer"


def create_partitions_validate_only(room: AttackTarget, rng: random.Random) -> None:
    """Sends CreatePartitions of 50 bytes with validate_only for 1,000,000 partitions, and for more."""
    topic = f"few-{next(_numbers)}"
    make_topic(room.addresses, topic)
    for count in (room.scaled(1_000_000), 2**31 - 1):
        wanted = CreatePartitionsTopic(topic, count, None)
        request = CreatePartitionsRequest([wanted], timeout_ms=30_000, validate_only=True)
        send_each(room.addresses[0], [request_frame_of(request, 3)])


def describe_configs_repeated(room: AttackTarget, rng: random.Random) -> None:
    """Sends DescribeConfigs that names one broker 1,000 times, with documentation and synonyms."""
    resources = [DescribeConfigsResource(_BROKER, "1", None)] * room.scaled(1000)
    request = DescribeConfigsRequest(resources, include_synonyms=True, include_documentation=True)
    send_each(room.addresses[0], [request_frame_of(request, 4)])


def offset_commit_repeated(room: AttackTarget, rng: random.Random) -> None:
    """Sends OffsetCommit with 200,000 offsets of one partition."""
    topic = f"committed-{next(_numbers)}"
    make_topic(room.addresses, topic)
    partitions = [OffsetCommitRequestPartition(0, number, -1, "") for number in range(room.scaled(200_000))]
    request = OffsetCommitRequest("repeating", -1, "", topics=[OffsetCommitRequestTopic(topic, partitions=partitions)])
    send_each(room.addresses[0], [request_frame_of(request, 8)])


def fetch_session_of_many(room: AttackTarget, rng: random.Random) -> None:
    """Opens a fetch session that names 200,000 partitions."""
    topic = f"fetched-{next(_numbers)}"
    make_topic(room.addresses, topic)
    partitions = [FetchPartition(number, partition_max_bytes=1) for number in range(room.scaled(200_000))]
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, session_epoch=0, topics=[FetchTopic(topic, partitions=partitions)]
    )
    send_each(room.addresses[0], [request_frame_of(request, 11)])


def malformed_metadata(room: AttackTarget, rng: random.Random) -> None:
    """Sends Metadata with 1,000,000 names and without its last bytes: the error appears only after a full parse."""
    count = room.scaled(999_999)
    body = encode_varint(count + 1) + b"\x02a\x00" * (count - 1) + b"\x09a"
    send_each(room.addresses[0], [framed(METADATA, 9, body)])


def offset_fetch_of_many_groups(room: AttackTarget, rng: random.Random) -> None:
    """Sends OffsetFetch for 999,999 groups, whole and truncated."""
    count = room.scaled(999_999)
    body = encode_varint(count + 1) + b"\x02g\x00\x00" * count + b"\x00\x00"
    frames = [framed(OFFSET_FETCH, 8, body[:-5]), framed(OFFSET_FETCH, 8, body)]
    send_each(room.addresses[0], frames)


#: The step of the cases that `use_every_api` sends: each API and version keeps some.
EVERY_API_STEP = 8


def field_edges(room: AttackTarget, rng: random.Random) -> None:
    """Sends requests of every API with one field at an edge, to the listeners of brokers and of controllers."""
    until = time.monotonic() + FIELD_EDGES_S * room.scale
    result = fields.attack(room, rng.getrandbits(32), edges_of_each=1, pairs=0, until=until)
    assert not result.faults, "\n".join(result.faults)


def many_items_of_every_api(room: AttackTarget, rng: random.Random) -> None:
    """Sends requests of every API with up to 20,000 items in one of their arrays, all alike or all distinct."""
    world = fields.look_at(room)
    known = World(world.topic, world.topic_id, "many-items", min(world.node_ids))
    every = frozenset(api.name.lower() for api in APIS.values())
    found = list(shapes("broker", every))
    for shape in rng.sample(found, min(len(found), room.scaled(MOST_SHAPES))):
        frame = request_frame_of(request_of(shape, known, rng.randrange(1, 20_000)), shape.version)
        send_each(room.addresses[0], [frame], patience_s=ITEMS_PATIENCE_S)


def use_every_api(room: AttackTarget) -> None:
    """Makes the brokers load the code of every API: it stays in memory, and is not left behind by an attack."""
    fields.attack(room, 0, edges_of_each=1, pairs=0, step=EVERY_API_STEP)


#: The names of attacks that use nearly every API.
OF_EVERY_API = ("field_edges", "many_items_of_every_api")
ATTACKS = (
    field_edges,
    many_items_of_every_api,
    giant_cluster_id,
    metadata_of_unknown_names,
    metadata_of_one_million_names,
    create_partitions_validate_only,
    describe_configs_repeated,
    offset_commit_repeated,
    fetch_session_of_many,
    malformed_metadata,
    offset_fetch_of_many_groups,
)
