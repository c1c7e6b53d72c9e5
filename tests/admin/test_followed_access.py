"""Rules of a link's source, by the names of the cluster that follows it."""

from __future__ import annotations

import pytest
from odradek.admin.acls import Acl
from odradek.admin.followed_access import followed_rules
from odradek.metadata.acls import Operation, PatternType, Permission, ResourceType
from odradek.replication.mirror.link import parse_link

LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED


def rule(name: str, pattern: PatternType) -> Acl:
    return Acl("User:alice", "*", Operation.READ, Permission.ALLOW, ResourceType.TOPIC, name, pattern)


@pytest.mark.parametrize(
    ("prefixes", "there", "here"),
    [
        ({}, ("orders", LITERAL), ("orders", LITERAL)),
        ({}, ("bills", LITERAL), None),
        ({}, ("or", PREFIXED), ("or", PREFIXED)),
        ({}, ("*", LITERAL), ("*", LITERAL)),
        ({"prefix": "eu."}, ("orders", LITERAL), ("eu.orders", LITERAL)),
        ({"prefix": "eu."}, ("or", PREFIXED), ("eu.or", PREFIXED)),
        ({"prefix": "eu."}, ("*", LITERAL), ("eu.", PREFIXED)),
        ({"source.prefix": "eu."}, ("eu.orders", LITERAL), ("orders", LITERAL)),
        ({"source.prefix": "eu."}, ("orders", LITERAL), None),
        ({"source.prefix": "eu."}, ("eu.or", PREFIXED), ("or", PREFIXED)),
        ({"source.prefix": "eu."}, ("e", PREFIXED), ("*", LITERAL)),
        ({"source.prefix": "eu."}, ("or", PREFIXED), None),
        ({"source.prefix": "eu.", "prefix": "us."}, ("eu.", PREFIXED), ("us.", PREFIXED)),
    ],
)
def test_rule_is_about_the_same_topics_here(
    prefixes: dict[str, str], there: tuple[str, PatternType], here: tuple[str, PatternType] | None
) -> None:
    link = parse_link("dr", {"bootstrap.servers": "a:1", "topics": "orders"} | prefixes)
    assert list(followed_rules([rule(*there)], link)) == ([rule(*here)] if here is not None else [])
