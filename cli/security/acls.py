"""`odradek acl`: ACLs (access control lists), which allow and deny principals operations on resources."""

from __future__ import annotations

import sys
from itertools import product
from typing import TYPE_CHECKING, Annotated

import typer

from ...admin import acls
from ...admin.connection import Connection
from ...client.user_errors import Misused
from ...client.wording import counted
from ..client.options import DryRun, Yes, client_command, new_app
from ..output import Output, Table

if TYPE_CHECKING:
    from ...admin.session import Admin

app = new_app("List, create and delete ACLs (access control lists).")

Topic = Annotated[str | None, typer.Option("--topic", "-t", metavar="NAME", help="ACLs of a topic; '*' for all topics")]
Group = Annotated[str | None, typer.Option("--group", "-g", metavar="NAME", help="ACLs of a group; '*' for all groups")]
Transactional = Annotated[
    str | None, typer.Option("--transactional-id", metavar="ID", help="ACLs of a transactional id")
]
UserResource = Annotated[
    str | None, typer.Option("--user", metavar="PRINCIPAL", help="ACLs of the delegation tokens of a user")
]
Cluster = Annotated[bool, typer.Option("--cluster", help="ACLs of the cluster")]
OfPrincipal = Annotated[str | None, typer.Option("--principal", help="`alice` means User:alice")]
Prefixed = Annotated[bool, typer.Option("--prefixed", help="the name is a prefix of resource names")]
Operations = Annotated[
    list[str] | None, typer.Option("--operation", metavar="OP", help="read, write, describe, all, ...; may be repeated")
]
Host = Annotated[str | None, typer.Option("--host", help="IP address of the client")]
_COLUMNS = ("principal", "host", "operation", "permission", "resource", "name", "pattern")


def _resource(
    topic: str | None, group: str | None, transactional_id: str | None, user: str | None, cluster: bool
) -> tuple[str, str] | None:
    named = {"TOPIC": topic, "GROUP": group, "TRANSACTIONAL_ID": transactional_id, "USER": user}
    found = [(kind, name) for kind, name in named.items() if name is not None]
    found += [("CLUSTER", "kafka-cluster")] if cluster else []
    if len(found) > 1:
        raise Misused("give one of --topic, --group, --transactional-id, --user and --cluster")
    return found[0] if found else None


def _principal_text(text: str) -> str:
    """`alice` is short for `User:alice`."""
    return text if ":" in text else f"User:{text}"


def _operation(text: str) -> acls.Operation:
    try:
        return acls.Operation[text.upper().replace("-", "_")]
    except KeyError:
        known = ", ".join(one.name.lower() for one in acls.Operation if one.value > 1)
        raise Misused(f"--operation {text!r} is not one of {known}") from None


def _filter(
    resource: tuple[str, str] | None,
    principal: str | None,
    host: str | None,
    operation: acls.Operation | None,
    *,
    prefixed: bool,
) -> acls.AclFilter:
    kind, name = resource or ("ANY", None)
    return acls.AclFilter(
        principal=_principal_text(principal) if principal is not None else None,
        host=host,
        operation=operation or acls.Operation.ANY,
        resource_type=acls.ResourceType[kind],
        resource_name=name,
        pattern_type=acls.PatternType.PREFIXED if prefixed else acls.PatternType.ANY,
    )


def _found(admin: Admin, asked: acls.AclFilter) -> list[dict[str, str]]:
    return sorted((_row(one) for one in acls.describe_acls(admin, asked)), key=lambda one: list(one.values()))


def _row(rule: acls.Acl) -> dict[str, str]:
    return {
        "principal": rule.principal,
        "host": rule.host,
        "operation": rule.operation.name.lower(),
        "permission": rule.permission.name.lower(),
        "resource": rule.resource_type.name.lower(),
        "name": rule.resource_name,
        "pattern": rule.pattern_type.name.lower(),
    }


def _acl_words(row: dict[str, str]) -> str:
    return " ".join(
        row[name] for name in ("permission", "principal", "operation", "resource", "name", "pattern", "host")
    )


@app.command("list")
@client_command
def list_acls(
    connection: Connection,
    output: Output,
    principal: OfPrincipal = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: Transactional = None,
    user: UserResource = None,
    cluster: Cluster = False,
) -> None:
    """List ACLs: all, or only those of a principal or a resource."""
    resource = _resource(topic, group, transactional_id, user, cluster)
    with connection.admin() as admin:
        found = _found(admin, _filter(resource, principal, None, None, prefixed=False))
    columns = [name.upper() for name in _COLUMNS]
    output.show(found, Table("", columns, [[one[name] for name in _COLUMNS] for one in found]))


@app.command("create")
@client_command
def create_acls(
    connection: Connection,
    output: Output,
    allow: Annotated[
        list[str] | None, typer.Option("--allow", metavar="PRINCIPAL", help="principal to allow; may be repeated")
    ] = None,
    deny: Annotated[
        list[str] | None, typer.Option("--deny", metavar="PRINCIPAL", help="principal to deny; may be repeated")
    ] = None,
    operation: Operations = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: Transactional = None,
    user: UserResource = None,
    cluster: Cluster = False,
    prefixed: Prefixed = False,
    host: Host = None,
    dry_run: DryRun = False,
) -> None:
    """Create ACLs that allow or deny principals operations on a resource."""
    resource = _resource(topic, group, transactional_id, user, cluster)
    if resource is None or not operation or not (allow or deny):
        raise Misused("give --allow or --deny, --operation, and a resource as --topic NAME")
    made = _made(resource, allow or [], deny or [], operation, host or "*", prefixed=prefixed)
    if not dry_run:
        with connection.admin() as admin:
            acls.create_acls(admin, made)
    output.changed("created", [_acl_words(_row(one)) for one in made], dry_run=dry_run)


def _made(
    resource: tuple[str, str], allow: list[str], deny: list[str], operations: list[str], host: str, *, prefixed: bool
) -> list[acls.Acl]:
    pattern = acls.PatternType.PREFIXED if prefixed else acls.PatternType.LITERAL
    kind, name = acls.ResourceType[resource[0]], resource[1]
    who = [(one, acls.Permission.ALLOW) for one in allow] + [(one, acls.Permission.DENY) for one in deny]
    return [
        acls.Acl(_principal_text(principal), host, _operation(word), permission, kind, name, pattern)
        for (principal, permission), word in product(who, operations)
    ]


@app.command("delete")
@client_command
def delete_acls(
    connection: Connection,
    output: Output,
    principal: OfPrincipal = None,
    operation: Operations = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: Transactional = None,
    user: UserResource = None,
    cluster: Cluster = False,
    prefixed: Prefixed = False,
    host: Host = None,
    every: Annotated[bool, typer.Option("--all", help="delete all ACLs, when no other option is given")] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Delete the ACLs that match all given options. On a terminal, ask for confirmation first."""
    resource = _resource(topic, group, transactional_id, user, cluster)
    if not (every or resource or principal or operation or host):
        raise Misused("give a principal, an operation or a resource, or --all")
    with connection.admin() as admin:
        asked = [
            _filter(resource, principal, host, _operation(one) if one else None, prefixed=prefixed)
            for one in operation or [""]
        ]
        found = [row for one in asked for row in _found(admin, one)]
        if found and not dry_run:
            if sys.stdin.isatty() and not yes:
                typer.confirm(f"Delete {counted(len(found), 'ACL')}?", abort=True, err=True)
            acls.delete_acls(admin, asked)
    output.changed("deleted", [_acl_words(one) for one in found], dry_run=dry_run)
