"""Rules, quotas and start offsets of share groups, copied from a link's source at an operator's choice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from ..client.errors import RequestFailed
from ..metadata.acls import PatternType, ResourceType
from .acls import Acl, AclFilter, create_acls, describe_acls
from .groups import list_groups
from .quotas import alter_quotas, describe_quotas
from .share_offsets import alter_share_offsets, share_start_offsets
from .users import describe_users

if TYPE_CHECKING:
    from ..replication.mirror.link import Link
    from .session import Admin

#: Rules in one request.
_AT_ONCE = 500
_EVERY_NAME = "*"


def copy_acls(here: Admin, source: Admin, link: Link, *, dry_run: bool) -> list[Acl]:
    """Creates the source's rules about followed topics and groups that are not here. Returns them; none is deleted."""
    known = set(describe_acls(here, AclFilter()))
    wanted = [one for one in _followed_rules(describe_acls(source, AclFilter()), link) if one not in known]
    for start in range(0, 0 if dry_run else len(wanted), _AT_ONCE):
        create_acls(here, wanted[start : start + _AT_ONCE])
    return wanted


def _followed_rules(rules: list[Acl], link: Link) -> Iterator[Acl]:
    """The rules by names here. Those of all names or of a prefix may be about a followed topic or group, too."""
    for rule in rules:
        if rule.resource_type not in (ResourceType.TOPIC, ResourceType.GROUP):
            continue
        name = rule.resource_name
        is_literal = rule.pattern_type is PatternType.LITERAL and name != _EVERY_NAME
        follows = link.follows_topic if rule.resource_type is ResourceType.TOPIC else link.follows_group
        if is_literal and not follows(name):
            continue
        if link.prefix and name == _EVERY_NAME:
            yield replace(rule, resource_name=link.prefix, pattern_type=PatternType.PREFIXED)
        else:
            yield replace(rule, resource_name=link.name_here(name))


def copy_quotas(here: Admin, source: Admin, *, dry_run: bool) -> list[str]:
    """Sets the source's quotas of users, client ids and addresses here. Returns them in words."""
    changed = []
    for quota in describe_quotas(source, {}):
        known = next((one.values for one in describe_quotas(here, quota.entity) if one.entity == quota.entity), {})
        values: dict[str, float | None] = {key: one for key, one in quota.values.items() if known.get(key) != one}
        if values:
            alter_quotas(here, quota.entity, values, validate_only=dry_run)
            entity = ", ".join(f"{kind} {name or '(default)'}" for kind, name in sorted(quota.entity.items()))
            changed += [f"{key} of {entity}: {value}" for key, value in sorted(values.items())]
    return changed


def copy_share_groups(
    here: Admin, source: Admin, link: Link, skipped: dict[str, str], *, dry_run: bool
) -> dict[str, int]:
    """Sets the start offsets of followed share groups. Returns the number of partitions of each; `skipped` gets reasons."""
    copied: dict[str, int] = {}
    for group in list_groups(source):
        if group.kind != "share" or not link.follows_group(group.group_id):
            continue
        name = link.name_here(group.group_id)
        try:
            offsets = {
                (link.name_here(topic), index): offset
                for (topic, index), offset in share_start_offsets(source, group.group_id).items()
                if link.follows_topic(topic)
            }
            if offsets and not dry_run:
                alter_share_offsets(here, name, offsets)
        except RequestFailed as error:
            skipped[name] = str(error)
        else:
            copied[name] = len(offsets)
    return copied


def missing_users(here: Admin, source: Admin) -> list[str]:
    """The SCRAM credentials that only the source has. No cluster shows a password or its hash: an operator brings them."""
    known = {(one.user, one.mechanism) for one in describe_users(here)}
    return [f"{one.user} ({one.mechanism})" for one in describe_users(source) if (one.user, one.mechanism) not in known]
