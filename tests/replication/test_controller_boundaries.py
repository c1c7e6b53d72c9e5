"""Decisions of the controller at the boundaries of their limits, and of the metadata versions that they need."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from odradek.metadata.delegation_tokens import token_bytes
from odradek.metadata.metadata_version import (
    CONTROLLER_UNREGISTRATION,
    CORDONED_LOG_DIRS,
    DELEGATION_TOKENS,
    DIRECTORY_ASSIGNMENT,
    NO_EPOCH_BUMP_ON_ISR_SHRINK,
    SCRAM,
)
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from odradek.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from odradek.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from odradek.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.token_principals import TokenPrincipal
from odradek.protocol.messages.unregister_controller import UnregisterControllerRequest
from odradek.replication.controller import delegation_tokens, maintenance, producer_ids, topic_creation
from odradek.replication.controller.maintenance import BalanceLeadersRequest, FenceBrokerRequest, MoveLeadersRequest
from odradek.replication.controller.producer_ids import PRODUCER_IDS_PER_BLOCK, allocate_producer_ids
from odradek.replication.controller.state import Caller
from odradek.replication.controller.topic_names import MAX_NAME_LENGTH, topic_name_fault

from tests.replication.controller_transcript import Transcript, directory_id

ALICE = Caller("User:alice", 1_000_000)


def controller(level: int | None = None, *lines: str, **config: Any) -> Transcript:
    transcript = Transcript()
    if level is not None:
        transcript.run(
            f"> features metadata.version={level} eligible.leader.replicas.version=0 transaction.version=0\n"
        )
    if config:
        words = " ".join(f"{key.replace('_', '.')}={value}" for key, value in config.items())
        transcript.run(f"> config {words}\n")
    # Older versions have no directories in their records.
    without = " dirs=[]" if level is not None and level < DIRECTORY_ASSIGNMENT else ""
    transcript.run(f"> broker 0{without}\n> broker 2{without}\n" + "".join(f"> {line}\n" for line in lines))
    return transcript


def decided(transcript: Transcript, request: Any, version: int, caller: Caller = ALICE) -> Any:
    result = transcript.controller.handle(request, version, None, caller)
    if result.records:
        transcript.controller.replay(result.records, 1, 0)
    return result


# ---- metadata versions


@pytest.mark.parametrize(("level", "error"), [(SCRAM - 1, True), (SCRAM, False)])
def test_scram_users_need_their_metadata_version(level: int, error: bool) -> None:
    upsertion = ScramCredentialUpsertion("alice", 1, 4096, b"s", b"p")
    result = decided(controller(level), AlterUserScramCredentialsRequest([], [upsertion]), 0)
    assert bool(result.response.results[0].error_code) == error and len(result.records) == int(not error)


@pytest.mark.parametrize(
    ("level", "error"), [(DELEGATION_TOKENS - 1, ErrorCode.UNSUPPORTED_VERSION), (DELEGATION_TOKENS, ErrorCode.NONE)]
)
def test_delegation_tokens_need_their_metadata_version(level: int, error: ErrorCode) -> None:
    transcript = controller(level, delegation_token_secret_key="secret")
    assert decided(transcript, CreateDelegationTokenRequest(), 3).response.error_code == error


@pytest.mark.parametrize(
    ("level", "error"),
    [
        (CONTROLLER_UNREGISTRATION - 1, ErrorCode.UNSUPPORTED_VERSION),
        (CONTROLLER_UNREGISTRATION, ErrorCode.CONTROLLER_ID_NOT_REGISTERED),
    ],
)
def test_unregistration_of_controllers_needs_its_metadata_version(level: int, error: ErrorCode) -> None:
    assert decided(controller(level), UnregisterControllerRequest(7), 0).response.error_code == error


@pytest.mark.parametrize(("level", "is_recorded"), [(CORDONED_LOG_DIRS - 1, False), (CORDONED_LOG_DIRS, True)])
def test_cordoned_directories_need_their_metadata_version(level: int, is_recorded: bool) -> None:
    transcript = controller(level)
    broker = transcript.controller.image.broker(0)
    assert broker is not None
    heartbeat = BrokerHeartbeatRequest(0, broker.epoch, 100, cordoned_log_dirs=[directory_id("d0")])
    assert bool(decided(transcript, heartbeat, 2).records) == is_recorded
    assert not decided(transcript, heartbeat, 2).records, "nothing has changed"


@pytest.mark.parametrize(
    ("level", "is_new_epoch"), [(NO_EPOCH_BUMP_ON_ISR_SHRINK - 1, True), (NO_EPOCH_BUMP_ON_ISR_SHRINK, False)]
)
def test_isr_that_shrinks_begins_an_epoch_in_old_metadata_versions(level: int, is_new_epoch: bool) -> None:
    transcript = controller(level)
    assigned = [CreatableReplicaAssignment(0, [0, 2])]
    decided(transcript, CreateTopicsRequest([CreatableTopic("a", -1, -1, assigned)], 1000), 7)
    before = transcript.controller.image.partition("a", 0)
    decided(transcript, FenceBrokerRequest(broker_id=2, broker_epoch=epoch_of(transcript, 2)), 0)
    after = transcript.controller.image.partition("a", 0)
    assert before is not None and after is not None
    assert (before.isr, after.isr, after.leader) == ((0, 2), (0,), 0)
    assert after.leader_epoch - before.leader_epoch == int(is_new_epoch)


@pytest.mark.parametrize(("level", "are_checked"), [(DIRECTORY_ASSIGNMENT - 1, False), (DIRECTORY_ASSIGNMENT, True)])
@pytest.mark.parametrize(
    ("directories", "is_valid"),
    [
        ([], False),
        ([(99).to_bytes(16, "big")], False),
        ([(100).to_bytes(16, "big")], True),
        ([directory_id("x"), directory_id("x")], False),
        ([directory_id("d2")], False),
        ([directory_id("x"), directory_id("y")], True),
    ],
)
def test_directories_of_a_broker_are_checked_since_their_metadata_version(
    directories: list[bytes], is_valid: bool, level: int, are_checked: bool
) -> None:
    transcript = controller(level)
    requests: list[Any] = []
    original = transcript.ask
    transcript.ask = lambda request, version: requests.append(request) or original(request, version)  # type: ignore[func-returns-value, method-assign]
    transcript.run(f"> broker 5 fenced=True{' dirs=[]' if level < DIRECTORY_ASSIGNMENT else ''}\n")
    request = dataclasses.replace(requests[0], broker_id=6, log_dirs=directories)
    error = decided(transcript, request, 4).response.error_code
    assert (error == ErrorCode.NONE) == (is_valid or not are_checked)


# ---- limits


@pytest.mark.parametrize("length", [1, MAX_NAME_LENGTH, MAX_NAME_LENGTH + 1])
def test_name_of_a_topic_has_a_limit(length: int) -> None:
    assert MAX_NAME_LENGTH == 249
    assert (topic_name_fault("x" * length) is None) == (length <= 249)


@pytest.mark.parametrize(
    ("counts", "fits"), [([4], True), ([5], False), ([2, 2], True), ([3, 2], False), ([1, 1, 1, 1], True)]
)
@pytest.mark.parametrize("is_assigned", [True, False])
def test_partitions_of_one_request_have_a_limit(
    counts: list[int], fits: bool, is_assigned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_creation, "MAX_PARTITIONS_PER_REQUEST", 4)
    made = []
    for number, count in enumerate(counts):
        assignments = [CreatableReplicaAssignment(index, [0]) for index in range(count)] if is_assigned else []
        size = -1 if is_assigned else count
        made.append(CreatableTopic(f"t{number}", size, -1 if is_assigned else 1, assignments))
    result = decided(controller(), CreateTopicsRequest(made, 1000), 7)
    errors = {one.error_code for one in result.response.topics}
    assert errors == ({ErrorCode.NONE} if fits else {ErrorCode.POLICY_VIOLATION})


@pytest.mark.parametrize(("first", "is_left"), [(0, True), ((1 << 63) - 1001, True), ((1 << 63) - 1000, False)])
def test_ids_of_producers_end(first: int, is_left: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    assert PRODUCER_IDS_PER_BLOCK == 1000
    checked: list[tuple[int, int]] = []
    monkeypatch.setattr(producer_ids, "check_epoch", lambda state, broker, epoch: checked.append((broker, epoch)))
    image = type("Image", (), {"next_producer_id": first, "config": staticmethod(lambda kind, name: {})})
    state: Any = type("State", (), {"image": image})
    request: Any = type("Request", (), {"broker_id": 0, "broker_epoch": 5})
    if is_left:
        result = allocate_producer_ids(state, request, 0)
        response: Any = result.response
        assert (response.producer_id_start, response.producer_id_len) == (first, 1000)
        record: Any = result.records[0]
        assert (record.broker_id, record.broker_epoch, record.next_producer_id) == (0, 5, first + 1000)
    else:
        with pytest.raises(Exception, match="Exhausted all producerIds"):
            allocate_producer_ids(state, request, 0)
    assert checked == [(0, 5)]


@pytest.mark.parametrize(("count", "rounds"), [(0, 1), (1, 1), (2, 2), (3, 2), (4, 3)])
def test_broker_is_fenced_with_the_last_part_of_its_leaders(
    count: int, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "MAX_MOVES", 2)
    transcript = controller(None, *[line_of(count)] if count else [])
    broker = transcript.controller.image.broker(0)
    assert broker is not None
    elections = 0
    for number in range(1, rounds + 1):
        found = transcript.controller.image.broker(0)
        assert found is not None and not found.fenced
        result: Any = decided(transcript, FenceBrokerRequest(broker_id=0, broker_epoch=broker.epoch), 0)
        elections += result.response.elections
        assert not result.atomic, "a broker may be in more ISRs than one batch has records"
        fenced = transcript.controller.image.broker(0)
        assert fenced is not None and fenced.fenced == (number == rounds)
    assert elections == count
    result = decided(transcript, FenceBrokerRequest(broker_id=0, broker_epoch=broker.epoch), 0)
    assert result.records == [], "it is fenced"


def line_of(count: int) -> str:
    assigned = ",".join(f"{{'partition_index':{index},'broker_ids':[0,2]}}" for index in range(count))
    return f"CreateTopics topics=\"[{{'name':'a','num_partitions':-1,'replication_factor':-1,'assignments':[{assigned}]}}]\""


def test_leaders_move_in_parts_until_none_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "MAX_MOVES", 2)
    transcript = controller(None, line_of(5))
    broker = transcript.controller.image.broker(0)
    assert broker is not None
    request = MoveLeadersRequest(broker_id=0, broker_epoch=broker.epoch)
    transcript.run(
        f"> BrokerHeartbeat broker_id=0 broker_epoch={broker.epoch} current_metadata_offset=50 want_shut_down=True\n"
    )
    while (result := decided(transcript, request, 0)).records:
        assert len(result.records) <= 2 and not result.atomic
    topic = transcript.controller.image.topic("a")
    assert topic is not None and {one.leader for one in topic.partitions.values()} == {2}


@pytest.mark.parametrize(("limit", "elections"), [(2, 2), (3, 3), (9, 3)])
def test_balance_has_a_limit(limit: int, elections: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "MAX_ELECTIONS_PER_IMBALANCE", limit)
    transcript = controller(None, line_of(3), "fence 0", "restart 0")
    topic = transcript.controller.image.topic("a")
    assert topic is not None and {one.leader for one in topic.partitions.values()} == {2}
    for index in range(3):
        found = topic.partitions[index]
        transcript.run(
            f"> AlterPartition broker_id=2 broker_epoch={epoch_of(transcript, 2)} topics=\"[{{'topic_id':'id:a',"
            "'partitions':"
            f"[{{'partition_index':{index},'leader_epoch':{found.leader_epoch},'partition_epoch':{found.partition_epoch},"
            f"'new_isr_with_epochs':[{{'broker_id':0,'broker_epoch':{epoch_of(transcript, 0)}}},"
            f"{{'broker_id':2,'broker_epoch':{epoch_of(transcript, 2)}}}]}}]}}]\"\n"
        )
    result: Any = decided(transcript, BalanceLeadersRequest(), 0)
    assert (len(result.records), result.response.elections) == (elections, elections)


def epoch_of(transcript: Transcript, broker_id: int) -> int:
    broker = transcript.controller.image.broker(broker_id)
    assert broker is not None
    return broker.epoch


@pytest.mark.parametrize(
    ("renewers", "of_one", "of_owner", "made"),
    [(0, 0, 0, 2), (0, -1, 0, 0), (0, 0, -1, 1), (3, 0, 0, 2), (3, -1, 9, 0)],
)
def test_tokens_have_a_limit_each_and_for_their_owner(
    renewers: int, of_one: int, of_owner: int, made: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["User:alice", "User:alice", *(f"User:r{number}" for number in range(renewers))]
    size = token_bytes(names)
    monkeypatch.setattr(delegation_tokens, "MAX_TOKEN_BYTES", size + of_one)
    monkeypatch.setattr(delegation_tokens, "MAX_TOKEN_BYTES_PER_OWNER", 2 * size + of_owner)
    transcript = controller(None, delegation_token_secret_key="secret")
    request = CreateDelegationTokenRequest(
        renewers=[TokenPrincipal("User", f"r{number}") for number in range(renewers)]
    )
    errors = [decided(transcript, request, 3).response.error_code for _ in range(3)]
    assert errors == [ErrorCode.NONE] * made + [ErrorCode.POLICY_VIOLATION] * (3 - made)
