"""`odradek doctor`: its command.

A finding of `odradek doctor`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from ..client.connection import Connection
from ..client.errors import NOT_FOUND, CommandError
from ..client.options import Output, client_command, new_app
from ..output import Progress, Table

ERROR, WARNING = "error", "warning"
#: Findings of one check that are shown; a cluster may have thousands of partitions.
_MOST_SHOWN = 50


class Finding(NamedTuple):
    """`check`: which one found it. `subject`: the file, partition, broker or key. `advice`: what to do."""

    severity: str
    check: str
    subject: str
    words: str
    advice: str


def limited(findings: Iterable[Finding]) -> Iterator[Finding]:
    """The first findings of a check, and one that counts the others."""
    more = 0
    last: Finding | None = None
    for number, one in enumerate(findings):
        if number < _MOST_SHOWN:
            yield one
        else:
            more, last = more + 1, one
    if last is not None:
        yield Finding(last.severity, last.check, f"and {more} more", last.words, last.advice)


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
    from .cluster import check_directory, check_properties

    if data_dir is not None:
        if not data_dir.is_dir():
            raise CommandError(f"{data_dir} is not a directory", NOT_FOUND)
        yield from check_directory(data_dir)
    if config is not None:
        yield from check_properties(config)
    if data_dir is None and config is None:
        from .cluster import check_cluster

        with connection.admin() as admin:
            yield from check_cluster(admin)
