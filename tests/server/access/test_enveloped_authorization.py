"""Requests in an Envelope (API 58) that name resources which their client may change beside others.

A broker forwards a client's request to the controller with the client's principal, and the controller authorizes each item
for that principal, not for the broker. A broker's sender may do everything here, so an item that is checked for the wrong
client, or is not checked, changes the cluster.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import odradek
import pytest
from odradek.metadata.acls import Operation, Permission, ResourceType
from odradek.protocol.apis import APIS
from odradek.protocol.codec import decode
from odradek.protocol.headers import ResponseHeader
from odradek.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.protocol.messages.envelope import EnvelopeRequest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.schema import Message
from odradek.server.access.authorization.requirements import Each, Split
from odradek.server.controller.envelopes import encoded_principal
from odradek.server.endpoints import NodeEndpoints
from odradek.server.runtime.late_imports import LateImports
from odradek.server.runtime.thread_pools import ThreadPools

from compat_tests.authorization.harness import STANDARD_AUTHORIZER
from compat_tests.differential.runner import BY_NAME, build
from compat_tests.wire import WireClient, api_of, request_frame

pytestmark = pytest.mark.usefixtures("sockets")

CAROL, CAROLS_ADDRESS = "User:carol", bytes((127, 0, 0, 9))
TOPIC, GROUP, CLUSTER, BROKER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER, 4
TOPIC_DENIED, GROUP_DENIED, CLUSTER_DENIED = 29, 30, 31
NO_TOPIC, NO_ID = 3, bytes(16)
_numbers = itertools.count()


@dataclass(frozen=True)
class Names:
    """The resources of a request: Carol may do everything with `mine`, and nothing with `other`."""

    mine: str
    other: str
    ids: dict[str, bytes]


class Controller:
    """A node whose controller listener takes envelopes, and whose client is its administrator."""

    def __init__(self, broker: odradek.Broker) -> None:
        self.admin = WireClient(broker.bootstrap_servers)
        addresses = {one.name: one.endpoint.address for one in broker.server.network.listeners}
        self.brokers = WireClient(addresses["CONTROLLER"])
        for kind, name in ((TOPIC, "*"), (GROUP, "*"), (CLUSTER, "kafka-cluster")):
            self.permit("User:ANONYMOUS", kind, name)

    def permit(self, principal: str, kind: ResourceType, name: str, operation: Operation = Operation.ALL) -> None:
        rule = AclCreation(
            resource_type=kind,
            resource_name=name,
            resource_pattern_type=3,
            principal=principal,
            host="*",
            operation=operation,
            permission_type=Permission.ALLOW,
        )
        assert {one.error_code for one in self.admin.call(CreateAclsRequest(creations=[rule]), 3).results} == {0}

    def names(self, *, exist: bool) -> Names:
        number = next(_numbers)
        mine, other = f"mine-{number}", f"other-{number}"
        for kind in (TOPIC, GROUP):
            self.permit(CAROL, kind, mine)
        ids = {}
        if exist:
            request = CreateTopicsRequest(
                topics=[CreatableTopic(mine, 1, 1), CreatableTopic(other, 1, 1)], timeout_ms=20_000
            )
            ids = {topic.name: topic.topic_id for topic in self.admin.call(request, 7).topics}
        return Names(mine, other, ids)

    def forward(self, request: Message, version: int) -> Any:
        """Returns the response to Carol's request, which a broker forwards."""
        api = api_of(request)
        data = request_frame(request, version, 7, "carols-client")[4:]
        response = self.brokers.call(EnvelopeRequest(data, encoded_principal(CAROL), CAROLS_ADDRESS), 0)
        assert response.error_code == 0
        header, position = decode(ResponseHeader, api.response_header_version(version), response.response_data)
        assert header.correlation_id == 7
        return decode(api.response, version, response.response_data, position)[0]

    def partitions(self) -> dict[str, int]:
        """Returns the number of partitions of each topic."""
        return {topic.name: len(topic.partitions) for topic in self.admin.call(MetadataRequest(topics=None), 9).topics}

    def config(self, kind: int, name: str, key: str) -> str | None:
        resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=[key])
        (found,) = self.admin.call(DescribeConfigsRequest(resources=[resource]), 4).results
        return found.configs[0].value


@pytest.fixture(scope="module")
def controller() -> Iterator[Controller]:
    config = STANDARD_AUTHORIZER | {
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "controller.listener.names": "CONTROLLER",
    }
    with odradek.Broker(config=config) as broker:
        made = Controller(broker)
        yield made
        made.admin.close()
        made.brokers.close()


@dataclass(frozen=True)
class Shape:
    """A request of an API about both names, in the order of its arguments, and its effect on `mine` only."""

    api: str
    version: int
    label: str
    fields: Callable[[tuple[str, ...], Names], dict[str, Any]]
    #: Returns the error of each item, by its name.
    outcome: Callable[[Any, Names], dict[Any, int]]
    #: Returns whether the request took effect for the name.
    has_acted: Callable[[Controller, str], bool]
    error: int = TOPIC_DENIED
    exist: bool = True

    def __str__(self) -> str:
        return f"{self.api} v{self.version}: {self.label}"


def of(field: str, name: str = "name") -> Callable[[Any, Names], dict[Any, int]]:
    return lambda response, names: {getattr(one, name): one.error_code for one in getattr(response, field)}


def deleted(response: Any, names: Names) -> dict[Any, int]:
    """A topic that Carol may not see has its id only, if that is what she asked for."""
    named = {topic_id: name for name, topic_id in names.ids.items()}
    return {one.name or named[one.topic_id]: one.error_code for one in response.responses}


def created(order: tuple[str, ...], names: Names) -> dict[str, Any]:
    topics = [{"name": name, "num_partitions": 2, "replication_factor": 1} for name in order]
    return {"topics": topics, "timeout_ms": 20_000}


def assigned(order: tuple[str, ...], names: Names) -> dict[str, Any]:
    of_partition = [{"partition_index": 0, "broker_ids": [1]}]
    topics = [
        {"name": name, "num_partitions": -1, "replication_factor": -1, "assignments": of_partition} for name in order
    ]
    return {"topics": topics, "timeout_ms": 20_000}


def altered(kind: int, key: str, value: str, *, whole: bool) -> Callable[[tuple[str, ...], Names], dict[str, Any]]:
    change = {"name": key, "value": value} if whole else {"name": key, "value": value, "config_operation": 0}
    return lambda order, names: {
        "resources": [{"resource_type": kind, "resource_name": name, "configs": [change]} for name in order]
    }


def is_configured(kind: int, key: str, value: str) -> Callable[[Controller, str], bool]:
    return lambda controller, name: controller.config(kind, name, key) == value


def exists(controller: Controller, name: str) -> bool:
    return name in controller.partitions()


def is_gone(controller: Controller, name: str) -> bool:
    return name not in controller.partitions()


def has_three_partitions(controller: Controller, name: str) -> bool:
    return controller.partitions()[name] == 3


def shapes() -> Iterator[Shape]:
    for version in (2, 4, 5, 7):
        yield Shape("CreateTopics", version, "by count", created, of("topics"), exists, exist=False)
        yield Shape("CreateTopics", version, "by assignment", assigned, of("topics"), exists, exist=False)
    for version in (1, 5):
        yield Shape(
            "DeleteTopics", version, "names", lambda order, names: {"topic_names": list(order)}, deleted, is_gone
        )
    yield Shape("DeleteTopics", 6, "by name", lambda order, names: states(order), deleted, is_gone)
    yield Shape(
        "DeleteTopics", 6, "by id", lambda order, names: states(names.ids[name] for name in order), deleted, is_gone
    )
    yield Shape(
        "DeleteTopics",
        6,
        "by name and id",
        lambda order, names: states((order[0], names.ids[order[1]])),
        deleted,
        is_gone,
    )
    for version in (0, 3):
        yield Shape(
            "CreatePartitions",
            version,
            "of topics",
            lambda order, names: {"topics": [{"name": name, "count": 3, "assignments": None} for name in order]},
            of("results"),
            has_three_partitions,
        )
    for api, versions, whole in (("AlterConfigs", (0, 2), True), ("IncrementalAlterConfigs", (0, 1), False)):
        for version, (kind, key, value, error) in itertools.product(
            versions,
            ((2, "retention.ms", "77000", TOPIC_DENIED), (32, "consumer.session.timeout.ms", "50000", GROUP_DENIED)),
        ):
            yield Shape(
                api,
                version,
                ResourceType(TOPIC if kind == 2 else GROUP).name.lower(),
                altered(kind, key, value, whole=whole),
                of("responses", "resource_name"),
                is_configured(kind, key, value),
                error,
            )


def states(items: Any) -> dict[str, Any]:
    return {"topics": [{"name": one} if isinstance(one, str) else {"name": None, "topic_id": one} for one in items]}


@pytest.mark.parametrize("is_first", [True, False], ids=["allowed-first", "denied-first"])
@pytest.mark.parametrize("shape", list(shapes()), ids=str)
def test_controller_authorizes_each_item_for_the_client_of_an_envelope(
    controller: Controller, shape: Shape, is_first: bool
) -> None:
    names = controller.names(exist=shape.exist)
    order = (names.mine, names.other) if is_first else (names.other, names.mine)
    request = build(BY_NAME[shape.api].request, {**shape.fields(order, names)})
    if hasattr(request, "timeout_ms"):
        request.timeout_ms = 20_000
    response = controller.forward(request, shape.version)
    assert shape.outcome(response, names) == {names.mine: 0, names.other: shape.error}
    assert shape.has_acted(controller, names.mine)
    assert not shape.has_acted(controller, names.other)


@pytest.mark.parametrize("api", ["AlterConfigs", "IncrementalAlterConfigs"])
def test_resources_of_three_types_in_an_envelope_have_outcomes_of_their_own(controller: Controller, api: str) -> None:
    names = controller.names(exist=True)
    changes = {
        (2, names.mine): ("retention.ms", "88000"),
        (BROKER, ""): ("log.cleaner.threads", "2"),
        (32, names.other): ("consumer.session.timeout.ms", "51000"),
        (32, names.mine): ("consumer.session.timeout.ms", "52000"),
        (2, names.other): ("retention.ms", "89000"),
    }
    resources = [
        {"resource_type": kind, "resource_name": name, "configs": [{"name": key, "value": value}]}
        for (kind, name), (key, value) in changes.items()
    ]
    response = controller.forward(build(BY_NAME[api].request, {"resources": resources}), 1)
    assert {(one.resource_type, one.resource_name): one.error_code for one in response.responses} == {
        (2, names.mine): 0,
        (BROKER, ""): CLUSTER_DENIED,
        (32, names.other): GROUP_DENIED,
        (32, names.mine): 0,
        (2, names.other): TOPIC_DENIED,
    }
    acted = {
        place for place, (key, value) in changes.items() if controller.config(place[0], place[1] or "1", key) == value
    }
    assert acted == {(2, names.mine), (32, names.mine)}


def test_created_topic_hides_its_configs_from_a_client_that_may_only_create_it(controller: Controller) -> None:
    names = controller.names(exist=False)
    hidden = f"hidden-{names.mine}"
    controller.permit(CAROL, TOPIC, hidden, Operation.CREATE)
    request = build(BY_NAME["CreateTopics"].request, created((hidden, names.other, names.mine), names))
    found = {topic.name: topic for topic in controller.forward(request, 7).topics}
    assert {name: topic.error_code for name, topic in found.items()} == {
        hidden: 0,
        names.mine: 0,
        names.other: TOPIC_DENIED,
    }
    assert (found[hidden].topic_config_error_code, found[hidden].num_partitions, found[hidden].configs) == (
        TOPIC_DENIED,
        -1,
        [],
    )
    assert (found[names.mine].topic_config_error_code, found[names.mine].num_partitions) == (0, 2)
    assert found[names.mine].configs


def test_each_response_in_an_envelope_has_all_configs_of_the_new_topic(controller: Controller) -> None:
    """The controller keeps the configs of topics that set none, and frees the lists of a response that it has sent."""
    found = []
    for _ in range(2):
        names = controller.names(exist=False)
        response = controller.forward(build(BY_NAME["CreateTopics"].request, created((names.mine,), names)), 7)
        found.append([config.name for config in response.topics[0].configs])
    assert found[0] == found[1]
    assert "retention.ms" in found[0]


def test_topic_that_a_client_may_see_but_not_delete_keeps_its_name_in_the_response(controller: Controller) -> None:
    names = controller.names(exist=True)
    controller.permit(CAROL, TOPIC, names.other, Operation.DESCRIBE)
    request = build(BY_NAME["DeleteTopics"].request, states(names.ids.values()) | {"timeout_ms": 20_000})
    response = controller.forward(request, 6)
    assert {one.name: one.error_code for one in response.responses} == {names.mine: 0, names.other: TOPIC_DENIED}
    assert names.other in controller.partitions()


def test_absent_topic_is_denied_to_a_client_that_may_not_see_it(controller: Controller) -> None:
    """An error of its own would show which topics exist."""
    names = controller.names(exist=False)
    request = build(BY_NAME["DeleteTopics"].request, states((names.mine, names.other)) | {"timeout_ms": 20_000})
    response = controller.forward(request, 6)
    assert {one.name: one.error_code for one in response.responses} == {names.mine: NO_TOPIC, names.other: TOPIC_DENIED}


def test_every_forwarded_api_whose_items_are_authorized_has_a_shape() -> None:
    endpoints = NodeEndpoints(LateImports(ThreadPools().cpu), None)
    with_items = set()
    for api in APIS.values():
        if api in endpoints:
            endpoint = endpoints.load(api)
            if endpoint.place.is_enveloped and any(isinstance(one, Each | Split) for one in endpoint.authorization):
                with_items.add(api.name)
    assert with_items == {shape.api for shape in shapes()}
