"""Access rules (ACLs), users with SCRAM credentials, and quotas, where the cluster has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from starlette.requests import Request

from ...admin import acls, quotas, users
from ...client.explained_errors import from_library
from ...client.user_errors import UserError
from ..backend import Backend
from ..parts import Button, Field, Form, Page, Part, Table, Text

if TYPE_CHECKING:
    from ...admin.session import Admin


_MOST_ROWS = 500
_RESOURCES = ("topic", "group", "cluster", "transactional_id", "user")
_OPERATIONS = (
    "all",
    "read",
    "write",
    "create",
    "delete",
    "alter",
    "describe",
    "cluster_action",
    "describe_configs",
    "alter_configs",
    "idempotent_write",
)
_MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256")
_ITERATIONS = 8192
_DEFAULT = "<default>"


def access(backend: Backend, request: Request) -> Page:
    parts: list[Part] = []
    with backend.links.admin() as admin:
        for title, read in (("ACLs", _acls), ("Users", _users), ("Quotas", _quotas)):
            parts.append(_or_reason(title, read, admin))
    return Page("Access", parts, "/access", below=_forms())


def _or_reason(title: str, read: Callable[[Admin], Table], admin: Admin) -> Part:
    """The table, or why this cluster has none: no authorizer, no permission, an older broker."""
    try:
        return read(admin)
    except Exception as error:
        known = error if isinstance(error, UserError) else from_library(error)
        if known is None:
            raise
        return Text(f"{title}: {known}")


def _acls(admin: Admin) -> Table:
    return rules_table(acls.describe_acls(admin, acls.AclFilter()))


def rules_table(rules: Sequence[acls.Acl]) -> Table:
    rows = [
        (
            one.principal,
            one.permission.name.lower(),
            one.operation.name.lower(),
            one.resource_type.name.lower(),
            one.resource_name,
            one.pattern_type.name.lower(),
            one.host,
            Button("Delete", "/access/acls/delete", _fields(one), f"Delete this ACL of {one.principal}?"),
        )
        for one in sorted(rules, key=lambda one: (one.principal, one.resource_name))[:_MOST_ROWS]
    ]
    columns = ("Principal", "Permission", "Operation", "Resource", "Name", "Pattern", "Host", "")
    return Table("ACLs", columns, rows, "No ACLs.", of=len(rules))


def _fields(rule: acls.Acl) -> dict[str, str]:
    return {
        "principal": rule.principal,
        "host": rule.host,
        "operation": rule.operation.name,
        "permission": rule.permission.name,
        "resource": rule.resource_type.name,
        "name": rule.resource_name,
        "pattern": rule.pattern_type.name,
    }


def _users(admin: Admin) -> Table:
    known = users.describe_users(admin)
    rows = [
        (
            user,
            mechanism,
            iterations,
            Button("Delete", "/access/users/delete", {"user": user, "mechanism": mechanism}, f"Delete {user}?"),
        )
        for user, mechanism, iterations in known[:_MOST_ROWS]
    ]
    columns = ("User", "Mechanism", "Iterations", "")
    return Table("Users", columns, rows, "No users with SCRAM credentials.", of=len(known))


def _quotas(admin: Admin) -> Table:
    described = quotas.describe_quotas(admin, {})
    rows = []
    for quota in described[:_MOST_ROWS]:
        entity = {kind: _DEFAULT if name is None else name for kind, name in quota.entity.items()}
        words = " ".join(f"{kind}={name}" for kind, name in sorted(entity.items(), reverse=True))
        for key, value in quota.values.items():
            button = Button("Delete", "/access/quotas/delete", {"key": key, **entity}, f"Delete {key} of {words}?")
            rows.append((words, key, value, button))
    of = sum(len(quota.values) for quota in described)
    return Table("Quotas", ("Entity", "Key", "Value", ""), rows, "No quotas.", of=of)


def _forms() -> list[Form]:
    return [
        Form(
            "Create an ACL",
            "/access/acls",
            [
                Field("principal", "Principal", hint="alice means User:alice", required=True),
                Field("permission", "Permission", "allow", "select", ("allow", "deny")),
                Field("operation", "Operation", "read", "select", _OPERATIONS),
                Field("resource", "Resource", "topic", "select", _RESOURCES),
                Field("name", "Name", hint="* for all resources; leave empty for the cluster"),
                Field("pattern", "Pattern", "literal", "select", ("literal", "prefixed")),
                Field("host", "Host", "*"),
            ],
            "Create",
        ),
        Form(
            "Create a user, or change a password",
            "/access/users",
            [
                Field("user", "User", required=True),
                Field("password", "Password", kind="password", required=True),
                Field("mechanism", "Mechanism", _MECHANISMS[0], "select", _MECHANISMS),
            ],
            "Set",
        ),
        Form(
            "Set a quota",
            "/access/quotas",
            [
                Field("user", "User", hint=f"{_DEFAULT} for the default"),
                Field("client-id", "Client id"),
                Field("ip", "Address"),
                Field("key", "Key", "producer_byte_rate", required=True),
                Field("quota", "Value", kind="number", required=True),
            ],
            "Set",
        ),
    ]
