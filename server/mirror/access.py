"""Rules, quotas and start offsets of share groups that a link follows where an operator chose so.

Rules and quotas that the link has made are deleted with those of the source, and no others are.

Secrets of SCRAM users are shown by no cluster: users that only the source has are named.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

from ...admin.acls import Acl, AclFilter, creations, deletions, describe_acls, filter_of
from ...admin.errors import ResponseError
from ...admin.followed_access import absent_users, followed_rules, followed_share_offsets
from ...admin.made_access import mark_of_rule, marks_of_quotas, quota_changes, rule_changes
from ...admin.quotas import Quota, describe_quotas
from ...admin.share_offsets import check_altered
from ...admin.users import ScramUser, describe_users
from ...client.errors import RequestFailed
from ...metadata.acls import Operation, PatternType, Permission, ResourceType
from ...metadata.credentials import BY_CODE
from ...protocol.errors import ErrorCode
from ...protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntryDataRequest,
    OpData,
)
from ...protocol.messages.create_acls import CreateAclsResponse
from ...protocol.messages.delete_acls import DeleteAclsResponse
from ...protocol.messages.quota_entities import EntityData
from ...replication.mirror.made import MadeKind
from .link_marks import LinkMarks
from .portions import Portions

if TYPE_CHECKING:
    from ...admin.places import Place
    from ...admin.session import Admin
    from ...metadata.image import AclImage
    from ...replication.mirror.link import Link
    from .here import Here

log = logging.getLogger("odradek.mirror")

T = TypeVar("T")
#: Rules and quotas in one request to the controller; the next round sends the others.
_MOST_AT_ONCE = 500
_ACLS, _QUOTAS, _SHARE_GROUPS = "acls", "quotas", "share groups"
_BY_OPERATOR = "no cluster shows its secret: create it here"


class _Result(Protocol):
    """The outcome of a change."""

    error_code: int
    error_message: str | None


@dataclass(slots=True)
class SourceAccess:
    """Rules, quotas, users and share groups of the source. `unreadable`: kinds that could not be read, and `skipped`: share
    groups, with reasons.
    """

    rules: list[Acl] = field(default_factory=list)
    quotas: list[Quota] = field(default_factory=list)
    users: list[ScramUser] = field(default_factory=list)
    share_offsets: dict[str, dict[Place, int]] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)


class LinkAccess:
    """The rules, quotas and share groups of one link.

    `unfollowed`: kinds and users, and `skipped`: share groups by their names here, that are not followed, with the reasons.
    """

    def __init__(self, link: Link, here: Here) -> None:
        self.unfollowed: dict[str, str] = {}
        self.skipped: dict[str, str] = {}
        self._link = link
        self._here = here
        #: Start offsets that were set, by groups.
        self._set: dict[str, dict[Place, int]] = {}
        self._rule_marks = LinkMarks(link.name, MadeKind.ACLS, here)
        self._quota_marks = LinkMarks(link.name, MadeKind.QUOTAS, here)
        self._creating: Portions[Acl] = Portions(_MOST_AT_ONCE, repr)
        self._deleting: Portions[Acl] = Portions(_MOST_AT_ONCE, repr)
        self._setting: Portions[Quota] = Portions(_MOST_AT_ONCE, _order_of)
        self._removing: Portions[Quota] = Portions(_MOST_AT_ONCE, _order_of)

    def forget(self) -> None:
        """Forgets what was set: another broker does it now."""
        self._set = {}
        self._rule_marks.forget()
        self._quota_marks.forget()

    @property
    def is_chosen(self) -> bool:
        link = self._link
        return link.follows_acls or link.follows_quotas or link.follows_share_groups

    def read(self, source: Admin) -> SourceAccess:
        """Blocks, in the link's thread."""
        link, found = self._link, SourceAccess()

        def tried(kind: str, call: Callable[[], T], default: T) -> T:
            try:
                return call()
            except RequestFailed as error:
                found.unreadable[kind] = str(error)
                return default

        if link.follows_acls:
            found.rules = tried(_ACLS, lambda: describe_acls(source, AclFilter()), [])
            found.users = tried("SCRAM users", lambda: describe_users(source), [])
        if link.follows_quotas:
            found.quotas = tried(_QUOTAS, lambda: describe_quotas(source, {}), [])
        if link.follows_share_groups:
            found.share_offsets = tried(_SHARE_GROUPS, lambda: followed_share_offsets(source, link, found.skipped), {})
        return found

    async def follow(self, access: SourceAccess, ends: Mapping[Place, int]) -> None:
        """Changes what differs here. `ends`: the replicated ends of mirrored partitions, which no start offset passes."""
        image = self._here.node.metadata.image
        unfollowed = dict(access.unreadable)
        scram = {(user, BY_CODE[code].name) for user, code in image.scram if code in BY_CODE}
        unfollowed |= {f"SCRAM user {user}": _BY_OPERATOR for user in absent_users(access.users, scram)}
        # Rules that could not be read are not gone.
        if self._link.follows_acls and _ACLS not in access.unreadable:
            await self._follow_rules(access.rules, unfollowed)
        if self._link.follows_quotas and _QUOTAS not in access.unreadable:
            await self._follow_quotas(access.quotas, unfollowed)
        skipped = dict(access.skipped)
        for group, offsets in access.share_offsets.items():
            if not await self._follow_share_group(group, offsets, ends, skipped):
                break
        for name in unfollowed.keys() - self.unfollowed.keys():
            log.warning("link %s: %s is not followed: %s", self._link.name, name, unfollowed[name])
        self.unfollowed, self.skipped = unfollowed, skipped

    async def _follow_rules(self, rules: list[Acl], unfollowed: dict[str, str]) -> None:
        image, marks = self._here.node.metadata.image, self._rule_marks
        known = marks.read()
        changes = await asyncio.to_thread(
            lambda: rule_changes(
                [_rule_of(rule) for rule in image.acls.values()],
                list(followed_rules(rules, self._link)),
                self._link,
                known,
            )
        )
        absent, obsolete = self._creating.portion(changes.absent), self._deleting.portion(changes.obsolete)
        kept = changes.marks.union(map(mark_of_rule, absent))
        await _write(marks, kept, unfollowed)
        gone: list[Acl] = []
        if absent:
            request = creations(absent)
            response = await self._here.decide(request, request.newest_version(), CreateAclsResponse)
            gone = _refused(_ACLS, absent, response.results, unfollowed)
        if obsolete:
            deletion = deletions([filter_of(rule) for rule in obsolete])
            deleted = await self._here.decide(deletion, deletion.newest_version(), DeleteAclsResponse)
            results: list[_Result] = [
                next((one for one in each.matching_acls if one.error_code), each) for each in deleted.filter_results
            ]
            kept_here = _refused(_ACLS, obsolete, results, unfollowed)
            gone += [rule for rule in obsolete if rule not in kept_here]
        if gone:
            # At once: a rule that an operator makes from now on is no link's.
            await _write(marks, kept.difference(map(mark_of_rule, gone)), unfollowed)

    async def _follow_quotas(self, quotas: list[Quota], unfollowed: dict[str, str]) -> None:
        image, marks = self._here.node.metadata.image, self._quota_marks
        known = marks.read()
        changes = await asyncio.to_thread(
            lambda: quota_changes(
                [Quota(dict(entity), dict(values)) for entity, values in image.client_quotas.items()], quotas, known
            )
        )
        changed, obsolete = self._setting.portion(changes.changed), self._removing.portion(changes.obsolete)
        kept = changes.marks | marks_of_quotas(changed)
        await _write(marks, kept, unfollowed)
        gone = await self._alter_quotas(changed, unfollowed, remove=False) if changed else []
        if obsolete:
            kept_here = await self._alter_quotas(obsolete, unfollowed, remove=True)
            gone += [quota for quota in obsolete if quota not in kept_here]
        if gone:
            await _write(marks, kept - marks_of_quotas(gone), unfollowed)

    async def _alter_quotas(self, quotas: list[Quota], unfollowed: dict[str, str], *, remove: bool) -> list[Quota]:
        """Sets or removes values. Returns the quotas for which that was refused."""
        entries = [
            EntryDataRequest(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in quota.entity.items()],
                ops=[OpData(key=key, value=value, remove=remove) for key, value in quota.values.items()],
            )
            for quota in quotas
        ]
        request = AlterClientQuotasRequest(entries=entries)
        response = await self._here.decide(request, request.newest_version(), AlterClientQuotasResponse)
        results = {
            frozenset((one.entity_type, one.entity_name) for one in entry.entity): entry for entry in response.entries
        }
        return _refused(_QUOTAS, quotas, [results[frozenset(one.entity.items())] for one in quotas], unfollowed)

    async def _follow_share_group(
        self, group: str, offsets: Mapping[Place, int], ends: Mapping[Place, int], skipped: dict[str, str]
    ) -> bool:
        """Returns whether the group's coordinator has responded: each that does not takes the time of a whole request."""
        reached = self._here.reached(self._link.name, offsets, ends)
        if not reached or reached == self._set.get(group):
            return True
        response = await self._here.alter_share_offsets(group, reached)
        if response is None:
            skipped[group] = "its coordinator does not respond"
            return False
        try:
            check_altered(group, response)
            self._set[group] = reached
        except ResponseError as error:
            has_members = error.code == ErrorCode.NON_EMPTY_GROUP
            skipped[group] = "it has members here" if has_members else str(error)
        return True


def _rule_of(rule: AclImage) -> Acl:
    return Acl(
        rule.principal,
        rule.host,
        Operation(rule.operation),
        Permission(rule.permission_type),
        ResourceType(rule.resource_type),
        rule.resource_name,
        PatternType(rule.pattern_type),
    )


async def _write(marks: LinkMarks, wanted: frozenset[str], unfollowed: dict[str, str]) -> None:
    reason = await marks.write(wanted)
    if reason:
        unfollowed["the deletion of rules and quotas"] = reason


def _order_of(quota: Quota) -> str:
    return repr(sorted(quota.entity.items()))


def _refused(kind: str, items: Sequence[T], results: Iterable[_Result], unfollowed: dict[str, str]) -> list[T]:
    """Returns the items of changes that were refused, and notes the first reason."""
    found = []
    for item, result in zip(items, results, strict=True):
        if result.error_code:
            unfollowed.setdefault(kind, result.error_message or ErrorCode(result.error_code).name)
            found.append(item)
    return found
