"""Requests that fail as a whole get the schema's response from coordinators and the controller, but for known departures."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from odradek.coordinator import share_state_responses
from odradek.coordinator import transactions_state as transactions
from odradek.coordinator.groups import shard as groups
from odradek.protocol.apis import APIS
from odradek.protocol.codec import encode
from odradek.protocol.error_responses import error_response_to
from odradek.protocol.errors import ErrorCode
from odradek.protocol.schema import Message
from odradek.replication.controller import error_responses as controller
from odradek.replication.controller.result import RequestError

from tests.coordinator.harness.kinds import KINDS
from tests.protocol.random_messages import random_message

GROUPS = (
    "OffsetCommit", "TxnOffsetCommit", "OffsetDelete", "DescribeGroups", "ListGroups", "DeleteGroups", "JoinGroup",
    "SyncGroup", "Heartbeat", "LeaveGroup", "ConsumerGroupHeartbeat", "ConsumerGroupDescribe", "ShareGroupHeartbeat",
    "ShareGroupDescribe", "AlterShareGroupOffsets", "DeleteShareGroupOffsets", "StreamsGroupHeartbeat",
    "StreamsGroupDescribe", "StreamsGroupTopologyDescriptionUpdate",
)  # fmt: skip
TRANSACTIONS = (
    "InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "DescribeTransactions", "ListTransactions",
)  # fmt: skip
CONTROLLER = (
    "CreateTopics", "DeleteTopics", "CreatePartitions", "CreateAcls", "DeleteAcls", "AlterConfigs",
    "IncrementalAlterConfigs", "ElectLeaders", "AlterPartitionReassignments", "AlterClientQuotas",
    "AlterUserScramCredentials", "CreateDelegationToken", "UpdateFeatures", "AlterPartition", "BrokerHeartbeat",
    "BrokerRegistration", "UnregisterBroker", "AllocateProducerIds", "AssignReplicasToDirs",
)  # fmt: skip
#: Errors, and the APIs whose response to it departs from the schema's, with the first version without the departure.
DEPARTURES: dict[ErrorCode, dict[str, int]] = {
    # Transactions fail one by one; while the coordinator loads, heartbeats succeed; the member id is repeated.
    ErrorCode.NOT_COORDINATOR: {"AddPartitionsToTxn": 99},
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: {"Heartbeat": 99, "AddPartitionsToTxn": 99},
    ErrorCode.INVALID_GROUP_ID: {"JoinGroup": 99, "AddPartitionsToTxn": 99},
    # Clients of old versions know INVALID_PRODUCER_EPOCH only.
    ErrorCode.PRODUCER_FENCED: {
        "InitProducerId": 4, "AddPartitionsToTxn": 99, "AddOffsetsToTxn": 2, "EndTxn": 2,
    },
    # No words beside the code; the error of each item beside that of the request; one result for each user.
    ErrorCode.NOT_CONTROLLER: {
        "DeleteTopics": 99, "ElectLeaders": 99, "AlterPartitionReassignments": 99, "AlterUserScramCredentials": 99,
    },
}  # fmt: skip
Respond = Callable[[Message, int, ErrorCode], Any]


def _of_controller(request: Message, version: int, error: ErrorCode) -> Message:
    return controller.error_response(request, version, RequestError(error, "words"))


def _of_groups(request: Message, version: int, error: ErrorCode) -> Message:
    response: Any = groups.group_error_response(KINDS, request, version, error)
    return getattr(response, "response", response)  # of share groups: beside a request to the persister


def _requests(name: str) -> Iterator[tuple[int, Message]]:
    rng = random.Random(name)
    api = next(api for api in APIS.values() if api.name == name)
    for version in range(api.versions.low, api.versions.high + 1):
        for _ in range(4):
            yield version, random_message(rng, api.request, version)


def _departures(names: tuple[str, ...], respond: Respond, error: ErrorCode, words: str | None) -> dict[str, int]:
    """Returns the APIs with another response than the schema's, and the first version from which on it is the same."""
    found: dict[str, int] = {}
    for name in names:
        for version, request in _requests(name):
            response, of_schema = respond(request, version, error), error_response_to(request, version, error, words)
            if name == "JoinGroup" and version < 7:
                assert response.protocol_name is None  # the endpoint makes it the empty text of old versions
            elif encode(response, version) != encode(of_schema, version):
                latest = version == APIS[type(request).SCHEMA.key or 0].versions.high
                found[name] = 99 if latest else max(found.get(name, 0), version + 1)
    return found


@pytest.mark.parametrize("error", [error for error in DEPARTURES if error is not ErrorCode.NOT_CONTROLLER])
def test_coordinators_respond_as_the_schema_says(error: ErrorCode) -> None:
    found = _departures(GROUPS, _of_groups, error, None)
    found |= _departures(TRANSACTIONS, transactions.transaction_error_response, error, None)
    assert found == DEPARTURES[error]


def test_controller_responds_as_the_schema_says() -> None:
    error = ErrorCode.NOT_CONTROLLER
    assert _departures(CONTROLLER, _of_controller, error, "words") == DEPARTURES[error]


def test_error_of_a_share_state_has_kafkas_words() -> None:
    request = APIS[84].request()
    topic = type(request).SCHEMA.fields[1].type.element()  # type: ignore[union-attr]
    topic.partitions = [type(topic).SCHEMA.fields[1].type.element(partition=3)]  # type: ignore[call-arg, union-attr]
    request.topics = [topic]  # type: ignore[attr-defined]
    response: Any = share_state_responses.share_state_error_response(request, 0, ErrorCode.NOT_COORDINATOR)
    (partition,) = response.results[0].partitions
    assert (partition.partition, partition.error_code) == (3, ErrorCode.NOT_COORDINATOR)
    assert partition.error_message == "This is not the correct coordinator."
