"""Lists of very many groups, whose entries are kept encoded: they show each group as it is."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from odradek.coordinator.groups.kept_listing import KeptListing
from odradek.protocol.codec import encode, stepwise_encoder
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from odradek.server.endpoints.list_groups import encoded
from odradek.server.runtime.sliced_work import run_to_completion

from compat_tests.odradek_process import OdradekProcess
from compat_tests.recipes import eventually
from compat_tests.wire import WireClient

VERSIONS = range(6)
#: More than are encoded at once.
GROUPS = [f"group-{number:03}" for number in range(600)]
JOIN, LEAVE, COMMIT, DELETE, FIND, CREATE, SHARE = 5, 4, 8, 2, 3, 7, 1


@pytest.mark.parametrize("version", VERSIONS)
def test_list_encoded_in_runs_has_the_bytes_of_the_plain_response(version: int) -> None:
    groups = []
    for number in range(300):
        group: Any = SimpleNamespace(group_id="é" * number, kind="share" if number % 3 else "classic")
        state: Any = SimpleNamespace(value="Stable" if number % 2 else "Empty")
        groups.append(KeptListing(group, state, "consumer" if number % 5 else ""))
    wanted = encode(ListGroupsResponse(groups=[*groups]), version)
    for _ in range(2):  # the second time from what was kept
        pieces: list[bytes] = []
        response: Any = ListGroupsResponse(groups=run_to_completion(encoded(groups, version)))  # type: ignore[arg-type]
        run_to_completion(stepwise_encoder(ListGroupsResponse, version)(response, pieces.append))
        assert b"".join(pieces) == wanted


@pytest.fixture
def client(tmp_path: Any) -> Iterator[WireClient]:
    properties = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "3"}
    with OdradekProcess(tmp_path, properties) as broker, WireClient(broker.bootstrap) as client:
        assert (
            client.call(CreateTopicsRequest([CreatableTopic("read", 1, 1)], 30_000), CREATE).topics[0].error_code == 0
        )
        client.call(FindCoordinatorRequest(GROUPS[0], 0), FIND)
        eventually(lambda: not commit(client, GROUPS[0]), what="the coordinator is loaded")
        assert not any(commit(client, name) for name in GROUPS)
        yield client


def commit(client: WireClient, group_id: str) -> int:
    partition = OffsetCommitRequestPartition(0, committed_offset=0, committed_metadata="")
    request = OffsetCommitRequest(group_id, -1, "", topics=[OffsetCommitRequestTopic("read", partitions=[partition])])
    error: int = client.call(request, COMMIT).topics[0].partitions[0].error_code
    return error


def join(client: WireClient, group_id: str, member_id: str = "") -> Any:
    protocols = [JoinGroupRequestProtocol("range", b"")]
    return client.call(JoinGroupRequest(group_id, 60_000, 60_000, member_id, None, "consumer", protocols), JOIN)


def listed(
    client: WireClient, version: int = 5, states: list[str] | None = None, types: list[str] | None = None
) -> Any:
    response = client.call(ListGroupsRequest(states or [], types or []), version)
    assert response.error_code == 0
    return {one.group_id: (one.protocol_type, one.group_state, one.group_type) for one in response.groups}


@pytest.mark.usefixtures("processes")
def test_changed_group_is_listed_as_it_is_now(client: WireClient) -> None:
    simple = ("", "Empty", "classic")
    for version in (5, 4, 0, 5):
        known = (simple[0], simple[1] if version >= 4 else "", simple[2] if version >= 5 else "")
        assert listed(client, version) == dict.fromkeys(GROUPS, known)
    first = GROUPS[7]
    member = join(client, first, join(client, first).member_id).member_id
    assert listed(client)[first] == ("consumer", "CompletingRebalance", "classic")
    assert set(listed(client, states=["empty"])) == {*GROUPS} - {first}
    assert set(listed(client, states=["completingrebalance"], types=["Classic"])) == {first}
    client.call(LeaveGroupRequest(first, members=[MemberIdentity(member)]), LEAVE)
    assert listed(client)[first] == ("consumer", "Empty", "classic")
    assert listed(client, types=["share"]) == {}


@pytest.mark.usefixtures("processes")
def test_deleted_group_is_not_listed_and_its_id_may_come_back_as_another_kind(client: WireClient) -> None:
    assert len(listed(client)) == len(GROUPS)
    gone = GROUPS[3]
    assert client.call(DeleteGroupsRequest([gone]), DELETE).results[0].error_code == 0
    assert set(listed(client)) == {*GROUPS} - {gone}
    beat = ShareGroupHeartbeatRequest(
        group_id=gone, member_id="m" * 22, member_epoch=0, subscribed_topic_names=["read"]
    )
    assert client.call(beat, SHARE).error_code == 0
    assert listed(client)[gone] == ("share", "Stable", "share")
    assert set(listed(client, types=["share"])) == {gone}
    assert len(listed(client, types=["classic"])) == len(GROUPS) - 1
