"""Rules, quotas, start offsets of share groups and users of a link's source: what of them this cluster should have.

A command copies it (`copied_access.py`), and links follow it (`server/mirror/access.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from ..client.errors import RequestFailed
from ..metadata.acls import PatternType, ResourceType
from .groups import list_groups
from .quotas import Quota
from .share_offsets import share_start_offsets

if TYPE_CHECKING:
    from ..replication.mirror.link import Link
    from .acls import Acl
    from .places import Place
    from .session import Admin
    from .users import ScramUser

EVERY_NAME = "*"


def followed_rules(rules: Iterable[Acl], link: Link) -> Iterator[Acl]:
    """The source's rules about followed topics and groups, by names here. Those of all names or of a prefix may be about a
    followed topic or group, too.
    """
    for rule in rules:
        if rule.resource_type not in (ResourceType.TOPIC, ResourceType.GROUP):
            continue
        name = rule.resource_name
        is_of_all = name == EVERY_NAME or (
            rule.pattern_type is PatternType.PREFIXED and link.source_prefix.startswith(name)
        )
        if is_of_all and link.prefix:
            yield replace(rule, resource_name=link.prefix, pattern_type=PatternType.PREFIXED)
        elif is_of_all:
            yield replace(rule, resource_name=EVERY_NAME, pattern_type=PatternType.LITERAL)
        elif rule.pattern_type is PatternType.PREFIXED:
            if name.startswith(link.source_prefix):
                yield replace(rule, resource_name=link.name_here(name))
        elif link.follows_topic(name) if rule.resource_type is ResourceType.TOPIC else link.follows_group(name):
            yield replace(rule, resource_name=link.name_here(name))


def changed_quotas(quotas: Iterable[Quota], known: Iterable[Quota]) -> Iterator[Quota]:
    """The source's quotas that are not `known`, or have other values there."""
    values_here = {frozenset(one.entity.items()): one.values for one in known}
    for quota in quotas:
        here = values_here.get(frozenset(quota.entity.items()), {})
        values = {key: value for key, value in quota.values.items() if here.get(key) != value}
        if values:
            yield Quota(quota.entity, values)


def followed_share_offsets(source: Admin, link: Link, unreadable: dict[str, str]) -> dict[str, dict[Place, int]]:
    """The start offsets of followed share groups in followed topics, by names here; `unreadable` gets the other groups."""
    found: dict[str, dict[Place, int]] = {}
    for group in list_groups(source):
        if group.kind != "share" or not link.follows_group(group.group_id):
            continue
        name = link.name_here(group.group_id)
        try:
            found[name] = {
                (link.name_here(topic), index): offset
                for (topic, index), offset in share_start_offsets(source, group.group_id).items()
                if link.follows_topic(topic)
            }
        except RequestFailed as error:
            unreadable[name] = str(error)
    return found


def absent_users(users: Iterable[ScramUser], known: Collection[tuple[str, str]]) -> list[str]:
    """The SCRAM credentials that only the source has; `known`: users and mechanisms. No cluster shows a password or its
    hash: an operator brings them.
    """
    return [f"{one.user} ({one.mechanism})" for one in users if (one.user, one.mechanism) not in known]
