"""Every API of the protocol has an authorization rule, as Kafka's KafkaApis and ControllerApis check it."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from typing import Any

import odradek
import pytest
from odradek.metadata.acls import Operation, ResourceType
from odradek.metadata.configs import ConfigResourceType as ConfigType
from odradek.metadata.image import MetadataImage
from odradek.protocol.apis import APIS, Api
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_configs import AlterConfigsRequest, LegacyAlterConfigsResource
from odradek.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from odradek.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.protocol.messages.incremental_alter_configs import AlterConfigsResource, IncrementalAlterConfigsRequest
from odradek.protocol.schema import Message
from odradek.replication.controller import maintenance
from odradek.replication.controller.controller import DECISIONS
from odradek.replication.controller.delegation_tokens import RemoveExpiredTokensRequest
from odradek.server.access.authorization.requirements import Checked, Deciding, Denial, check
from odradek.server.access.authorization.sessions import AuthorizationSession
from odradek.server.controller.active_controller import decision_requirements
from odradek.server.controller.controller_request import Asked
from odradek.server.endpoints import NodeEndpoints, endpoint_of
from odradek.server.runtime.late_imports import LateImports
from odradek.server.runtime.thread_pools import ThreadPools

from compat_tests.wire import WireClient
from tests.server.harness.data_path import error_codes

#: API -> what its client needs, as "operation on resource"; "+" adds a need, "/" an alternative, "each" is per item.
#: An API that needs nothing may give the reason.
RULES: dict[str, str] = {
    "AddOffsetsToTxn": "WRITE on TRANSACTIONAL_ID + READ on GROUP",
    "AddPartitionsToTxn": "WRITE on TRANSACTIONAL_ID + WRITE on each TOPIC; from version 4 CLUSTER_ACTION on CLUSTER",
    "AddRaftVoter": "ALTER on CLUSTER",
    "AllocateProducerIds": "CLUSTER_ACTION on CLUSTER",
    "AlterClientQuotas": "ALTER_CONFIGS on CLUSTER",
    "AlterConfigs": "ALTER_CONFIGS on each TOPIC, GROUP or CLUSTER",
    "AlterPartition": "CLUSTER_ACTION on CLUSTER",
    "AlterPartitionReassignments": "ALTER on CLUSTER",
    "AlterReplicaLogDirs": "ALTER on CLUSTER",
    "AlterShareGroupOffsets": "READ on GROUP + READ on each TOPIC",
    "AlterUserScramCredentials": "ALTER on CLUSTER",
    "ApiVersions": "nothing: it comes before authentication",
    "AssignReplicasToDirs": "CLUSTER_ACTION on CLUSTER",
    "BeginQuorumEpoch": "CLUSTER_ACTION on CLUSTER",
    "BrokerHeartbeat": "CLUSTER_ACTION on CLUSTER",
    "BrokerRegistration": "CLUSTER_ACTION on CLUSTER",
    "ConsumerGroupDescribe": "DESCRIBE on each GROUP + DESCRIBE on the TOPICs of its members",
    "ConsumerGroupHeartbeat": "READ on GROUP + DESCRIBE on each TOPIC that is named",
    "ControllerRegistration": "CLUSTER_ACTION on CLUSTER",
    "CreateAcls": "ALTER on CLUSTER",
    "CreateDelegationToken": "CREATE_TOKENS on the USER, if that is another",
    "CreatePartitions": "ALTER on each TOPIC",
    "CreateTopics": "CREATE on CLUSTER / CREATE on each TOPIC; DESCRIBE_CONFIGS on TOPIC for its configs",
    "DeleteAcls": "ALTER on CLUSTER",
    "DeleteGroups": "DELETE on each GROUP",
    "DeleteRecords": "DELETE on each TOPIC",
    "DeleteShareGroupOffsets": "DELETE on GROUP + READ on each TOPIC",
    "DeleteShareGroupState": "CLUSTER_ACTION on CLUSTER",
    "DeleteTopics": "DELETE on CLUSTER / DESCRIBE and DELETE on each TOPIC",
    "DescribeAcls": "DESCRIBE on CLUSTER",
    "DescribeClientQuotas": "DESCRIBE_CONFIGS on CLUSTER",
    "DescribeCluster": "nothing on a broker, ALTER on CLUSTER on a controller; DESCRIBE on CLUSTER for its operations",
    "DescribeConfigs": "DESCRIBE_CONFIGS on each TOPIC, GROUP or CLUSTER",
    "DescribeDelegationToken": "DESCRIBE on each DELEGATION_TOKEN / DESCRIBE_TOKENS on its USER, if that is another",
    "DescribeGroups": "DESCRIBE on each GROUP",
    "DescribeLogDirs": "DESCRIBE on CLUSTER",
    "DescribeProducers": "READ on each TOPIC",
    "DescribeQuorum": "DESCRIBE on CLUSTER",
    "DescribeShareGroupOffsets": "DESCRIBE on each GROUP + DESCRIBE on each TOPIC",
    "DescribeTopicPartitions": "DESCRIBE on each TOPIC",
    "DescribeTransactions": "DESCRIBE on each TRANSACTIONAL_ID + DESCRIBE on each TOPIC in it",
    "DescribeUserScramCredentials": "DESCRIBE on CLUSTER",
    "ElectLeaders": "ALTER on CLUSTER",
    "EndQuorumEpoch": "CLUSTER_ACTION on CLUSTER",
    "EndTxn": "WRITE on TRANSACTIONAL_ID",
    "Envelope": "CLUSTER_ACTION on CLUSTER; then what the request in it needs, of its client",
    "ExpireDelegationToken": "nothing: its owner and renewers may",
    "Fetch": "READ on each TOPIC; CLUSTER_ACTION on CLUSTER for followers and on controllers",
    "FetchSnapshot": "CLUSTER_ACTION on CLUSTER",
    "FindCoordinator": "DESCRIBE on GROUP or TRANSACTIONAL_ID; CLUSTER_ACTION on CLUSTER for share partitions",
    "GetTelemetrySubscriptions": "nothing",
    "Heartbeat": "READ on GROUP",
    "IncrementalAlterConfigs": "ALTER_CONFIGS on each TOPIC, GROUP or CLUSTER",
    "InitProducerId": "WRITE on TRANSACTIONAL_ID; without one IDEMPOTENT_WRITE on CLUSTER / WRITE on some TOPIC",
    "InitializeShareGroupState": "CLUSTER_ACTION on CLUSTER",
    "JoinGroup": "READ on GROUP",
    "LeaveGroup": "READ on GROUP",
    "ListConfigResources": "DESCRIBE_CONFIGS on CLUSTER",
    "ListGroups": "DESCRIBE on CLUSTER / DESCRIBE on each GROUP",
    "ListOffsets": "DESCRIBE on each TOPIC",
    "ListPartitionReassignments": "DESCRIBE on CLUSTER",
    "ListTransactions": "DESCRIBE on each TRANSACTIONAL_ID",
    "Metadata": "DESCRIBE on each TOPIC; CREATE on CLUSTER / CREATE on TOPIC to have it made",
    "OffsetCommit": "READ on GROUP + READ on each TOPIC",
    "OffsetDelete": "DELETE on GROUP + READ on each TOPIC",
    "OffsetFetch": "DESCRIBE on each GROUP + DESCRIBE on each TOPIC",
    "OffsetForLeaderEpoch": "CLUSTER_ACTION on CLUSTER / DESCRIBE on each TOPIC",
    "Produce": "WRITE on each TOPIC + WRITE on TRANSACTIONAL_ID",
    "PushTelemetry": "nothing",
    "ReadShareGroupState": "CLUSTER_ACTION on CLUSTER",
    "ReadShareGroupStateSummary": "CLUSTER_ACTION on CLUSTER",
    "RemoveRaftVoter": "ALTER on CLUSTER",
    "RenewDelegationToken": "nothing: its owner and renewers may",
    "SaslAuthenticate": "nothing: it comes before authentication",
    "SaslHandshake": "nothing: it comes before authentication",
    "ShareAcknowledge": "READ on GROUP + READ on each TOPIC",
    "ShareFetch": "READ on GROUP + READ on each TOPIC",
    "ShareGroupDescribe": "DESCRIBE on each GROUP + DESCRIBE on the TOPICs of its members",
    "ShareGroupHeartbeat": "READ on GROUP + DESCRIBE on each TOPIC that is named",
    "StreamsGroupDescribe": "DESCRIBE on each GROUP + DESCRIBE on the TOPICs of its topology",
    "StreamsGroupHeartbeat": "READ on GROUP + DESCRIBE on each TOPIC of the topology; CREATE for internal ones",
    "StreamsGroupTopologyDescriptionUpdate": "READ on GROUP",
    "SyncGroup": "READ on GROUP",
    "TxnOffsetCommit": "WRITE on TRANSACTIONAL_ID + READ on GROUP + READ on each TOPIC",
    "UnregisterBroker": "ALTER on CLUSTER",
    "UnregisterController": "ALTER on CLUSTER",
    "UpdateFeatures": "ALTER on CLUSTER",
    "UpdateRaftVoter": "CLUSTER_ACTION on CLUSTER",
    "Vote": "CLUSTER_ACTION on CLUSTER",
    "WriteShareGroupState": "CLUSTER_ACTION on CLUSTER",
    "WriteTxnMarkers": "ALTER on CLUSTER / CLUSTER_ACTION on CLUSTER",
}  # fmt: skip
_STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_OPERATIONS = re.compile(rf"\b({'|'.join(sorted((one.name for one in Operation), key=len, reverse=True))})\b")
_DENIALS = {29, 30, 31, 53}
#: APIs with one check for the whole request: the broker denies an empty request, if the response has an error code.
_WHOLE = [
    api
    for api in APIS.values()
    if RULES.get(api.name, "").split(" on ")[-1] in ("CLUSTER", "GROUP", "TRANSACTIONAL_ID")
    and "each" not in RULES[api.name]
    and "broker" in api.listeners
    and api.name != "DescribeAcls"  # an empty filter ends the connection
]


def test_every_api_has_a_rule() -> None:
    assert {api.name for api in APIS.values() if api.listeners} == set(RULES)


def operations_of(requirement: Any) -> set[str]:
    """Returns the names of the operations that a requirement of an endpoint names, in data or in words."""
    found = {requirement.operation.name} if hasattr(requirement, "operation") else set()
    for part in (getattr(requirement, "need", None), *getattr(requirement, "needs", ())):
        found |= operations_of(part) if part is not None else set()
    return found | set(_OPERATIONS.findall(getattr(requirement, "words", "")))


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_endpoint_declares_the_operations_of_the_rule(api: Api) -> None:
    declared = {name for one in endpoint_of(api).authorization for name in operations_of(one)}
    assert declared == set(_OPERATIONS.findall(RULES[api.name]))


@pytest.fixture(scope="module")
def bootstrap(sockets: None) -> Iterator[str]:
    properties = {"authorizer.class.name": _STANDARD, "super.users": "User:nobody-here"}
    with odradek.Broker(config=properties) as broker:
        yield broker.bootstrap_servers


@pytest.mark.parametrize("api", _WHOLE, ids=lambda api: api.name)
def test_a_client_without_rules_is_denied(api: Api, bootstrap: str) -> None:
    with WireClient(bootstrap) as client:
        response = client.call(api.request(), api.latest_stable_version)
    if hasattr(response, "error_code"):
        assert response.error_code in _DENIALS
    else:
        assert error_codes(response) - {0} <= _DENIALS


# ---- the active controller

REQUESTS = {api.name: api.request for api in APIS.values()}
RESPONSES = {api.request: api.response for api in APIS.values()}
#: Requests that only the controller's own node sends.
OWN = (
    maintenance.BalanceLeadersRequest,
    maintenance.ElectUncleanLeadersRequest,
    maintenance.FenceBrokerRequest,
    maintenance.MoveLeadersRequest,
    maintenance.WriteNoOpRequest,
    RemoveExpiredTokensRequest,
)
#: Requests with items, each in every shape, with the error of an item that is denied.
ITEMS: list[tuple[Message, int]] = [
    (CreateTopicsRequest([CreatableTopic("a", 1, 1)]), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    (CreatePartitionsRequest([CreatePartitionsTopic("a", 2)]), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    (DeleteTopicsRequest(topic_names=["a"]), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    (DeleteTopicsRequest(topics=[DeleteTopicState(name="a")]), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    *(
        (request, error)
        for kind, error in {
            ConfigType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            ConfigType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
            ConfigType.BROKER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            ConfigType.CLIENT_METRICS: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            ConfigType.BROKER_LOGGER: ErrorCode.INVALID_REQUEST,
            ConfigType.UNKNOWN: ErrorCode.INVALID_REQUEST,
            77: ErrorCode.INVALID_REQUEST,
        }.items()
        for request in (
            AlterConfigsRequest([LegacyAlterConfigsResource(kind, "a", [])]),
            IncrementalAlterConfigsRequest([AlterConfigsResource(kind, "a", [])]),
        )
    ),
]
#: Authorized where they arrive, and decided as the node's own.
BY_SESSIONS = ("BrokerHeartbeat", "BrokerRegistration")
#: Decided with the client's principal; the decision has the rule.
DECIDED_BY_OWNER = ("ExpireDelegationToken", "RenewDelegationToken")


class Decider:
    """Allows the named operations on every resource."""

    version = allowed = denied = 0
    keeps_decisions = False

    def __init__(self, *operations: Operation) -> None:
        self.operations = operations
        self.requested: list[tuple[int, int]] = []

    def logs_allowed(self) -> bool:
        return False

    def kept(self) -> None: ...

    def log(self, session: AuthorizationSession, key: Any, count: int, level: int) -> None: ...

    def may_write_any_topic(self, session: AuthorizationSession) -> bool:
        return False

    def decide(self, session: AuthorizationSession, operation: int, resource_type: int, name: str) -> bool:
        self.requested.append((operation, resource_type))
        return operation in self.operations


ENDPOINTS = NodeEndpoints(LateImports(ThreadPools().cpu), None)


def decided(request: Message, decider: Decider) -> Checked | Denial:
    """Checks a request as the active controller does."""
    session = AuthorizationSession(decider, "User:mallory", "/10.0.0.1")
    session.api = name_of(request)
    requirements = decision_requirements(ENDPOINTS.of_request(request))
    return check(requirements, session, Asked(request, 0), Deciding(MetadataImage(), deletes_topics=True))


def checked(request: Message, *allowed: Operation) -> Checked:
    found = decided(request, Decider(*allowed))
    assert isinstance(found, Checked)
    return found


def denied(request: Message, *allowed: Operation) -> Denial:
    found = decided(request, Decider(*allowed))
    assert isinstance(found, Denial)
    return found


def name_of(request: Message) -> str:
    return type(request).__name__.removesuffix("Request")


def test_the_test_covers_every_decision() -> None:
    item_apis = {name_of(request) for request, _ in ITEMS}
    whole = {name for name in DECISIONS if RULES.get(name, "").endswith(" on CLUSTER")}
    assert set(DECISIONS) == whole | item_apis | {name_of(own()) for own in OWN} | set(DECIDED_BY_OWNER) | {
        "CreateDelegationToken"
    }


@pytest.mark.parametrize(
    "api", sorted(name for name in set(DECISIONS) - set(BY_SESSIONS) if RULES.get(name, "").endswith(" on CLUSTER"))
)
def test_request_on_the_cluster_needs_exactly_its_operation(api: str) -> None:
    request = REQUESTS[api]()
    operation = Operation[RULES[api].removesuffix(" on CLUSTER")]
    found = denied(request, *(other for other in Operation if other != operation))
    assert found.error == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    decider = Decider(operation)
    permitted = decided(request, decider)
    assert isinstance(permitted, Checked)
    assert permitted.request is request
    assert decider.requested == [(operation, ResourceType.CLUSTER)]


@pytest.mark.parametrize(("request_", "error"), ITEMS, ids=lambda value: name_of(value) if value else str(value))
def test_items_of_a_client_without_rules_are_denied(request_: Any, error: int) -> None:
    found = checked(request_)
    assert found.request is not None
    lists = [value for value in vars_of(found.request) if isinstance(value, list)]
    assert lists
    assert not any(lists), "nothing is left to decide"
    response = found.finish(RESPONSES[type(request_)]())
    assert error_codes(response) - {0} == {error}


def vars_of(message: Message) -> list[Any]:
    return [getattr(message, field.name) for field in message.SCHEMA.fields]


def test_token_for_another_user_needs_create_tokens() -> None:
    own = CreateDelegationTokenRequest()
    assert checked(own).request is own
    other = CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="alice")
    assert denied(other).error == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    assert checked(other, Operation.CREATE_TOKENS).request is other


@pytest.mark.parametrize("api", DECIDED_BY_OWNER)
def test_token_of_another_user_is_compared_with_its_owner_by_the_decision(api: str) -> None:
    request = REQUESTS[api]()
    assert checked(request).request is request


@pytest.mark.parametrize("request_class", [*OWN, *(REQUESTS[api] for api in BY_SESSIONS)])
def test_request_without_a_rule_is_denied_to_every_client(
    request_class: type[Message], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "odradek.authorizer"):
        found = denied(request_class(), *Operation)
    assert found.error == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    expected = f"a bug: no requirement authorizes {name_of(request_class())}: User:mallory is denied"
    assert [record.getMessage() for record in caplog.records] == [expected]
