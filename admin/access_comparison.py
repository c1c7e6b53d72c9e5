"""Rules and quotas that a link follows, compared with those of its source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..client.errors import RequestFailed
from ..replication.mirror.made import MadeKind
from .acls import AclFilter, describe_acls
from .followed_access import followed_rules
from .made_access import quota_changes, rule_changes, words_of_quota, words_of_rule
from .mirrors import read_made
from .quotas import Quota, describe_quotas

if TYPE_CHECKING:
    from ..replication.mirror.link import Link
    from .session import Admin


def access_differences(here: Admin, source: Admin, link: Link) -> list[str]:
    """The differences in words. Rules and quotas of this cluster's own, which the link has not made, are none."""
    found: list[str] = []
    for is_followed, differences in (
        (link.follows_acls, _of_rules),
        (link.follows_quotas, _of_quotas),
    ):
        try:
            found += differences(here, source, link) if is_followed else ()
        except RequestFailed as error:
            found.append(f"rules and quotas cannot be compared: {error}")
    return found


def _of_rules(here: Admin, source: Admin, link: Link) -> Iterator[str]:
    wanted = list(followed_rules(describe_acls(source, AclFilter()), link))
    marks = read_made(here, link.name, MadeKind.ACLS)
    changes = rule_changes(describe_acls(here, AclFilter()), wanted, link, marks)
    for rule in changes.absent:
        yield f"rule only at the source: {words_of_rule(rule)}"
    for rule in changes.obsolete:
        yield f"rule of the link only here: {words_of_rule(rule)}"


def _of_quotas(here: Admin, source: Admin, link: Link) -> Iterator[str]:
    known = describe_quotas(here, {})
    changes = quota_changes(known, describe_quotas(source, {}), read_made(here, link.name, MadeKind.QUOTAS))
    for quota in changes.changed:
        yield from _words("quota at the source, not here", quota)
    for quota in changes.obsolete:
        yield from _words("quota of the link only here", quota)


def _words(difference: str, quota: Quota) -> Iterator[str]:
    for key, value in sorted(quota.values.items()):
        yield f"{difference}: {words_of_quota(quota.entity, key, value)}"
