"""The group APIs on the wire in all versions: names or ids, one group or several, old and new errors."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import odradek
import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.leave_group import LeaveGroupRequest
from odradek.protocol.messages.list_groups import ListGroupsRequest
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

from compat_tests.odradek_process import OdradekProcess
from compat_tests.wire import ConnectionClosed, WireClient

pytestmark = pytest.mark.usefixtures("sockets")

TOPIC = "t"
DEADLINE_S = 60
NO_SUCH_ID = bytes(range(16))
#: More groups than there are partitions, so that some belong to different shards.
GROUPS = [f"group-{number}" for number in range(12)]


@pytest.fixture(scope="module")
def broker() -> Iterator[odradek.Broker]:
    with odradek.Broker() as running:
        yield running


@pytest.fixture(scope="module")
def topic_id(broker: odradek.Broker) -> bytes:
    with WireClient(broker.bootstrap_servers) as client:
        find(client)
        request = CreateTopicsRequest(topics=[CreatableTopic(name=TOPIC, num_partitions=2, replication_factor=1)])
        made: bytes = client.call(request, 7).topics[0].topic_id
    return made


@pytest.fixture
def client(broker: odradek.Broker, topic_id: bytes) -> Iterator[WireClient]:
    with WireClient(broker.bootstrap_servers) as connected:
        yield connected


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < end, "it did not come about in time"
        time.sleep(0.001)


def find(client: WireClient, *keys: str) -> Any:
    return client.call(FindCoordinatorRequest(coordinator_keys=list(keys or GROUPS)), 6)


def commit(group: str, offset: int, *, partition: int = 0, name: str = TOPIC, **more: Any) -> OffsetCommitRequest:
    reported = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset, committed_metadata="m")
    topic = OffsetCommitRequestTopic(name=name, topic_id=more.pop("topic_id", bytes(16)), partitions=[reported])
    return OffsetCommitRequest(group_id=group, topics=[topic], **more)


def error_of(response: Any) -> ErrorCode:
    return ErrorCode(response.topics[0].partitions[0].error_code)


def test_the_first_to_ask_for_a_coordinator_is_answered_when_it_is_there() -> None:
    with odradek.Broker() as fresh, WireClient(fresh.bootstrap_servers) as client:
        response = client.call(FindCoordinatorRequest(key="g"), 3)
        assert (response.error_code, f"{response.host}:{response.port}") == (ErrorCode.NONE, fresh.bootstrap_servers)
        assert error_of(client.call(commit("g", 1, name="absent"), 9)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
        assert client.call(heartbeat, 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID, "its shard is there already"


def test_several_coordinators_are_found_at_once(client: WireClient) -> None:
    coordinators = find(client).coordinators
    assert [found.key for found in coordinators] == GROUPS
    assert {found.error_code for found in coordinators} == {ErrorCode.NONE}


@pytest.mark.parametrize("key_type", [2, 9])
def test_coordinators_of_other_kinds_are_not_promised(client: WireClient, key_type: int) -> None:
    old = client.call(FindCoordinatorRequest(key="k", key_type=key_type), 3)
    (new,) = client.call(FindCoordinatorRequest(coordinator_keys=["k"], key_type=key_type), 4).coordinators
    assert (old.error_code, new.error_code) == (ErrorCode.INVALID_REQUEST,) * 2
    assert (old.node_id, new.node_id) == (-1, -1)


@pytest.mark.parametrize("version", range(2, 11))
def test_offsets_are_committed_and_fetched_in_every_version(client: WireClient, topic_id: bytes, version: int) -> None:
    group = f"versions-{version}"
    request = commit(group, version, topic_id=topic_id)
    (topic,) = client.call(request, version).topics
    assert (topic.name, topic.topic_id) == ((TOPIC, bytes(16)) if version < 10 else ("", topic_id))
    assert topic.partitions[0].error_code == ErrorCode.NONE
    for other in range(1, 11):
        assert fetched(client, group, other, topic_id) == (version, "m", ErrorCode.NONE)


def fetched(client: WireClient, group: str, version: int, topic_id: bytes, partition: int = 0) -> tuple[int, str, int]:
    """Returns offset, metadata and error from an OffsetFetch of `version`."""
    if version < 8:
        one = OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[partition])
        response = client.call(OffsetFetchRequest(group_id=group, topics=[one]), version)
        assert response.error_code == ErrorCode.NONE
        (topic,) = response.topics
    else:
        wanted = OffsetFetchRequestTopics(name=TOPIC, topic_id=topic_id, partition_indexes=[partition])
        asked = OffsetFetchRequestGroup(group_id=group, topics=[wanted])
        (found,) = client.call(OffsetFetchRequest(groups=[asked], require_stable=True), version).groups
        assert (found.group_id, found.error_code) == (group, ErrorCode.NONE)
        (topic,) = found.topics
    (reported,) = topic.partitions
    return reported.committed_offset, reported.metadata, reported.error_code


def test_missing_partitions_fail_and_other_offsets_are_committed(client: WireClient, topic_id: bytes) -> None:
    request = commit("partly", 5)
    request.topics[0].partitions += commit("partly", 6, partition=7).topics[0].partitions
    request.topics += commit("partly", 7, name="absent").topics
    response = client.call(request, 9)
    errors = {(t.name, p.partition_index): ErrorCode(p.error_code) for t in response.topics for p in t.partitions}
    assert errors == {
        (TOPIC, 0): ErrorCode.NONE,
        (TOPIC, 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("absent", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert fetched(client, "partly", 9, topic_id)[0] == 5
    assert error_of(client.call(commit("partly", 5, topic_id=NO_SUCH_ID), 10)) is ErrorCode.UNKNOWN_TOPIC_ID
    wanted = OffsetFetchRequestTopics(topic_id=NO_SUCH_ID, partition_indexes=[0])
    (group,) = client.call(
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="partly", topics=[wanted])]), 10
    ).groups
    assert error_of(group) is ErrorCode.UNKNOWN_TOPIC_ID


def test_all_offsets_of_groups_in_different_shards_are_fetched_at_once(client: WireClient, topic_id: bytes) -> None:
    for number, group in enumerate(GROUPS):
        assert error_of(client.call(commit(group, number), 9)) is ErrorCode.NONE
    asked = [OffsetFetchRequestGroup(group_id=group, topics=None) for group in GROUPS]
    for version in (8, 9, 10):
        groups = client.call(OffsetFetchRequest(groups=asked), version).groups
        assert [group.group_id for group in groups] == GROUPS
        assert [group.topics[0].partitions[0].committed_offset for group in groups] == list(range(len(GROUPS)))
        expected = ("", topic_id) if version == 10 else (TOPIC, bytes(16))
        assert (groups[0].topics[0].name, groups[0].topics[0].topic_id) == expected


def test_groups_of_all_shards_are_listed_described_and_deleted(client: WireClient) -> None:
    names = [f"listed-{number}" for number in range(12)]
    for name in names:
        client.call(commit(name, 1), 9)
    listed = {group.group_id: group for group in client.call(ListGroupsRequest(), 5).groups}
    assert listed.keys() >= set(names)
    assert (listed[names[0]].group_state, listed[names[0]].group_type) == ("Empty", "classic")
    described = client.call(DescribeGroupsRequest(groups=names, include_authorized_operations=True), 6).groups
    assert {group.group_id for group in described} == set(names)
    assert {group.authorized_operations for group in described} == {0b1101_0100_1000}
    deleted = client.call(DeleteGroupsRequest(groups_names=[*names, "absent", names[0]]), 2).results
    errors = {result.group_id: ErrorCode(result.error_code) for result in deleted}
    assert len(deleted) == len(names) + 1, "who is named twice is deleted once"
    assert errors == dict.fromkeys(names, ErrorCode.NONE) | {"absent": ErrorCode.GROUP_ID_NOT_FOUND}
    assert not {group.group_id for group in client.call(ListGroupsRequest(), 5).groups} & set(names)


def test_the_error_of_an_old_leave_group_is_that_of_its_member(client: WireClient) -> None:
    client.call(commit("left", 1), 9)
    request = LeaveGroupRequest(group_id="left", member_id="stranger")
    assert client.call(request, 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert client.call(request, 0).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_offsets_of_unsubscribed_topics_are_deleted(client: WireClient, topic_id: bytes) -> None:
    client.call(commit("swept", 1), 9)
    topics = [
        OffsetDeleteRequestTopic(name=name, partitions=[OffsetDeleteRequestPartition(partition_index=0)])
        for name in (TOPIC, "absent")
    ]
    response = client.call(OffsetDeleteRequest(group_id="swept", topics=topics), 0)
    errors = {topic.name: ErrorCode(topic.partitions[0].error_code) for topic in response.topics}
    assert errors == {TOPIC: ErrorCode.NONE, "absent": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert fetched(client, "swept", 9, topic_id)[0] == -1


def test_a_parked_join_does_not_keep_another_connection_waiting(broker: odradek.Broker, client: WireClient) -> None:
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"m")]
    join = JoinGroupRequest(
        group_id="parked",
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=protocols,
    )
    leader = client.call(join, 3)
    with WireClient(broker.bootstrap_servers) as other:
        number = other.send(join, 3)
        heartbeat = HeartbeatRequest(group_id="parked", generation_id=1, member_id=leader.member_id)
        until(lambda: bool(client.call(heartbeat, 4).error_code == ErrorCode.REBALANCE_IN_PROGRESS))
        join.member_id = leader.member_id
        assert client.call(join, 3).generation_id == 2
        assert other.receive(join, 3, number).generation_id == 2


@pytest.fixture
def process(processes: None, tmp_path: Path) -> Iterator[OdradekProcess]:
    """A broker that the test may kill."""
    with OdradekProcess(tmp_path, {"num.partitions": "8", "offsets.topic.num.partitions": "2"}) as started:
        assert isinstance(started, OdradekProcess)
        yield started


def test_every_acknowledged_commit_is_there_after_kill_9_mid_way(process: OdradekProcess) -> None:
    with WireClient(process.bootstrap) as client:
        find(client)
        topic = CreatableTopic(name=TOPIC, num_partitions=8, replication_factor=1)
        client.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
    acknowledged, sent = [-1] * 8, [0] * 8

    def keep_committing(partition: int) -> None:
        try:
            with WireClient(process.bootstrap) as client:
                while True:
                    sent[partition] += 1
                    response = client.call(commit(f"g{partition % 3}", sent[partition], partition=partition), 9)
                    if error_of(response) is ErrorCode.NONE:
                        acknowledged[partition] = sent[partition]
        except (ConnectionClosed, OSError):
            return

    for round_number in range(4):
        threads = [threading.Thread(target=keep_committing, args=(partition,)) for partition in range(8)]
        for thread in threads:
            thread.start()
        before = list(acknowledged)
        until(lambda: all(now > then + 20 for now, then in zip(acknowledged, before, strict=True)))  # noqa: B023
        process.kill()
        for thread in threads:
            thread.join()
        process.start()
        with WireClient(process.bootstrap) as client:
            for partition in range(8):
                found = _completed(client, f"g{partition % 3}", partition)
                assert acknowledged[partition] <= found <= sent[partition], f"round {round_number}"


def _completed(client: WireClient, group: str, partition: int) -> int:
    """Returns the committed offset, once the shard is loaded."""
    wanted = OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[partition])
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=[wanted])])
    responses: list[Any] = []

    def is_loaded() -> bool:
        responses[:] = client.call(request, 9).groups
        assert responses[0].error_code in (ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return bool(responses[0].error_code == ErrorCode.NONE)

    until(is_loaded)
    offset: int = responses[0].topics[0].partitions[0].committed_offset
    return offset
