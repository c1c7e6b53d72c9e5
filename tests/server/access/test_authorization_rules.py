"""The standard authorizer's decisions, compared with a simple implementation of Kafka's rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from odradek.metadata.acls import Operation, PatternType, Permission, ResourceType
from odradek.metadata.configs import InvalidConfig
from odradek.metadata.image import AclImage
from odradek.protocol.messages.fetch import FetchRequest
from odradek.server.access.audit import AuditLog
from odradek.server.access.authorization.access_rules import AccessRules
from odradek.server.access.authorization.authorization import CLASS_KEY, STANDARD_CLASS, Authorization
from odradek.server.access.authorization.requirements import AuthorizerNotReady
from odradek.server.access.authorization.standard_authorizer import StandardAuthorizer
from odradek.server.network.call import Call
from odradek.server.runtime.clock import Clock

from tests.harness.examples import examples
from tests.server.harness.noted_calls import NotedCalls
from tests.server.harness.noted_connection import NotedConnection
from tests.server.harness.other_client import OtherClient

#: No deadline: the time of an example depends on the load of the machine.
EXAMPLES = settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
IMPLIED = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}
NAMES = st.text("ab*", min_size=1, max_size=4)
PRINCIPALS = st.sampled_from(["User:alice", "User:bob", "User:*"])
HOSTS = st.sampled_from(["*", "10.0.0.1", "10.0.0.2"])
OPERATIONS = st.sampled_from([op for op in Operation if op >= Operation.ALL])
TYPES = st.sampled_from([ResourceType.TOPIC, ResourceType.GROUP])
RULES = st.builds(
    AclImage,
    TYPES,
    NAMES,
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    PRINCIPALS,
    HOSTS,
    OPERATIONS,
    st.sampled_from([Permission.DENY, Permission.ALLOW]),
)


def rules_of(rules: Iterable[AclImage], *, tracks_resources: bool = False) -> AccessRules:
    made = AccessRules(tracks_resources=tracks_resources)
    for rule in rules:
        made.add(rule)
    return made


def applies_to(rule: AclImage, kind: int, name: str) -> bool:
    if rule.resource_type != kind:
        return False
    if rule.pattern_type == PatternType.PREFIXED:
        return name.startswith(rule.resource_name)
    # Kafka does not apply the wildcard to a longer name that begins with it.
    return rule.resource_name == name or (rule.resource_name == "*" and not name.startswith("*"))


def plain_decision(rules: Sequence[AclImage], who: str, host: str, op: int, kind: int, name: str) -> bool | None:
    said = None
    for rule in rules:
        if not applies_to(rule, kind, name) or rule.principal not in (who, "User:*") or rule.host not in ("*", host):
            continue
        covered = {rule.operation} if rule.operation != Operation.ALL else {op}
        if rule.permission_type == Permission.DENY and op in covered:
            return False
        if rule.permission_type == Permission.ALLOW and (
            op in covered or rule.operation in IMPLIED.get(Operation(op), ())
        ):
            said = True
    return said


@EXAMPLES
@given(st.lists(RULES, max_size=12, unique=True), PRINCIPALS, HOSTS, OPERATIONS, TYPES, NAMES)
def test_decisions_follow_the_rules(
    rules: list[AclImage], who: str, host: str, op: Operation, kind: ResourceType, name: str
) -> None:
    index = rules_of(rules, tracks_resources=True)
    assert index.decide(who, host, op, kind, name) == plain_decision(rules, who, host, op, kind, name)
    assert index.has_rules(kind, name) == any(applies_to(rule, kind, name) for rule in rules)


@EXAMPLES
@given(st.lists(RULES, max_size=12, unique=True), st.data())
def test_removed_rules_have_no_effect(rules: list[AclImage], data: st.DataObject) -> None:
    index = rules_of(rules, tracks_resources=True)
    gone = data.draw(st.lists(st.sampled_from(rules), unique=True)) if rules else []
    for rule in gone:
        index.remove(rule)
    left = [rule for rule in rules if rule not in gone]
    assert index.count == len(left)
    question = data.draw(st.tuples(PRINCIPALS, HOSTS, OPERATIONS, TYPES, NAMES))
    assert index.decide(*question) == plain_decision(left, *question)
    assert index.may_write_any_topic(*question[:2]) == rules_of(left).may_write_any_topic(*question[:2])


def allow(name: str = "t", **fields: object) -> AclImage:
    rule = AclImage(ResourceType.TOPIC, name, PatternType.LITERAL, "User:alice", "*", Operation.WRITE, Permission.ALLOW)
    return rule._replace(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rules", "may"),
    [
        ([], False),
        ([allow()], True),
        ([allow(operation=Operation.READ)], False),
        ([allow(), allow(permission_type=Permission.DENY)], False),
        ([allow(), allow("*", permission_type=Permission.DENY)], False),
        ([allow("*"), allow("t", pattern_type=PatternType.PREFIXED, permission_type=Permission.DENY)], True),
        ([allow("team-1"), allow("team", pattern_type=PatternType.PREFIXED, permission_type=Permission.DENY)], False),
    ],
)
def test_a_producer_id_needs_one_topic_to_write_to(rules: list[AclImage], may: bool) -> None:
    assert rules_of(rules).may_write_any_topic("User:alice", "10.0.0.1") is may


def test_super_users_are_authorized_before_the_rules_are_known() -> None:
    authorizer = StandardAuthorizer({"super.users": "User:root; User:CN=a,O=b"})
    for who in ("User:root", "User:CN=a,O=b"):
        assert authorizer.decide(who, "10.0.0.1", Operation.CLUSTER_ACTION, ResourceType.CLUSTER, "kafka-cluster")
    with pytest.raises(AuthorizerNotReady):
        authorizer.decide("User:alice", "10.0.0.1", Operation.READ, ResourceType.TOPIC, "t")
    authorizer.rules = AccessRules()
    assert not authorizer.decide("User:alice", "10.0.0.1", Operation.READ, ResourceType.TOPIC, "t")


def test_everyone_is_allowed_where_no_rule_applies() -> None:
    authorizer = StandardAuthorizer({"allow.everyone.if.no.acl.found": "true"})
    authorizer.rules = authorizer.new_rules()
    authorizer.rules.add(allow("ruled"))
    asked = "User:bob", "10.0.0.1", Operation.READ, ResourceType.TOPIC
    assert authorizer.decide(*asked, "free") and not authorizer.decide(*asked, "ruled")


@pytest.mark.parametrize("pattern_type", [PatternType.LITERAL, PatternType.PREFIXED])
def test_everyone_is_allowed_again_when_the_last_rule_of_a_resource_is_removed(pattern_type: PatternType) -> None:
    authorizer = StandardAuthorizer({"allow.everyone.if.no.acl.found": "true"})
    authorizer.rules = authorizer.new_rules()
    rules = [allow(principal=who, pattern_type=pattern_type) for who in ("User:alice", "User:carol")]
    for rule in rules:
        authorizer.rules.add(rule)
    for rule in rules:
        assert not authorizer.decide("User:bob", "10.0.0.1", Operation.READ, ResourceType.TOPIC, "t")
        authorizer.rules.remove(rule)
    assert authorizer.decide("User:bob", "10.0.0.1", Operation.READ, ResourceType.TOPIC, "t")


@pytest.mark.parametrize(
    ("name", "pattern_type", "asked", "applies"),
    [
        ("*", PatternType.LITERAL, "t", True),
        ("*", PatternType.LITERAL, "*", True),
        # In Kafka the wildcard does not apply to a longer name that begins with it.
        ("*", PatternType.LITERAL, "*t", False),
        ("*", PatternType.PREFIXED, "t", False),
        ("*", PatternType.PREFIXED, "*t", True),
        ("t", PatternType.LITERAL, "t", True),
        ("t", PatternType.LITERAL, "tt", False),
        ("t", PatternType.PREFIXED, "t", True),
        ("t", PatternType.PREFIXED, "tt", True),
        ("tt", PatternType.PREFIXED, "t", False),
    ],
)
@pytest.mark.parametrize("allows_without_rules", [True, False])
def test_rule_applies_to_its_name_a_prefix_or_every_name(
    name: str, pattern_type: PatternType, asked: str, applies: bool, allows_without_rules: bool
) -> None:
    properties = {"allow.everyone.if.no.acl.found": "true"} if allows_without_rules else {}
    authorizer = StandardAuthorizer(properties)
    authorizer.rules = authorizer.new_rules()
    authorizer.rules.add(allow(name, pattern_type=pattern_type))
    question = "10.0.0.1", Operation.WRITE, ResourceType.TOPIC, asked
    assert authorizer.decide("User:alice", *question) == (applies or allows_without_rules)
    assert authorizer.decide("User:bob", *question) == (allows_without_rules and not applies)
    reason = authorizer.reason("User:alice", *question)
    assert reason.startswith("MatchingAcl" if applies else "DefaultAllow" if allows_without_rules else "DefaultDeny")


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_rules_at_the_same_place_are_removed_one_by_one(count: int) -> None:
    """They have the same resource, principal and host, and differ in the operation."""
    operations = [Operation.WRITE, Operation.CREATE, Operation.DESCRIBE_CONFIGS, Operation.ALTER][:count]
    rules = rules_of(allow(operation=operation) for operation in operations)
    for gone in range(count + 1):
        decisions = [rules.decide("User:alice", "10.0.0.1", one, ResourceType.TOPIC, "t") for one in operations]
        assert decisions == [None] * gone + [True] * (count - gone)
        assert rules.count == count - gone
        if gone < count:
            rules.remove(allow(operation=operations[gone]))


def test_a_super_user_without_a_type_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="principalType:principalName"):
        StandardAuthorizer({"super.users": "root"})


def test_the_reason_names_the_rule_as_kafka_does() -> None:
    authorizer = StandardAuthorizer({})
    authorizer.rules = rules_of([allow(), allow(operation=Operation.READ, permission_type=Permission.DENY)])
    asked = "User:alice", "10.0.0.1"
    assert authorizer.reason(*asked, Operation.READ, ResourceType.TOPIC, "t") == (
        "MatchingAcl(acl=StandardAcl[resourceType=TOPIC, resourceName=t, patternType=LITERAL, principal=User:alice, "
        "host=*, operation=READ, permissionType=DENY])"
    )
    assert authorizer.reason(*asked, Operation.READ, ResourceType.TOPIC, "other") == "DefaultDeny"


def test_rules_are_listed_in_kafkas_order() -> None:
    """The reason for a decision names the first of them."""
    prefixed, deny = PatternType.PREFIXED, Permission.DENY
    ordered = [
        allow(operation=Operation.ALL, principal="User:alice"),
        allow(principal="User:*", host="10.0.0.1", permission_type=deny),
        allow(host="*"),
        allow(host="10.0.0.1", permission_type=deny),
        allow(host="10.0.0.1"),
        allow(pattern_type=prefixed, operation=Operation.ALL),
        allow(pattern_type=prefixed, principal="User:*"),
        allow("*", operation=Operation.ALL, principal="User:*"),
    ]
    found = rules_of(reversed(ordered)).applying("User:alice", "10.0.0.1", Operation.WRITE, ResourceType.TOPIC, "t")
    assert found == ordered


@pytest.mark.parametrize("principal", ["User:alice", "User:bob"])
@pytest.mark.parametrize("host", ["10.0.0.1", "10.0.0.2"])
def test_session_is_that_of_the_client_of_the_request(principal: str, host: str) -> None:
    """A connection logs in again, or carries requests that another node forwards for its own clients."""
    authorization = Authorization({CLASS_KEY: STANDARD_CLASS}, AuditLog(Clock()))
    connection = NotedConnection()
    connection.principal, connection.client_host = "User:alice", "10.0.0.1"

    def call(principal: str, host: str) -> Call[Any]:
        sent = NotedCalls(connection).call(FetchRequest(), 12)
        sent.client = OtherClient(principal, host)
        return sent

    first = call("User:alice", "10.0.0.1")
    own = authorization.session(first)
    found = authorization.session(call(principal, host))
    assert (found.principal, found.client_host) == (principal, host)
    assert (found is own) == ((principal, host) == ("User:alice", "10.0.0.1"))
    assert authorization.session(first) is own, "the connection's own stays"
