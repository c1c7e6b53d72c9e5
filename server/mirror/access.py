"""Rules, quotas and start offsets of share groups that a link follows where an operator chose so. Nothing is deleted here.

Secrets of SCRAM users are shown by no cluster: users that only the source has are named.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from ...admin.acls import Acl, AclFilter, creations, describe_acls
from ...admin.errors import ResponseError
from ...admin.followed_access import absent_users, changed_quotas, followed_rules, followed_share_offsets
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
from ...protocol.messages.quota_entities import EntityData

if TYPE_CHECKING:
    from ...admin.session import Admin, Place
    from ...replication.mirror.link import Link
    from .here import Here

log = logging.getLogger("odradek.mirror")

T = TypeVar("T")
#: Rules and quotas in one request to the controller; the next round sends the others.
_MOST_AT_ONCE = 500
_ACLS, _QUOTAS, _SHARE_GROUPS = "acls", "quotas", "share groups"
_BY_OPERATOR = "no cluster shows its secret: create it here"


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

    def forget(self) -> None:
        """Forgets what was set: another broker does it now."""
        self._set = {}

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
        await self._follow_rules(access.rules, unfollowed)
        await self._follow_quotas(access.quotas, unfollowed)
        skipped = dict(access.skipped)
        for group, offsets in access.share_offsets.items():
            if not await self._follow_share_group(group, offsets, ends, skipped):
                break
        for name in unfollowed.keys() - self.unfollowed.keys():
            log.warning("link %s: %s is not followed: %s", self._link.name, name, unfollowed[name])
        self.unfollowed, self.skipped = unfollowed, skipped

    async def _follow_rules(self, rules: list[Acl], unfollowed: dict[str, str]) -> None:
        known = {
            Acl(
                rule.principal,
                rule.host,
                Operation(rule.operation),
                Permission(rule.permission_type),
                ResourceType(rule.resource_type),
                rule.resource_name,
                PatternType(rule.pattern_type),
            )
            for rule in self._here.node.metadata.image.acls.values()
        }
        absent = [rule for rule in followed_rules(rules, self._link) if rule not in known]
        if absent:
            request = creations(absent[:_MOST_AT_ONCE])
            response = await self._here.decide(request, request.newest_version(), CreateAclsResponse)
            _note_error(_ACLS, ((one.error_code, one.error_message) for one in response.results), unfollowed)

    async def _follow_quotas(self, quotas: list[Quota], unfollowed: dict[str, str]) -> None:
        known = [
            Quota(dict(entity), dict(values)) for entity, values in self._here.node.metadata.image.client_quotas.items()
        ]
        changed = list(changed_quotas(quotas, known))
        if changed:
            entries = [
                EntryDataRequest(
                    entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in quota.entity.items()],
                    ops=[OpData(key=key, value=value, remove=False) for key, value in quota.values.items()],
                )
                for quota in changed[:_MOST_AT_ONCE]
            ]
            request = AlterClientQuotasRequest(entries=entries)
            response = await self._here.decide(request, request.newest_version(), AlterClientQuotasResponse)
            _note_error(_QUOTAS, ((one.error_code, one.error_message) for one in response.entries), unfollowed)

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


def _note_error(kind: str, results: Iterable[tuple[int, str | None]], unfollowed: dict[str, str]) -> None:
    """Notes the first error of a change."""
    for code, message in results:
        if code:
            unfollowed[kind] = message or ErrorCode(code).name
            return
