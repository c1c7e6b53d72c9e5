"""Rules, quotas and start offsets of share groups, copied once from a link's source. Nothing is deleted here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..client.errors import RequestFailed
from .acls import Acl, AclFilter, create_acls, describe_acls
from .followed_access import absent_users, changed_quotas, followed_rules, followed_share_offsets
from .made_access import words_of_quota
from .quotas import alter_quotas, describe_quotas
from .share_offsets import alter_share_offsets
from .users import describe_users

if TYPE_CHECKING:
    from ..replication.mirror.link import Link
    from .session import Admin

#: Rules in one request.
_AT_ONCE = 500


def copy_acls(here: Admin, source: Admin, link: Link, *, dry_run: bool) -> list[Acl]:
    """Creates the source's rules about followed topics and groups that are not here. Returns them."""
    known = set(describe_acls(here, AclFilter()))
    wanted = [one for one in followed_rules(describe_acls(source, AclFilter()), link) if one not in known]
    for start in range(0, 0 if dry_run else len(wanted), _AT_ONCE):
        create_acls(here, wanted[start : start + _AT_ONCE])
    return wanted


def copy_quotas(here: Admin, source: Admin, *, dry_run: bool) -> list[str]:
    """Sets the source's quotas of users, client ids and addresses here. Returns them in words."""
    changed = []
    for quota in changed_quotas(describe_quotas(source, {}), describe_quotas(here, {})):
        alter_quotas(here, quota.entity, quota.values, validate_only=dry_run)
        changed += [words_of_quota(quota.entity, key, value) for key, value in sorted(quota.values.items())]
    return changed


def copy_share_groups(
    here: Admin, source: Admin, link: Link, skipped: dict[str, str], *, dry_run: bool
) -> dict[str, int]:
    """Sets the start offsets of followed share groups. Returns the number of partitions of each; `skipped` gets reasons."""
    copied: dict[str, int] = {}
    for name, offsets in followed_share_offsets(source, link, skipped).items():
        try:
            if offsets and not dry_run:
                alter_share_offsets(here, name, offsets)
        except RequestFailed as error:
            skipped[name] = str(error)
        else:
            copied[name] = len(offsets)
    return copied


def missing_users(here: Admin, source: Admin) -> list[str]:
    """The SCRAM credentials that only the source has."""
    return absent_users(describe_users(source), {(one.user, one.mechanism) for one in describe_users(here)})
