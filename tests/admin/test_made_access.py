"""Rules and quotas that a link makes and deletes: its own, and no others."""

from __future__ import annotations

import pytest
from odradek.admin.acls import Acl
from odradek.admin.made_access import (
    mark_of_rule,
    marks_of_quota,
    marks_of_quotas,
    quota_changes,
    rule_changes,
)
from odradek.admin.quotas import Quota
from odradek.metadata.acls import Operation, PatternType, Permission, ResourceType
from odradek.replication.mirror.link import parse_link

LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
LINK = parse_link("dr", {"bootstrap.servers": "a:1", "topics": "orders", "groups": "app", "prefix": "eu."})


def rule(name: str, pattern: PatternType = LITERAL, kind: ResourceType = ResourceType.TOPIC) -> Acl:
    return Acl("User:alice", "*", Operation.READ, Permission.ALLOW, kind, name, pattern)


@pytest.mark.parametrize(
    "made",
    [rule("eu.orders"), rule("eu.", PREFIXED), rule("*"), rule("eu.app", kind=ResourceType.GROUP)],
    ids=lambda one: one.resource_name,
)
def test_marked_rule_that_the_source_has_no_more_is_obsolete(made: Acl) -> None:
    marks = {mark_of_rule(made)}
    assert rule_changes([made], [made], LINK, marks).obsolete == []
    changes = rule_changes([made], [], LINK, marks)
    assert changes.obsolete == [made] and changes.marks == marks
    assert rule_changes([made], [], LINK, ()).obsolete == [], "a rule of this cluster's own"
    assert rule_changes([], [], LINK, marks).marks == frozenset(), "the mark of a rule that nobody has is dropped"
    assert rule_changes([], [made], LINK, marks).absent == [made]


@pytest.mark.parametrize("name", ["eu.bills", "eu.orders2"])
def test_rule_about_a_topic_that_the_link_follows_no_more_stays(name: str) -> None:
    made = rule(name)
    changes = rule_changes([made], [], LINK, {mark_of_rule(made)})
    assert changes.obsolete == [] and changes.marks


def test_every_field_of_a_rule_is_in_its_mark() -> None:
    one = rule("eu.orders")
    others = [
        Acl("User:bob", one.host, one.operation, one.permission, one.resource_type, one.resource_name, LITERAL),
        Acl(one.principal, "1.1.1.1", one.operation, one.permission, one.resource_type, one.resource_name, LITERAL),
        Acl(one.principal, one.host, Operation.WRITE, one.permission, one.resource_type, one.resource_name, LITERAL),
        Acl(one.principal, one.host, one.operation, Permission.DENY, one.resource_type, one.resource_name, LITERAL),
        rule("eu.orders", kind=ResourceType.GROUP),
        rule("eu.orders2"),
        rule("eu.orders", PREFIXED),
    ]
    assert len({mark_of_rule(each) for each in [one, *others]}) == len(others) + 1


ALICE: dict[str, str | None] = {"user": "alice", "client-id": None}


def test_marked_quota_that_the_source_has_no_more_is_obsolete() -> None:
    made = Quota(ALICE, {"producer_byte_rate": 1.0, "consumer_byte_rate": 2.0})
    marks = marks_of_quota(made)
    there = Quota(ALICE, {"consumer_byte_rate": 2.0})
    changes = quota_changes([made], [there], marks)
    assert changes.obsolete == [Quota(ALICE, {"producer_byte_rate": 1.0})] and changes.changed == []
    assert changes.marks == marks
    assert quota_changes([there], [there], marks).marks == marks_of_quota(there)


def test_quota_of_this_cluster_is_not_obsolete() -> None:
    made, own = Quota(ALICE, {"producer_byte_rate": 1.0}), Quota({"user": "own"}, {"producer_byte_rate": 1.0})
    changed = Quota(ALICE, {"producer_byte_rate": 5.0})
    assert quota_changes([own], [], marks_of_quota(made)).obsolete == []
    assert quota_changes([changed], [], marks_of_quota(made)).obsolete == [], "an operator has changed its value"
    assert len(marks_of_quotas([made, own, changed])) == 3
