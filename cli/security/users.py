"""`odradek user`: users with SCRAM credentials (KIP-554)."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ...admin import users
from ...admin.connection import Connection
from ...client.error_kinds import ErrorKind
from ...client.user_errors import Misused, UserError
from ..client.options import DryRun, Yes, client_command, new_app
from ..output import Output, Table

app = new_app("List, create and delete users with SCRAM credentials.")

Name = Annotated[str, typer.Argument(metavar="USER")]


class Mechanism(StrEnum):
    sha_256 = "SCRAM-SHA-256"
    sha_512 = "SCRAM-SHA-512"


@app.command("list")
@client_command
def list_users(connection: Connection, output: Output) -> None:
    """List users and the SASL mechanisms of each."""
    with connection.admin() as admin:
        found = [one._asdict() for one in users.describe_users(admin)]
    output.show(found, Table("", ("USER", "MECHANISM", "ITERATIONS"), [list(one.values()) for one in found]))


@app.command("set")
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
    users.check_name(name)
    if not dry_run:
        with connection.admin() as admin:
            users.set_user(admin, name, mechanism.value, password, iterations)
    output.changed("set", [f"{name} {mechanism.value}"], dry_run=dry_run)


def _password(file: Path | None) -> str:
    if file is not None:
        try:
            return file.read_text(encoding="utf-8").removesuffix("\n")
        except OSError as error:
            raise Misused(f"cannot read {file}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise Misused(f"cannot read {file}: it is not text in UTF-8") from None
    if sys.stdin.isatty():
        return str(typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))
    return sys.stdin.readline().removesuffix("\n")


@app.command("delete")
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
    if sys.stdin.isatty() and not yes and not dry_run:
        typer.confirm(f"Delete user {name}?", abort=True, err=True)
    with connection.admin() as admin:
        held = [one.mechanism for one in users.describe_users(admin) if one.user == name]
        chosen = [one for one in held if mechanism is None or one == mechanism.value]
        if not chosen:
            raise UserError(
                f"user {name} has no {mechanism.value if mechanism else 'SCRAM'} credentials", ErrorKind.NOT_FOUND
            )
        if not dry_run:
            users.delete_user(admin, name, chosen)
    output.changed("deleted", [f"{name} {one}" for one in chosen], dry_run=dry_run)
