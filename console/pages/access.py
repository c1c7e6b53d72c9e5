"""Access rules (ACLs), users with SCRAM credentials, and quotas, where the cluster has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from starlette.requests import Request

from ...cli.client.admin import api_error, ask, check
from ...cli.client.errors import CommandError, Misused, from_library
from ..actions import Done, required
from ..actions import Form as Fields
from ..backend import Backend
from ..parts import Button, Field, Form, Page, Part, Table, Text

if TYPE_CHECKING:
    from kafka.admin import ACL, ACLFilter

    from ...cli.client.admin import AdminClient
    from ...protocol.messages.client_quotas import DescribeClientQuotasResponse


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


def _or_reason(title: str, read: Callable[[AdminClient], Table], admin: AdminClient) -> Part:
    """The table, or why this cluster has none: no authorizer, no permission, an older broker."""
    try:
        return read(admin)
    except Exception as error:
        known = error if isinstance(error, CommandError) else from_library(error)
        if known is None:
            raise
        return Text(f"{title}: {known}")


def _acls(admin: AdminClient) -> Table:
    found, error = admin.describe_acls(_filter())
    if error.errno:
        raise api_error("rules", error.errno)
    rows = [
        (
            one.principal,
            one.permission_type.name.lower(),
            one.operation.name.lower(),
            one.resource_pattern.resource_type.name.lower(),
            one.resource_pattern.resource_name,
            one.resource_pattern.pattern_type.name.lower(),
            one.host,
            Button("Delete", "/access/acls/delete", _fields(one), f"Delete this ACL of {one.principal}?"),
        )
        for one in sorted(found, key=lambda one: (one.principal, one.resource_pattern.resource_name))[:_MOST_ROWS]
    ]
    columns = ("Principal", "Permission", "Operation", "Resource", "Name", "Pattern", "Host", "")
    return Table("ACLs", columns, rows, "No ACLs.", of=len(found))


def _filter() -> ACLFilter:
    from kafka.admin import (
        ACLFilter,
        ACLOperation,
        ACLPermissionType,
        ACLResourcePatternType,
        ResourcePatternFilter,
        ResourceType,
    )

    pattern = ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY)
    return ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, pattern)


def _fields(one: ACL) -> dict[str, str]:
    pattern = one.resource_pattern
    return {
        "principal": one.principal,
        "host": one.host,
        "operation": one.operation.name,
        "permission": one.permission_type.name,
        "resource": pattern.resource_type.name,
        "name": pattern.resource_name,
        "pattern": pattern.pattern_type.name,
    }


def _users(admin: AdminClient) -> Table:
    known = sorted(admin.describe_user_scram_credentials().items())
    rows = [
        (
            user,
            str(one["mechanism"].name).replace("_", "-"),
            one["iterations"],
            Button(
                "Delete",
                "/access/users/delete",
                {"user": user, "mechanism": str(one["mechanism"].name)},
                f"Delete {user}?",
            ),
        )
        for user, described in known[:_MOST_ROWS]
        for one in described["credential_infos"]
    ]
    of = sum(len(described["credential_infos"]) for _, described in known)
    return Table("Users", ("User", "Mechanism", "Iterations", ""), rows, "No users with SCRAM credentials.", of=of)


def _quotas(admin: AdminClient) -> Table:
    from ...protocol.messages.client_quotas import DescribeClientQuotasRequest

    response: DescribeClientQuotasResponse = admin.repeated(
        lambda: ask(admin, DescribeClientQuotasRequest(components=[], strict=False))
    )
    check("quotas", response.error_code, response.error_message)
    rows = []
    for entry in (response.entries or ())[:_MOST_ROWS]:
        entity = {one.entity_type: _DEFAULT if one.entity_name is None else one.entity_name for one in entry.entity}
        words = " ".join(f"{kind}={name}" for kind, name in sorted(entity.items(), reverse=True))
        for value in entry.values:
            fields = {"key": value.key, **entity}
            button = Button("Delete", "/access/quotas/delete", fields, f"Delete {value.key} of {words}?")
            rows.append((words, value.key, value.value, button))
    of = sum(len(entry.values) for entry in response.entries or ())
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


# ---- changes


def _acl(form: Fields) -> ACL:
    from kafka.admin import (
        ACL,
        ACLOperation,
        ACLPermissionType,
        ACLResourcePatternType,
        ResourcePattern,
        ResourceType,
    )

    principal, resource = required(form, "principal"), required(form, "resource").upper()
    try:
        pattern = ResourcePattern(
            ResourceType[resource],
            "kafka-cluster" if resource == "CLUSTER" else required(form, "name"),
            ACLResourcePatternType[required(form, "pattern").upper()],
        )
        return ACL(
            principal if ":" in principal else f"User:{principal}",
            form.get("host", "").strip() or "*",
            ACLOperation[required(form, "operation").upper()],
            ACLPermissionType[required(form, "permission").upper()],
            pattern,
        )
    except KeyError as error:
        raise Misused(f"{error} is not a known value") from None


def create_acl(backend: Backend, form: Fields) -> Done:
    rule = _acl(form)
    with backend.links.admin() as admin:
        failed = admin.create_acls([rule])["failed"]
    if failed:
        raise api_error("rule", failed[0].errno)
    return Done(f"The ACL of {rule.principal} was created.", "/access")


def delete_acl(backend: Backend, form: Fields) -> Done:
    rule = _acl(form)
    with backend.links.admin() as admin:
        for _, _, error in admin.delete_acls([rule]):
            if error.errno:
                raise api_error("rule", error.errno)
    return Done(f"The ACL of {rule.principal} was deleted.", "/access")


def set_user(backend: Backend, form: Fields) -> Done:
    from kafka.admin import UserScramCredentialUpsertion

    name, password, mechanism = required(form, "user"), form.get("password", ""), required(form, "mechanism")
    if not password or mechanism not in _MECHANISMS:
        raise Misused("give a password and a mechanism")
    with backend.links.admin() as admin:
        wanted = UserScramCredentialUpsertion(name, mechanism, password, _ITERATIONS)
        _check_user(name, admin.alter_user_scram_credentials([wanted]))
    return Done(f"The credentials of {name} were set.", "/access")


def delete_user(backend: Backend, form: Fields) -> Done:
    from kafka.admin import UserScramCredentialDeletion

    name, mechanism = required(form, "user"), required(form, "mechanism").replace("_", "-")
    with backend.links.admin() as admin:
        _check_user(name, admin.alter_user_scram_credentials([UserScramCredentialDeletion(name, mechanism)]))
    return Done(f"The {mechanism} credentials of {name} were deleted.", "/access")


def _check_user(name: str, response: dict[str, str | None]) -> None:
    if response.get(name) is not None:
        raise CommandError(f"user {name}: {response[name]}")


def set_quota(backend: Backend, form: Fields) -> Done:
    text = required(form, "quota")
    try:
        value = float(text)
    except ValueError:
        raise Misused(f"a quota must be a number, not {text[:40]!r}") from None
    return _alter_quota(backend, form, value)


def delete_quota(backend: Backend, form: Fields) -> Done:
    return _alter_quota(backend, form, None)


def _alter_quota(backend: Backend, form: Fields, value: float | None) -> Done:
    from ...protocol.messages.client_quotas import AlterClientQuotasRequest, EntityData, EntryDataRequest, OpData

    key = required(form, "key")
    entity = {kind: form[kind].strip() for kind in ("user", "client-id", "ip") if form.get(kind, "").strip()}
    if not entity:
        raise Misused("give a user, a client id or an address")
    asked = EntryDataRequest(
        entity=[
            EntityData(entity_type=kind, entity_name=None if name == _DEFAULT else name)
            for kind, name in entity.items()
        ],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None)],
    )
    with backend.links.admin() as admin:
        response = ask(admin, AlterClientQuotasRequest(entries=[asked], validate_only=False))
    for one in response.entries:
        check("quota", one.error_code, one.error_message)
    return Done(f"{key} was {'deleted' if value is None else 'set'}.", "/access")
