"""`odradek acl`: its commands."""

from __future__ import annotations

import sys
from itertools import product
from typing import TYPE_CHECKING, Annotated

import typer

from ..client.admin import api_error
from ..client.connection import Connection
from ..client.errors import Misused
from ..client.options import DryRun, Output, Yes, client_command, new_app
from ..output import Table

if TYPE_CHECKING:
    from kafka.admin import ACL, ACLFilter, ACLOperation

    from ..client.admin import AdminClient


app = new_app("List, create and delete ACLs (access control lists).")

Topic = Annotated[str | None, typer.Option("--topic", "-t", metavar="NAME", help="ACLs of a topic; '*' for all topics")]
Group = Annotated[str | None, typer.Option("--group", "-g", metavar="NAME", help="ACLs of a group; '*' for all groups")]
Transactional = Annotated[
    str | None, typer.Option("--transactional-id", metavar="ID", help="ACLs of a transactional id")
]
User = Annotated[
    str | None, typer.Option("--user", metavar="PRINCIPAL", help="ACLs of the delegation tokens of a user")
]
Cluster = Annotated[bool, typer.Option("--cluster", help="ACLs of the cluster")]
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


def _principal(text: str) -> str:
    """`alice` is short for `User:alice`."""
    return text if ":" in text else f"User:{text}"


def _operation(text: str) -> ACLOperation:
    from kafka.admin import ACLOperation

    try:
        return ACLOperation[text.upper().replace("-", "_")]
    except KeyError:
        known = ", ".join(one.name.lower() for one in ACLOperation if one.value > 1)
        raise Misused(f"--operation {text!r} is not one of {known}") from None


def _filter(
    resource: tuple[str, str] | None,
    principal: str | None,
    host: str | None,
    operation: ACLOperation | None,
    *,
    prefixed: bool,
) -> ACLFilter:
    from kafka.admin import (
        ACLFilter,
        ACLOperation,
        ACLPermissionType,
        ACLResourcePatternType,
        ResourcePatternFilter,
        ResourceType,
    )

    pattern = ACLResourcePatternType.PREFIXED if prefixed else ACLResourcePatternType.ANY
    kind, name = resource or ("ANY", None)
    return ACLFilter(
        principal=_principal(principal) if principal is not None else None,
        host=host,
        operation=operation or ACLOperation.ANY,
        permission_type=ACLPermissionType.ANY,
        resource_pattern=ResourcePatternFilter(ResourceType[kind], name, pattern),
    )


def _found(admin: AdminClient, asked: ACLFilter) -> list[dict[str, str]]:
    listed, error = admin.describe_acls(asked)
    if error.errno:
        raise api_error("rules", error.errno)
    return sorted((_row(one) for one in listed), key=lambda one: list(one.values()))


def _row(one: ACL) -> dict[str, str]:
    pattern = one.resource_pattern
    return {
        "principal": one.principal,
        "host": one.host,
        "operation": one.operation.name.lower(),
        "permission": one.permission_type.name.lower(),
        "resource": pattern.resource_type.name.lower(),
        "name": pattern.resource_name,
        "pattern": pattern.pattern_type.name.lower(),
    }


def _words(row: dict[str, str]) -> str:
    return " ".join(
        row[name] for name in ("permission", "principal", "operation", "resource", "name", "pattern", "host")
    )


@app.command("list")
@client_command
def list_acls(
    connection: Connection,
    output: Output,
    principal: Annotated[str | None, typer.Option("--principal", help="`alice` means User:alice")] = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: Transactional = None,
    user: User = None,
    cluster: Cluster = False,
) -> None:
    """List ACLs: all, or only those of a principal or a resource."""
    resource = _resource(topic, group, transactional_id, user, cluster)
    with connection.admin() as admin:
        found = _found(admin, _filter(resource, principal, None, None, prefixed=False))
    columns = [name.upper() for name in _COLUMNS]
    output.show(found, Table("", columns, [[one[name] for name in _COLUMNS] for one in found]))


@app.command()
@client_command
def create(
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
    user: User = None,
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
            failed = admin.create_acls(made)["failed"]
        if failed:
            raise api_error(f"{len(failed)} of {len(made)} rules", failed[0].errno)
    output.changed("created", [_words(_row(one)) for one in made], dry_run=dry_run)


def _made(
    resource: tuple[str, str], allow: list[str], deny: list[str], operations: list[str], host: str, *, prefixed: bool
) -> list[ACL]:
    from kafka.admin import ACL, ACLPermissionType, ACLResourcePatternType, ResourcePattern, ResourceType

    kind = ACLResourcePatternType.PREFIXED if prefixed else ACLResourcePatternType.LITERAL
    pattern = ResourcePattern(ResourceType[resource[0]], resource[1], kind)
    who = [(one, ACLPermissionType.ALLOW) for one in allow] + [(one, ACLPermissionType.DENY) for one in deny]
    return [
        ACL(_principal(principal), host, _operation(word), permission, pattern)
        for (principal, permission), word in product(who, operations)
    ]


@app.command()
@client_command
def delete(
    connection: Connection,
    output: Output,
    principal: Annotated[str | None, typer.Option("--principal", help="`alice` means User:alice")] = None,
    operation: Operations = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: Transactional = None,
    user: User = None,
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
                typer.confirm(f"Delete {len(found)} ACLs?", abort=True, err=True)
            for _, _, error in admin.delete_acls(asked):
                if error.errno:
                    raise api_error("rules", error.errno)
    output.changed("deleted", [_words(one) for one in found], dry_run=dry_run)
