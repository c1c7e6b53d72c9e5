"""`odradek user`: SCRAM credentials (KIP-554)."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..client.connection import Connection
from ..client.errors import NOT_FOUND, CommandError, Misused
from ..client.options import DryRun, Output, Yes, client_command, new_app
from ..output import Table

if TYPE_CHECKING:
    from kafka.admin import ScramMechanism


app = new_app("List, create and delete users with SCRAM credentials.")


class Mechanism(StrEnum):
    sha_256 = "SCRAM-SHA-256"
    sha_512 = "SCRAM-SHA-512"


Name = Annotated[str, typer.Argument(metavar="USER")]
_NOT_FOUND_WORDS = ("not found", "no such", "does not exist", "non-existing", "nonexistent")


@app.command("list")
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


@app.command()
@client_command
def delete(
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
