"""`odradek quota`: quotas of users, client ids and IP addresses (KIP-546)."""

from __future__ import annotations

from typing import Annotated

import typer

from ...admin import quotas
from ...admin.connection import Connection
from ...client.properties import given_once, pairs
from ...client.user_errors import Misused
from ..client.options import DryRun, client_command, new_app
from ..output import Output, Table

app = new_app("List and set quotas of users, client ids and IP addresses.")

#: The name that stands for the default of a kind.
_DEFAULT = "<default>"
QuotaUser = Annotated[str | None, typer.Option("--user", help=f"a user, or '{_DEFAULT}' for the default of all users")]
ClientId = Annotated[str | None, typer.Option("--client-id", help=f"a client id, or '{_DEFAULT}' for the default")]
Address = Annotated[str | None, typer.Option("--ip", help=f"an IP address, or '{_DEFAULT}' for the default")]


def _entity(user: str | None, client_id: str | None, address: str | None) -> list[tuple[str, str | None]]:
    """Kinds and names; the default's name is None."""
    named = (("user", user), ("client-id", client_id), ("ip", address))
    return [(kind, None if name == _DEFAULT else name) for kind, name in named if name is not None]


@app.command("list")
@client_command
def list_quotas(
    connection: Connection, output: Output, user: QuotaUser = None, client_id: ClientId = None, ip: Address = None
) -> None:
    """List quotas: all, or only those of a user, a client id or an IP address."""
    with connection.admin() as admin:
        described = quotas.describe_quotas(admin, dict(_entity(user, client_id, ip)))
    rows = sorted(
        (_entity_words(list(quota.entity.items())), key, _number(value))
        for quota in described
        for key, value in quota.values.items()
    )
    found = [{"entity": entity, "key": key, "value": value} for entity, key, value in rows]
    output.show(found, Table("", ("ENTITY", "KEY", "VALUE"), rows))


def _entity_words(entity: list[tuple[str, str | None]]) -> str:
    return " ".join(f"{kind}={_DEFAULT if name is None else name}" for kind, name in sorted(entity, reverse=True))


@app.command("set")
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
    entity = _entity(user, client_id, ip)
    if not entity:
        raise Misused("give --user, --client-id or --ip")
    changes: dict[str, float | None] = dict.fromkeys(delete or [])
    for key, text in given_once(changes, pairs(values or [], "quota set")).items():
        try:
            changes[key] = float(text)
        except ValueError:
            raise Misused(f"{key}={text!r}: a quota must be a number") from None
    if not changes:
        raise Misused("nothing to change: give KEY=VALUE or --delete KEY")
    with connection.admin() as admin:
        quotas.alter_quotas(admin, dict(entity), changes, validate_only=dry_run)
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
