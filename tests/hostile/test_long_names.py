"""Names of 32,767 bytes and empty quorum requests: the node answers each, on every kind of listener."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.add_raft_voter import AddRaftVoterRequest
from odradek.protocol.messages.alter_configs import AlterConfigsRequest
from odradek.protocol.messages.alter_configs import LegacyAlterableConfig as FullConfig
from odradek.protocol.messages.alter_configs import LegacyAlterConfigsResource as FullResource
from odradek.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.begin_quorum_epoch import (
    BeginEpochPartitionRequest,
    BeginEpochTopicRequest,
    BeginQuorumEpochRequest,
)
from odradek.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from odradek.protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersRequestTopic
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersTopic
from odradek.protocol.messages.end_quorum_epoch import (
    EndEpochPartitionRequest,
    EndEpochTopicRequest,
    EndQuorumEpochRequest,
)
from odradek.protocol.messages.fetch_snapshot import (
    FetchSnapshotId,
    FetchSnapshotRequest,
    PartitionSnapshotRequest,
    TopicSnapshotRequest,
)
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.protocol.messages.quorum_endpoints import LeaderEndpoint
from odradek.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from odradek.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from odradek.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from odradek.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from odradek.protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from odradek.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from odradek.protocol.messages.vote import VotePartitionRequest, VoteRequest, VoteTopicRequest
from odradek.protocol.primitives import CUT_SIGN, MAX_ERROR_TEXT_BYTES
from odradek.protocol.schema import ArrayOf, Message, Scalar

from tests.hostile.attack_target import AttackTarget
from tests.hostile.fields_checks import ask, check_serves, look_at

pytestmark = pytest.mark.usefixtures("processes")

LONG = "y" * 32_767
METADATA_TOPIC = "__cluster_metadata"
LAST_EPOCH = (1 << 31) - 1
VOTER_REQUESTS = (
    AddRaftVoterRequest(cluster_id=LONG, voter_id=5),
    RemoveRaftVoterRequest(cluster_id=LONG, voter_id=5),
)
#: Requests and their versions. Each response repeats the name in its error text.
NAMED: tuple[tuple[Message, int], ...] = (
    (AlterConfigsRequest([FullResource(2, LONG, [FullConfig("retention.ms", "1")])]), 2),
    (AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(LONG, [ReassignablePartition(0, [1])])]), 0),
    (ConsumerGroupDescribeRequest(group_ids=[LONG]), 1),
    (CreateTopicsRequest([CreatableTopic(LONG, 1, 1)]), 7),
    (DeleteShareGroupOffsetsRequest("g", [DeleteShareGroupOffsetsRequestTopic(LONG)]), 0),
    (DescribeProducersRequest([DescribeProducersRequestTopic(LONG, [0])]), 0),
    (ElectLeadersRequest(topic_partitions=[ElectLeadersTopic(LONG, [0])]), 2),
    (IncrementalAlterConfigsRequest([AlterConfigsResource(2, "t", [AlterableConfig(LONG, 0, "1")])]), 1),
    (IncrementalAlterConfigsRequest([AlterConfigsResource(2, LONG, [AlterableConfig("retention.ms", 0, "1")])]), 1),
    (ShareGroupDescribeRequest(group_ids=[LONG]), 1),
    (StreamsGroupDescribeRequest(group_ids=[LONG]), 1),
    (StreamsGroupHeartbeatRequest(group_id=LONG, member_id=LONG, member_epoch=1), 1),
    (StreamsGroupTopologyDescriptionUpdateRequest(group_id=LONG, member_id=LONG), 0),
    (UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey(feature=LONG[: len(LONG) // 2], max_version_level=5)]), 0),
    (UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey(feature=LONG, max_version_level=5)]), 1),
)


@pytest.fixture(scope="module", params=[1, 3], ids=["alone", "of three"])
def room(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttackTarget]:
    with AttackTarget(tmp_path_factory.mktemp("long-names"), request.param) as made:
        look_at(made)
        yield made
        assert not check_serves(made)
        assert not made.faults()


def said(message: Any) -> tuple[set[int], list[str]]:
    """Returns the error codes and the error texts of a response, at any depth."""
    codes: set[int] = set()
    texts: list[str] = []
    for field in type(message).SCHEMA.fields:
        value = getattr(message, field.name)
        if field.name == "error_code":
            codes.add(value)
        elif isinstance(field.type, Scalar):
            texts += [value] if field.type.is_error_text and value else []
        elif isinstance(value, Message):
            codes, texts = codes | said(value)[0], texts + said(value)[1]
        elif isinstance(field.type, ArrayOf) and not isinstance(field.type.element, Scalar | ArrayOf):
            for item in value or ():
                codes, texts = codes | said(item)[0], texts + said(item)[1]
    return codes, texts


@pytest.mark.parametrize("request_of_voter", VOTER_REQUESTS, ids=lambda request: type(request).__name__)
def test_other_cluster_id_in_a_change_of_voters_is_refused_with_a_cut_text(
    room: AttackTarget, request_of_voter: Message
) -> None:
    for address in room.targets:
        for _ in range(2):
            response = ask(address, request_of_voter, 0)
            assert response.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
            assert response.error_message.endswith(CUT_SIGN) and len(response.error_message) == MAX_ERROR_TEXT_BYTES


@pytest.mark.parametrize(("request_", "version"), NAMED, ids=lambda value: getattr(type(value), "__name__", "")[:-7])
def test_error_text_about_a_longest_name_is_cut(room: AttackTarget, request_: Message, version: int) -> None:
    for address in room.addresses:
        codes, texts = said(ask(address, request_, version))
        assert codes - {0}, "it was refused"
        assert all(len(text.encode()) <= MAX_ERROR_TEXT_BYTES for text in texts)


def test_quorum_request_with_an_endpoint_and_no_topics_is_invalid(room: AttackTarget) -> None:
    began = BeginQuorumEpochRequest(leader_endpoints=[LeaderEndpoint("CONTROLLER", "127.0.0.1", 1)])
    ended = EndQuorumEpochRequest(leader_endpoints=[LeaderEndpoint("CONTROLLER", "127.0.0.1", 1)])
    began.topics, ended.topics = [], []
    emptied = (
        BeginQuorumEpochRequest(
            leader_endpoints=began.leader_endpoints, topics=[BeginEpochTopicRequest(METADATA_TOPIC, [])]
        ),
        EndQuorumEpochRequest(
            leader_endpoints=ended.leader_endpoints, topics=[EndEpochTopicRequest(METADATA_TOPIC, [])]
        ),
    )
    for address in room.controllers:
        for request in (began, ended, *emptied):
            assert ask(address, request, 1).error_code == ErrorCode.INVALID_REQUEST


def test_last_epoch_is_not_believed(room: AttackTarget) -> None:
    """A replica that adopted that epoch could never start an election again."""
    world = look_at(room)
    asked = VotePartitionRequest(replica_epoch=LAST_EPOCH, replica_id=999, last_offset_epoch=1, last_offset=1)
    reported = BeginEpochPartitionRequest(leader_id=999, leader_epoch=LAST_EPOCH)
    over = EndEpochPartitionRequest(leader_id=999, leader_epoch=LAST_EPOCH)
    requests = (
        VoteRequest(voter_id=-1, topics=[VoteTopicRequest(METADATA_TOPIC, [asked])]),
        BeginQuorumEpochRequest(voter_id=-1, topics=[BeginEpochTopicRequest(METADATA_TOPIC, [reported])]),
        EndQuorumEpochRequest(topics=[EndEpochTopicRequest(METADATA_TOPIC, [over])]),
    )
    for address in room.controllers:
        for request in requests:
            assert ask(address, request, 1).error_code == ErrorCode.INVALID_REQUEST
    assert look_at(room).epoch == world.epoch


def test_snapshot_is_answered_in_parts_whatever_is_asked(room: AttackTarget) -> None:
    for size in (-(1 << 31), -1, 0, (1 << 31) - 1):
        part = PartitionSnapshotRequest(
            current_leader_epoch=look_at(room).epoch,
            snapshot_id=FetchSnapshotId(end_offset=-1, epoch=-1),
            position=-1,
        )
        topic = TopicSnapshotRequest(name=METADATA_TOPIC, partitions=[part])
        for address in room.controllers:
            response = ask(address, FetchSnapshotRequest(max_bytes=size, topics=[topic]), 1)
            assert response.topics[0].partitions[0].error_code != ErrorCode.NONE
