"""`odradek doctor`: checks of a data directory, of settings, and of a running cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from ...admin.connection import Connection
from ...client.error_kinds import ErrorKind
from ...client.user_errors import UserError
from ..client.options import client_command, new_app
from ..output import Output, Table
from ..progress import Progress
from .cluster import check_cluster, check_remote_metadata
from .directory import check_directory
from .finding import Finding, limited
from .settings import check_properties

app = new_app("Check a data directory or a running cluster, and print advice.")

_KEYS = ("severity", "check", "subject", "finding", "advice")


@app.command()
@client_command
def doctor(
    connection: Connection,
    output: Output,
    data_dir: Annotated[
        Path | None,
        typer.Option("--data-dir", metavar="D", help="check this data directory instead of a running cluster"),
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="server.properties", help="check the settings in this file")
    ] = None,
) -> None:
    """Check a data directory or a running cluster, and print advice. Exit status 1 when it finds a problem."""
    found: list[Finding] = []
    with Progress("findings", None) as progress:
        for one in _findings(connection, data_dir, config):
            found.append(one)
            progress.advance()
    if found or output.form != "table":
        data = [dict(zip(_KEYS, one, strict=True)) for one in found]
        output.show(data, Table("", [key.upper() for key in _KEYS], found))
    else:
        typer.echo("nothing was found")
    if found:
        raise typer.Exit(1)


def _findings(connection: Connection, data_dir: Path | None, config: Path | None) -> Iterator[Finding]:

    if data_dir is not None:
        if not data_dir.is_dir():
            raise UserError(f"{data_dir} is not a directory", ErrorKind.NOT_FOUND)
        yield from check_directory(data_dir)
    if config is not None:
        yield from check_properties(config)
    if data_dir is None and config is None:
        with connection.admin() as admin:
            yield from check_cluster(admin)
            yield from limited(check_remote_metadata(connection, admin))
