"""Rules and quotas here beside those of a link's source: what the link makes, what it deletes, and by which marks.

The link deletes what it has made itself (`replication/mirror/made.py`), never a rule or a quota of this cluster's own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..metadata.acls import PatternType, ResourceType
from ..replication.mirror.made import mark_of
from .followed_access import EVERY_NAME, changed_quotas
from .quotas import Quota

if TYPE_CHECKING:
    from ..replication.mirror.link import Link
    from .acls import Acl


@dataclass(frozen=True, slots=True)
class RuleChanges:
    """`absent`: rules of the source that are not here; `obsolete`: those that the link has made, and the source has no more.

    `marks`: the link's marks of rules that either side has.
    """

    absent: list[Acl]
    obsolete: list[Acl]
    marks: frozenset[str]


@dataclass(frozen=True, slots=True)
class QuotaChanges:
    """As `RuleChanges`. `changed` has the source's values, `obsolete` those here."""

    changed: list[Quota]
    obsolete: list[Quota]
    marks: frozenset[str]


def mark_of_rule(rule: Acl) -> str:
    return mark_of(
        (
            rule.principal,
            rule.host,
            rule.operation.name,
            rule.permission.name,
            rule.resource_type.name,
            rule.resource_name,
            rule.pattern_type.name,
        )
    )


def marks_of_quota(quota: Quota) -> frozenset[str]:
    """A mark for each value: one that was changed here is not the link's."""
    entity = [f"{kind} {name!r}" for kind, name in sorted(quota.entity.items())]
    return frozenset(mark_of([*entity, key, repr(float(value))]) for key, value in quota.values.items())


def rule_changes(known: Collection[Acl], wanted: Collection[Acl], link: Link, marks: Collection[str]) -> RuleChanges:
    """`known`: the rules here; `wanted`: those of the source, by names here."""
    here, there = set(known), set(wanted)
    by_mark = {mark_of_rule(rule): rule for rule in here | there} if marks else {}
    marked = [rule for mark, rule in by_mark.items() if mark in marks]
    return RuleChanges(
        sorted(there - here),
        sorted(rule for rule in marked if rule not in there and is_of_followed(rule, link)),
        frozenset(by_mark.keys() & set(marks)),
    )


def is_of_followed(rule: Acl, link: Link) -> bool:
    """Whether a rule here may be about what the link follows: it leaves rules about what it followed before."""
    name = rule.resource_name
    if rule.pattern_type is not PatternType.LITERAL or name == EVERY_NAME:
        return True
    there = link.name_there(name)
    return link.follows_topic(there) if rule.resource_type is ResourceType.TOPIC else link.follows_group(there)


def quota_changes(known: Collection[Quota], wanted: Collection[Quota], marks: Collection[str]) -> QuotaChanges:
    """`known`: the quotas here; `wanted`: those of the source."""
    there = {_entity(quota): quota.values for quota in wanted}
    obsolete = []
    for quota in known if marks else ():
        values = {
            key: value
            for key, value in quota.values.items()
            if key not in there.get(_entity(quota), {})
            and marks_of_quota(Quota(quota.entity, {key: value})) & set(marks)
        }
        if values:
            obsolete.append(Quota(quota.entity, values))
    either = marks_of_quotas([*known, *wanted]) if marks else frozenset()
    return QuotaChanges(list(changed_quotas(wanted, known)), obsolete, either & frozenset(marks))


def marks_of_quotas(quotas: Iterable[Quota]) -> frozenset[str]:
    return frozenset[str]().union(*map(marks_of_quota, quotas))


def _entity(quota: Quota) -> frozenset[tuple[str, str | None]]:
    return frozenset(quota.entity.items())


def words_of_rule(rule: Acl) -> str:
    resource = f"{rule.resource_type.name.lower()} {rule.resource_name} ({rule.pattern_type.name.lower()})"
    return f"{rule.permission.name.lower()} {rule.operation.name.lower()} on {resource} for {rule.principal}"


def words_of_quota(entity: Mapping[str, str | None], key: str, value: float) -> str:
    words = ", ".join(f"{kind} {name or '(default)'}" for kind, name in sorted(entity.items()))
    return f"{key} of {words}: {value}"
