"""A broker with an authorizer, the rules and resources of the matrix on it, and its responses to the client under test."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import Any

from odradek.metadata.acls import ResourceType
from odradek.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from odradek.protocol.messages.describe_acls import DescribeAclsRequest
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.schema import Message
from odradek.protocol.uuids import uuid_to_text

from compat_tests.authorization import cluster_probes
from compat_tests.authorization.probes import Probe, Target
from compat_tests.authorization.variants import ADMINISTRATOR, CLIENT, VARIANTS, first_rules, name_of, rules
from compat_tests.differential.normalise import Flat, Names, flatten
from compat_tests.differential.runner import BY_NAME, _error_codes, advertised, await_coordinators, build
from compat_tests.wire import ConnectionClosed, WireClient

STANDARD_AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # Needed until the first rules exist.
    "allow.everyone.if.no.acl.found": "true",
}
EXISTING, ABSENT, DOOMED, PERMITTED = "r", "a", "d", "z"
_DEADLINE_S = 60
_NOT_YET = {14, 15}
_RULES_AT_ONCE = 400
_ANY = {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1, "principal_filter": None,
        "host_filter": None, "operation": 1, "permission_type": 1}  # fmt: skip
#: The part of Kafka's error message with the request, its connection and its session.
_REQUEST = re.compile(r"Request Request\(.*\) needs")
_CLUSTER_ID = re.compile(r'the cluster id "[^"]*"')
#: Configs that 4.4 added, and the number of configs.
_OF_4_4 = re.compile(r"configs\[(errors\.dead|max\.decompressed|remote\.copy)|configs\.length")
_DENIALS = {29, 30, 31, 53}


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


class Harness:
    """The connections of the administrator and of the client to a broker, and the ids of its topics."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin = WireClient(bootstrap, source=ADMINISTRATOR)
        self.client = WireClient(bootstrap, source=CLIENT)
        self.versions = advertised(bootstrap)
        self.ids: dict[str, bytes] = {}

    def close(self) -> None:
        self.admin.close()
        self.client.close()

    def prepare(self) -> None:
        self.create_rules(first_rules())
        wanted = rules(EXISTING, ABSENT, DOOMED, PERMITTED)
        for start in range(0, len(wanted), _RULES_AT_ONCE):
            self.create_rules(wanted[start : start + _RULES_AT_ONCE])
        names = [name_of(ResourceType.TOPIC, variant, mark) for variant in VARIANTS for mark in (EXISTING, DOOMED)]
        names.append(name_of(ResourceType.TOPIC, "any-host", PERMITTED))
        topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
        for topic in self.admin.call(CreateTopicsRequest(topics=topics, timeout_ms=20_000), 7).topics:
            assert not topic.error_code, (topic.name, topic.error_code, topic.error_message)
            self.ids[topic.name] = topic.topic_id

        self._await_coordinators()

    def _await_coordinators(self) -> None:
        """Has the broker create the internal topics, and waits until each has its leaders."""
        await_coordinators(self.bootstrap)
        (topic_id, *_) = self.ids.values()
        keys = {1: ["some"], 2: [f"g:{uuid_to_text(topic_id)}:0"]}
        for kind, names in keys.items():
            asked = FindCoordinatorRequest(key_type=kind, coordinator_keys=names)
            until(lambda asked=asked: not self.admin.call(asked, 6).coordinators[0].error_code, "no coordinator")
        ended = EndTxnRequest(transactional_id="some", producer_id=1, producer_epoch=0, committed=True)
        until(lambda: self.admin.call(ended, 3).error_code not in (14, 15, 16), "transactions are not coordinated")
        state = cluster_probes.state(leader_epoch=0) | {
            "topics": [{"topic_id": topic_id, "partitions": [{"partition": 0}]}]
        }
        read = build(BY_NAME["ReadShareGroupState"].request, state)
        until(lambda: not _error_codes(self.admin.call(read, 0)) & {14, 15, 16}, "share states are not coordinated")

    def create_rules(self, wanted: Sequence[AclCreation]) -> None:
        before = self.count()
        response = self.admin.call(CreateAclsRequest(creations=list(wanted)), 3)
        assert all(not result.error_code for result in response.results), response
        until(lambda: self.count() == before + len(wanted), "the rules did not come")

    def delete_rules(self, gone: Sequence[AclCreation]) -> None:
        before = self.count()
        filters = [
            DeleteAclsFilter(
                resource_type_filter=rule.resource_type,
                resource_name_filter=rule.resource_name,
                pattern_type_filter=rule.resource_pattern_type,
                principal_filter=rule.principal,
                host_filter=rule.host,
                operation=rule.operation,
                permission_type=rule.permission_type,
            )
            for rule in gone
        ]
        response = self.admin.call(DeleteAclsRequest(filters=filters), 3)
        assert all(not result.error_code for result in response.filter_results), response
        until(lambda: self.count() == before - len(gone), "the rules did not go")

    def count(self) -> int:
        response = self.admin.call(DescribeAclsRequest(**_ANY), 3)
        return sum(len(resource.acls) for resource in response.resources)

    def target(self, kind: ResourceType | None, name: str) -> Target:
        """Returns permitted resources, except that the one of `kind` is `name`."""
        others = {
            other: name_of(other, "any-host", PERMITTED)
            for other in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
        }
        if kind is not None:
            others[kind] = name
        topic = others[ResourceType.TOPIC]
        topic_id = self.ids.get(topic, b"no such topic's!")
        return Target(topic, topic_id, others[ResourceType.GROUP], others[ResourceType.TRANSACTIONAL_ID])

    def respond(self, probe: Probe, target: Target, versions: dict[str, int]) -> Flat:
        """Returns the response to the client once coordinators are available."""
        api = BY_NAME[probe.api]
        version = versions[probe.api] if probe.version is None else probe.version
        request: Message = build(api.request, probe.fields(target))
        deadline = time.monotonic() + _DEADLINE_S
        while True:
            try:
                response = self.client.call(request, version)
            except ConnectionClosed:
                self.client.close()
                self.client = WireClient(self.bootstrap, source=CLIENT)
                return {"connection": "closed"}
            if not _error_codes(response) & _NOT_YET or time.monotonic() > deadline:
                break
            time.sleep(0.01)
        if probe.only_denials:
            return {"denials": sorted(_error_codes(response) & _DENIALS)}
        names = Names()
        names.keep("topic", target.topic_id)
        found = flatten(response, version, names)
        return {path: _in_common(value) for path, value in found.items() if not _OF_4_4.search(path)}


def _in_common(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return _CLUSTER_ID.sub("the cluster id", _REQUEST.sub("Request needs", value))
