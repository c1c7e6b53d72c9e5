"""`odradek token`: delegation tokens (KIP-48), with which clients log in by SCRAM for as long as a token lives."""

from __future__ import annotations

import base64
import binascii
import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from ...admin.connection import Connection
from ...admin.errors import check
from ...client.error_kinds import ErrorKind
from ...client.user_errors import Misused, UserError
from ..client.options import client_command, new_app
from ..output import Output, Table

if TYPE_CHECKING:
    from ...admin.session import Admin
    from ...protocol.messages.describe_delegation_token import DescribedDelegationToken, DescribeDelegationTokenResponse

app = new_app("Create, list, renew and expire delegation tokens.")

_HOUR_MS = 3_600_000
Renewers = Annotated[
    list[str] | None, typer.Option("--renewer", metavar="User:NAME", help="may renew the token; may be repeated")
]
Owner = Annotated[str | None, typer.Option("--owner", metavar="User:NAME", help="the user that the token stands for")]
Token = Annotated[str, typer.Argument(metavar="TOKEN", help="token id, or its HMAC in base64")]
Hours = Annotated[float, typer.Option("--hours", help="from now")]


@app.command("create")
@client_command
def create_token(
    connection: Connection,
    output: Output,
    owner: Owner = None,
    renewer: Renewers = None,
    hours: Annotated[float | None, typer.Option("--hours", help="maximum lifetime (default: the brokers')")] = None,
) -> None:
    """Create a token for the user that is logged in, or for --owner. Its HMAC is a password: it is shown once."""
    from ...protocol.messages.create_delegation_token import CreateDelegationTokenRequest
    from ...protocol.messages.token_principals import TokenPrincipal

    kind, name = _kind_and_name(owner) if owner is not None else (None, None)
    request = CreateDelegationTokenRequest(
        owner_principal_type=kind,
        owner_principal_name=name,
        renewers=[TokenPrincipal(*_kind_and_name(one)) for one in renewer or []],
        max_lifetime_ms=-1 if hours is None else _ms(hours),
    )
    with connection.admin() as admin:
        made = admin.ask(request)
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


@app.command("list")
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


@app.command("renew")
@client_command
def renew_token(token: Token, connection: Connection, output: Output, hours: Hours = 24.0) -> None:
    """Put off the expiry of a token, up to its maximum lifetime."""
    from ...protocol.messages.renew_delegation_token import RenewDelegationTokenRequest

    with connection.admin() as admin:
        done = admin.ask(RenewDelegationTokenRequest(hmac=_hmac(admin, token), renew_period_ms=_ms(hours)))
    check("token", done.error_code)
    output.changed("renewed", [f"expires {_time(done.expiry_timestamp_ms)}"], dry_run=False)


@app.command("expire")
@client_command
def expire_token(token: Token, connection: Connection, output: Output, hours: Hours = 0.0) -> None:
    """End a token now, or bring its expiry forward."""
    from ...protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest

    period_ms = _ms(hours) if hours > 0 else -1
    with connection.admin() as admin:
        done = admin.ask(ExpireDelegationTokenRequest(hmac=_hmac(admin, token), expiry_time_period_ms=period_ms))
    check("token", done.error_code)
    output.changed("expired", [f"expires {_time(done.expiry_timestamp_ms)}"], dry_run=False)


def _described(admin: Admin, owner: str | None) -> list[DescribedDelegationToken]:
    from ...protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
    from ...protocol.messages.token_principals import TokenPrincipal

    owners = None if owner is None else [TokenPrincipal(*_kind_and_name(owner))]
    response: DescribeDelegationTokenResponse = admin.ask(DescribeDelegationTokenRequest(owners=owners))
    check("tokens", response.error_code)
    return sorted(response.tokens, key=lambda one: str(one.token_id))


def _hmac(admin: Admin, token: str) -> bytes:
    """The HMAC of the token with that id; a text that is no id is the HMAC itself."""
    for one in _described(admin, None):
        if one.token_id == token:
            return bytes(one.hmac)
    try:
        return base64.b64decode(token, validate=True)
    except (binascii.Error, ValueError):
        raise UserError(
            f"token {token[:60]} does not exist; `odradek token list` lists them", ErrorKind.NOT_FOUND
        ) from None


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


def _show(output: Output, rows: list[dict[str, str]]) -> None:
    columns = [name.upper().replace("_", " ") for name in rows[0]] if rows else ()
    output.show(rows, Table("", columns, [list(one.values()) for one in rows]))
