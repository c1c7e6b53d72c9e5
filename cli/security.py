"""`odradek acl`, `user`, `quota` and `token`: who may do what, who may log in, and how much each may use."""

from __future__ import annotations

import base64
import binascii
import datetime
import sys
from enum import StrEnum
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .client.admin import api_error, ask, check
from .client.connection import Connection
from .client.errors import NOT_FOUND, CommandError, Misused
from .client.options import DryRun, Output, Yes, client_command, new_app
from .client.properties import pairs
from .output import Table

if TYPE_CHECKING:
    from kafka.admin import ACL, ACLFilter, ACLOperation, ScramMechanism

    from ..protocol.messages.credentials import DescribedDelegationToken, DescribeDelegationTokenResponse
    from .client.admin import AdminClient


# ---- ACLs

acl_app = new_app("List, create and delete ACLs (access control lists).")

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
        principal=_principal_text(principal) if principal is not None else None,
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


def _acl_words(row: dict[str, str]) -> str:
    return " ".join(
        row[name] for name in ("permission", "principal", "operation", "resource", "name", "pattern", "host")
    )


@acl_app.command("list")
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


@acl_app.command("create")
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
            failed = admin.create_acls(made)["failed"]
        if failed:
            raise api_error(f"{len(failed)} of {len(made)} rules", failed[0].errno)
    output.changed("created", [_acl_words(_row(one)) for one in made], dry_run=dry_run)


def _made(
    resource: tuple[str, str], allow: list[str], deny: list[str], operations: list[str], host: str, *, prefixed: bool
) -> list[ACL]:
    from kafka.admin import ACL, ACLPermissionType, ACLResourcePatternType, ResourcePattern, ResourceType

    kind = ACLResourcePatternType.PREFIXED if prefixed else ACLResourcePatternType.LITERAL
    pattern = ResourcePattern(ResourceType[resource[0]], resource[1], kind)
    who = [(one, ACLPermissionType.ALLOW) for one in allow] + [(one, ACLPermissionType.DENY) for one in deny]
    return [
        ACL(_principal_text(principal), host, _operation(word), permission, pattern)
        for (principal, permission), word in product(who, operations)
    ]


@acl_app.command("delete")
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
                typer.confirm(f"Delete {len(found)} ACLs?", abort=True, err=True)
            for _, _, error in admin.delete_acls(asked):
                if error.errno:
                    raise api_error("rules", error.errno)
    output.changed("deleted", [_acl_words(one) for one in found], dry_run=dry_run)


# ---- users: SCRAM credentials (KIP-554)

user_app = new_app("List, create and delete users with SCRAM credentials.")


class Mechanism(StrEnum):
    sha_256 = "SCRAM-SHA-256"
    sha_512 = "SCRAM-SHA-512"


Name = Annotated[str, typer.Argument(metavar="USER")]
_NOT_FOUND_WORDS = ("not found", "no such", "does not exist", "non-existing", "nonexistent")


@user_app.command("list")
@client_command
def list_users(connection: Connection, output: Output) -> None:
    """List users and the SASL mechanisms of each."""
    with connection.admin() as admin:
        described = admin.describe_user_scram_credentials()
    found = [
        {"user": user, "mechanism": _word(one["mechanism"]), "iterations": one["iterations"]}
        for user, described_user in sorted(described.items())
        for one in described_user["credential_infos"]
    ]
    output.show(found, Table("", ("USER", "MECHANISM", "ITERATIONS"), [list(one.values()) for one in found]))


def _word(mechanism: ScramMechanism) -> str:
    return str(mechanism.name).replace("_", "-")


@user_app.command("set")
@client_command
def set_user(
    name: Name,
    connection: Connection,
    output: Output,
    mechanism: Annotated[Mechanism, typer.Option("--mechanism", "-m")] = Mechanism.sha_512,
    password_file: Annotated[
        Path | None,
        typer.Option(
            "--password-file", metavar="FILE", help="default: ask on a terminal, or read a line of standard input"
        ),
    ] = None,
    iterations: Annotated[int, typer.Option("--iterations", min=4096, max=16384)] = 8192,
    dry_run: DryRun = False,
) -> None:
    """Create a user, or change a password. The password is never an argument, which other users could read."""
    password = _password(password_file)
    if not password:
        raise Misused("the password is empty")
    if not dry_run:
        from kafka.admin import UserScramCredentialUpsertion

        with connection.admin() as admin:
            wanted = UserScramCredentialUpsertion(name, mechanism.value, password, iterations)
            _check(name, admin.alter_user_scram_credentials([wanted]))
    output.changed("set", [f"{name} {mechanism.value}"], dry_run=dry_run)


def _password(file: Path | None) -> str:
    if file is not None:
        try:
            return file.read_text(encoding="utf-8").removesuffix("\n")
        except (OSError, UnicodeDecodeError):
            raise Misused(f"cannot read {file}") from None
    if sys.stdin.isatty():
        return str(typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))
    return sys.stdin.readline().removesuffix("\n")


def _check(name: str, response: dict[str, str | None]) -> None:
    message = response.get(name)
    if message is not None:
        status = NOT_FOUND if any(one in message.lower() for one in _NOT_FOUND_WORDS) else 1
        raise CommandError(f"user {name}: {message}", status)


@user_app.command("delete")
@client_command
def delete_user(
    name: Name,
    connection: Connection,
    output: Output,
    mechanism: Annotated[
        Mechanism | None, typer.Option("--mechanism", "-m", help="default: all mechanisms of the user")
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Delete a user's credentials. On a terminal, ask for confirmation first."""
    from kafka.admin import UserScramCredentialDeletion

    if sys.stdin.isatty() and not yes and not dry_run:
        typer.confirm(f"Delete user {name}?", abort=True, err=True)
    with connection.admin() as admin:
        described = admin.describe_user_scram_credentials().get(name)
        held = [_word(one["mechanism"]) for one in described["credential_infos"]] if described is not None else []
        chosen = [one for one in held if mechanism is None or one == mechanism.value]
        if not chosen:
            raise CommandError(f"user {name} has no {mechanism.value if mechanism else 'SCRAM'} credentials", NOT_FOUND)
        if not dry_run:
            wanted = [UserScramCredentialDeletion(name, one) for one in chosen]
            _check(name, admin.alter_user_scram_credentials(wanted))
    output.changed("deleted", [f"{name} {one}" for one in chosen], dry_run=dry_run)


# ---- quotas of users, client ids and addresses (KIP-546)

quota_app = new_app("List and set quotas of users, client ids and IP addresses.")

#: The name that stands for the default of a kind.
_DEFAULT = "<default>"
QuotaUser = Annotated[str | None, typer.Option("--user", help=f"a user, or '{_DEFAULT}' for the default of all users")]
ClientId = Annotated[str | None, typer.Option("--client-id", help=f"a client id, or '{_DEFAULT}' for the default")]
Address = Annotated[str | None, typer.Option("--ip", help=f"an IP address, or '{_DEFAULT}' for the default")]
_EXACT, _MATCH_DEFAULT = 0, 1


def _entity(user: str | None, client_id: str | None, address: str | None) -> list[tuple[str, str | None]]:
    """Kinds and names; the default's name is None."""
    named = (("user", user), ("client-id", client_id), ("ip", address))
    return [(kind, None if name == _DEFAULT else name) for kind, name in named if name is not None]


@quota_app.command("list")
@client_command
def list_quotas(
    connection: Connection, output: Output, user: QuotaUser = None, client_id: ClientId = None, ip: Address = None
) -> None:
    """List quotas: all, or only those of a user, a client id or an IP address."""
    from ..protocol.messages.client_quotas import ComponentData, DescribeClientQuotasRequest

    asked = [
        ComponentData(entity_type=kind, match_type=_EXACT if name is not None else _MATCH_DEFAULT, match=name)
        for kind, name in _entity(user, client_id, ip)
    ]
    with connection.admin() as admin:
        response = ask(admin, DescribeClientQuotasRequest(components=asked, strict=False))
    check("quotas", response.error_code, response.error_message)
    found = [
        {
            "entity": _entity_words([(one.entity_type, one.entity_name) for one in entry.entity]),
            "key": value.key,
            "value": _number(value.value),
        }
        for entry in response.entries or ()
        for value in entry.values
    ]
    found.sort(key=lambda one: (one["entity"], one["key"]))
    output.show(found, Table("", ("ENTITY", "KEY", "VALUE"), [list(one.values()) for one in found]))


def _entity_words(entity: list[tuple[str, str | None]]) -> str:
    return " ".join(f"{kind}={_DEFAULT if name is None else name}" for kind, name in sorted(entity, reverse=True))


@quota_app.command("set")
@client_command
def set_quotas(
    connection: Connection,
    output: Output,
    values: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE...]", help="quota to set, such as producer_byte_rate=1048576"),
    ] = None,
    delete: Annotated[
        list[str] | None, typer.Option("--delete", "-d", metavar="KEY", help="quota to delete; may be repeated")
    ] = None,
    user: QuotaUser = None,
    client_id: ClientId = None,
    ip: Address = None,
    dry_run: DryRun = False,
) -> None:
    """Set or delete quotas: producer_byte_rate, consumer_byte_rate, request_percentage and others."""
    from ..protocol.messages.client_quotas import AlterClientQuotasRequest, EntityData, EntryDataRequest, OpData

    entity = _entity(user, client_id, ip)
    if not entity:
        raise Misused("give --user, --client-id or --ip")
    changes: dict[str, float | None] = dict.fromkeys(delete or [])
    for key, text in pairs(values or [], "quota set").items():
        try:
            changes[key] = float(text)
        except ValueError:
            raise Misused(f"{key}={text!r}: a quota must be a number") from None
    if not changes:
        raise Misused("nothing to change: give KEY=VALUE or --delete KEY")
    with connection.admin() as admin:
        asked = EntryDataRequest(
            entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
            ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in changes.items()],
        )
        response = ask(admin, AlterClientQuotasRequest(entries=[asked], validate_only=dry_run))
    for one in response.entries:
        check(f"quota of {_entity_words(entity)}", one.error_code, one.error_message)
    output.changed("set", [_change(entity, key, value) for key, value in changes.items()], dry_run=dry_run)


def _change(entity: list[tuple[str, str | None]], key: str, value: float | None) -> str:
    return (
        f"{_entity_words(entity)}: {key} deleted"
        if value is None
        else f"{_entity_words(entity)}: {key}={_number(value)}"
    )


def _number(value: float) -> float:
    """The value without a decimal point where it is whole."""
    return int(value) if value.is_integer() else value


# ---- delegation tokens (KIP-48), with which clients log in by SCRAM for as long as a token lives

token_app = new_app("Create, list, renew and expire delegation tokens.")

_HOUR_MS = 3_600_000
Renewers = Annotated[
    list[str] | None, typer.Option("--renewer", metavar="User:NAME", help="may renew the token; may be repeated")
]
Owner = Annotated[str | None, typer.Option("--owner", metavar="User:NAME", help="the user that the token stands for")]
Token = Annotated[str, typer.Argument(metavar="TOKEN", help="token id, or its HMAC in base64")]
Hours = Annotated[float, typer.Option("--hours", help="from now")]


@token_app.command("create")
@client_command
def create_token(
    connection: Connection,
    output: Output,
    owner: Owner = None,
    renewer: Renewers = None,
    hours: Annotated[float | None, typer.Option("--hours", help="maximum lifetime (default: the brokers')")] = None,
) -> None:
    """Create a token for the user that is logged in, or for --owner. Its HMAC is a password: it is shown once."""
    from ..protocol.messages.credentials import CreateDelegationTokenRequest, TokenPrincipal

    kind, name = _kind_and_name(owner) if owner is not None else (None, None)
    request = CreateDelegationTokenRequest(
        owner_principal_type=kind,
        owner_principal_name=name,
        renewers=[TokenPrincipal(*_kind_and_name(one)) for one in renewer or []],
        max_lifetime_ms=-1 if hours is None else _ms(hours),
    )
    with connection.admin() as admin:
        made = ask(admin, request)
    check("token", made.error_code)
    _show(
        output,
        [
            {
                "token_id": made.token_id,
                "hmac": base64.b64encode(made.hmac).decode(),
                "owner": f"{made.principal_type}:{made.principal_name}",
                "renewers": ",".join(renewer or []),
                "expires": _time(made.expiry_timestamp_ms),
                "max_lifetime": _time(made.max_timestamp_ms),
            }
        ],
    )


@token_app.command("list")
@client_command
def list_tokens(connection: Connection, output: Output, owner: Owner = None) -> None:
    """List the tokens that the user owns, may renew, or may describe. HMACs are not shown."""
    with connection.admin() as admin:
        found = _described(admin, owner)
    _show(
        output,
        [
            {
                "token_id": one.token_id,
                "owner": f"{one.principal_type}:{one.principal_name}",
                "renewers": ",".join(f"{each.principal_type}:{each.principal_name}" for each in one.renewers),
                "issued": _time(one.issue_timestamp),
                "expires": _time(one.expiry_timestamp),
                "max_lifetime": _time(one.max_timestamp),
            }
            for one in found
        ],
    )


@token_app.command("renew")
@client_command
def renew_token(token: Token, connection: Connection, output: Output, hours: Hours = 24.0) -> None:
    """Put off the expiry of a token, up to its maximum lifetime."""
    from ..protocol.messages.credentials import RenewDelegationTokenRequest

    with connection.admin() as admin:
        done = ask(admin, RenewDelegationTokenRequest(hmac=_hmac(admin, token), renew_period_ms=_ms(hours)))
    check("token", done.error_code)
    output.changed("renewed", [f"expires {_time(done.expiry_timestamp_ms)}"], dry_run=False)


@token_app.command("expire")
@client_command
def expire_token(token: Token, connection: Connection, output: Output, hours: Hours = 0.0) -> None:
    """End a token now, or bring its expiry forward."""
    from ..protocol.messages.credentials import ExpireDelegationTokenRequest

    period_ms = _ms(hours) if hours > 0 else -1
    with connection.admin() as admin:
        done = ask(admin, ExpireDelegationTokenRequest(hmac=_hmac(admin, token), expiry_time_period_ms=period_ms))
    check("token", done.error_code)
    output.changed("expired", [f"expires {_time(done.expiry_timestamp_ms)}"], dry_run=False)


def _described(admin: AdminClient, owner: str | None) -> list[DescribedDelegationToken]:
    from ..protocol.messages.credentials import DescribeDelegationTokenRequest, TokenPrincipal

    owners = None if owner is None else [TokenPrincipal(*_kind_and_name(owner))]
    response: DescribeDelegationTokenResponse = ask(admin, DescribeDelegationTokenRequest(owners=owners))
    check("tokens", response.error_code)
    return sorted(response.tokens, key=lambda one: str(one.token_id))


def _hmac(admin: AdminClient, token: str) -> bytes:
    """The HMAC of the token with that id; a text that is no id is the HMAC itself."""
    for one in _described(admin, None):
        if one.token_id == token:
            return bytes(one.hmac)
    try:
        return base64.b64decode(token, validate=True)
    except (binascii.Error, ValueError):
        raise CommandError(f"token {token[:60]} does not exist; `odradek token list` lists them", NOT_FOUND) from None


def _kind_and_name(text: str) -> tuple[str, str]:
    kind, colon, name = text.partition(":")
    if not colon or not kind or not name:
        raise Misused(f"{text!r} is not a principal: give User:NAME")
    return kind, name


def _ms(hours: float) -> int:
    if not 0 < hours < 1e6:
        raise Misused("--hours must be more than 0")
    return int(hours * _HOUR_MS)


def _time(ms: int) -> str:
    return datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC).isoformat(timespec="seconds")


def _show(output: Output, found: list[dict[str, str]]) -> None:
    columns = [name.upper().replace("_", " ") for name in found[0]] if found else ()
    output.show(found, Table("", columns, [list(one.values()) for one in found]))
