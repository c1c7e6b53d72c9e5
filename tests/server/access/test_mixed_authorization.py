"""Requests that name resources which their client may use beside others: each item has the outcome of its own.

The requests are those of the matrix (compat_tests/authorization), each with the resource that is allowed and the one that
is denied, in both orders.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import odradek
import pytest
from odradek.metadata.acls import ResourceType
from odradek.protocol.messages.create_acls import CreateAclsRequest
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from odradek.protocol.schema import Message

from compat_tests.authorization.harness import STANDARD_AUTHORIZER
from compat_tests.authorization.probes import ON_GROUPS, ON_TOPICS, ON_TRANSACTIONAL_IDS, Probe, Target
from compat_tests.authorization.variants import ALLOWED, CLIENT, Rule
from compat_tests.differential.runner import BY_NAME, build
from compat_tests.wire import WireClient
from tests.server.harness.data_path import error_codes, wait_until

pytestmark = pytest.mark.usefixtures("sockets")

MINE, OTHER = "mine", "other"
SHARES = "shares"
TOPIC, GROUP, TRANSACTIONAL_ID = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
DENIALS = {29, 30, 53}
NOT_YET = {14, 15, 16}
#: One denied item fails the whole request, whose response has no items (KIP-848, 932, 1071, and 98 for the others).
WHOLE = {"ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "StreamsGroupHeartbeat", "ShareFetch"}
#: For share groups only.
OF_SHARE_GROUPS = {"AlterShareGroupOffsets", "DeleteShareGroupOffsets", "DescribeShareGroupOffsets"}
DENIAL_OF = {TOPIC: 29, GROUP: 30, TRANSACTIONAL_ID: 53}


def merged(one: Any, other: Any) -> Any:
    """Returns a request about the items of both: lists are joined where their elements differ."""
    if isinstance(one, dict):
        return {key: merged(value, other[key]) for key, value in one.items()}
    if not isinstance(one, list) or one == other:
        return one
    if len(one) == len(other) == 1 and isinstance(one[0], dict):
        a, b = one[0], other[0]
        if all(a[key] == b[key] for key in a if not isinstance(a[key], list)):
            return [merged(a, b)]
    return one + other


def probes() -> Iterator[Any]:
    """Yields the requests with a list of the resources of a kind."""
    for kind, of_kind in ((TOPIC, ON_TOPICS), (GROUP, ON_GROUPS), (TRANSACTIONAL_ID, ON_TRANSACTIONAL_IDS)):
        for probe in of_kind:
            one, other = (probe.fields(target({kind: name})) for name in (MINE, OTHER))
            if probe.api not in WHOLE and merged(one, other) != one:
                yield pytest.param(kind, probe, id=str(probe))


def target(names: dict[ResourceType, str], ids: dict[str, bytes] | None = None) -> Target:
    """Returns the resources of a request: those of the client, but for the named kinds."""
    topic, group, transactional_id = (f"{kind.name}-{names.get(kind, MINE)}" for kind in DENIAL_OF)
    return Target(topic, (ids or {}).get(topic, topic.encode().ljust(16)), group, transactional_id)


class Harness:
    """A broker whose client may do everything with resources named MINE, and nothing with those named OTHER."""

    def __init__(self, broker: odradek.Broker) -> None:
        self.address = broker.bootstrap_servers
        self.admin = WireClient(self.address)
        self.client = WireClient(self.address, source=CLIENT)
        self.ids: dict[str, bytes] = {}
        kinds = (TOPIC, GROUP, TRANSACTIONAL_ID)
        owner = [Rule(host="127.0.0.1").on(kind, "*") for kind in kinds]
        on_cluster = Rule(host="127.0.0.1").on(ResourceType.CLUSTER, "kafka-cluster")
        shares = ALLOWED.on(GROUP, SHARES)
        rules = [shares, on_cluster, *owner, *(ALLOWED.on(kind, f"{kind.name}-{MINE}") for kind in kinds)]
        response = self.admin.call(CreateAclsRequest(creations=rules), 3)
        assert {one.error_code for one in response.results} == {0}
        self.create(f"TOPIC-{MINE}", f"TOPIC-{OTHER}")
        for kind in (0, 1):  # of groups, and of transactions
            ask(self.admin, FindCoordinatorRequest(key_type=kind, coordinator_keys=[MINE]), 4)
        # An empty share group: a member came and left.
        for epoch in (0, -1):
            beat = ShareGroupHeartbeatRequest(
                group_id=SHARES, member_id="m", member_epoch=epoch, subscribed_topic_names=[f"TOPIC-{MINE}"]
            )
            assert ask(self.admin, beat, 1).error_code == 0

    def commit(self) -> None:
        """Makes the group of the client: offsets are deleted of a group that is there."""
        partitions = [OffsetCommitRequestPartition(0, 0)]
        topics = [OffsetCommitRequestTopic(f"TOPIC-{MINE}", partitions=partitions)]
        response = ask(self.admin, OffsetCommitRequest(group_id=f"GROUP-{MINE}", topics=topics), 8)
        assert error_codes(response) <= {0}

    def create(self, *names: str) -> None:
        topics = [CreatableTopic(name, 1, 1) for name in names]
        response = self.admin.call(CreateTopicsRequest(topics=topics, timeout_ms=20_000), 7)
        assert {one.error_code for one in response.topics} == {0}
        self.ids |= {one.name: one.topic_id for one in response.topics}


def ask(client: WireClient, request: Message, version: int) -> Any:
    """Returns the response, once coordinators have loaded."""
    found: list[Any] = []

    def is_answered() -> bool:
        found.append(client.call(request, version))
        return not error_codes(found[-1]) & NOT_YET

    wait_until(is_answered, "a coordinator")
    return found[-1]


@pytest.fixture(scope="module")
def harness() -> Iterator[Harness]:
    with odradek.Broker(config=STANDARD_AUTHORIZER) as broker:
        made = Harness(broker)
        yield made
        made.admin.close()
        made.client.close()


def items(value: Any, name: str, ids: dict[str, bytes]) -> list[Message]:
    """Returns the parts of a response that name the resource."""
    if isinstance(value, list):
        return [found for one in value for found in items(one, name, ids)]
    if not isinstance(value, Message):
        return []
    fields = [getattr(value, field.name) for field in value.SCHEMA.fields]
    if any(isinstance(field, str | bytes) and field in (name, ids.get(name)) for field in fields):
        return [value]
    return [found for field in fields for found in items(field, name, ids)]


@pytest.mark.parametrize("is_first", [True, False], ids=["allowed-first", "denied-first"])
@pytest.mark.parametrize(("kind", "probe"), list(probes()))
def test_each_item_has_the_outcome_of_its_own(
    harness: Harness, kind: ResourceType, probe: Probe, is_first: bool
) -> None:
    targets = [target({kind: name}, harness.ids) for name in (MINE, OTHER)]
    if probe.api in OF_SHARE_GROUPS and kind is TOPIC:
        targets = [replace(one, group=SHARES) for one in targets]
    if probe.api == "OffsetDelete":
        harness.commit()
    allowed, denied = (probe.fields(one) for one in targets)
    request = merged(allowed, denied) if is_first else merged(denied, allowed)
    api = BY_NAME[probe.api]
    version = probe.version if probe.version is not None else api.latest_stable_version
    response = ask(harness.client, build(api.request, request), version)
    mine, other = (items(response, f"{kind.name}-{name}", harness.ids) for name in (MINE, OTHER))
    assert len(mine) == len(other) == 1, response
    assert error_codes(mine) & DENIALS == set()
    assert error_codes(other) - {0} == {DENIAL_OF[kind]}


def by_name(name: str, topic_id: bytes) -> DeleteTopicState:
    return DeleteTopicState(name=name)


def by_id(name: str, topic_id: bytes) -> DeleteTopicState:
    return DeleteTopicState(name=None, topic_id=topic_id)


@pytest.mark.parametrize("is_first", [True, False], ids=["allowed-first", "denied-first"])
@pytest.mark.parametrize("shape", [None, by_name, by_id])
def test_deletion_of_topics_spares_those_that_are_denied(harness: Harness, shape: Any, is_first: bool) -> None:
    """In version 5 by name, and in version 6 by name or by id."""
    word = f"{getattr(shape, '__name__', 'names')}-{is_first}"
    mine, other = f"doomed-{word}", f"spared-{word}"
    rule = ALLOWED.on(TOPIC, mine)
    assert {one.error_code for one in harness.admin.call(CreateAclsRequest(creations=[rule]), 3).results} == {0}
    harness.create(mine, other)
    names = [mine, other] if is_first else [other, mine]
    states = [] if shape is None else [shape(name, harness.ids[name]) for name in names]
    request = DeleteTopicsRequest(topics=states, topic_names=[] if states else names, timeout_ms=20_000)
    response = harness.client.call(request, 6 if states else 5)
    found = {one.name or one.topic_id: one.error_code for one in response.responses}
    assert found == {mine: 0, harness.ids[other] if shape is by_id else other: 29}
    described = harness.admin.call(MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names]), 9)
    assert {one.name: one.error_code for one in described.topics} == {mine: 3, other: 0}
