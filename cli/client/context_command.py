"""`odradek context`: named clusters, so that a user need not type addresses and passwords twice."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...client.contexts import Contexts, contexts_file, read_contexts, write_contexts
from ...client.error_kinds import ErrorKind
from ...client.librdkafka import check_names
from ...client.properties import pairs, read_client_properties, shown_properties
from ...client.user_errors import Misused, UserError
from ..output import Output, Table
from .options import DryRun, client_command, new_app
from .value_completion import complete_context

app = new_app(
    f"Manage named clusters: addresses and client properties, in {'$XDG_CONFIG_HOME'}/odradek/contexts.toml (mode 0600)."
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="name of the context", autocompletion=complete_context)]


@app.command()
@client_command
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="name of the context")],
    bootstrap_server: Annotated[
        str, typer.Option("--bootstrap-server", "-b", metavar="HOST:PORT", help="brokers, separated by commas")
    ],
    command_config: Annotated[
        Path | None, typer.Option("--command-config", metavar="FILE", help="client properties, copied into the context")
    ] = None,
    setting: Annotated[
        list[str] | None, typer.Option("-X", metavar="KEY=VALUE", help="a client property; may be repeated")
    ] = None,
    use: Annotated[bool, typer.Option("--use", help="make it the current context")] = False,
    dry_run: DryRun = False,
) -> None:
    """Add or replace a context. The first context becomes the current one."""
    from ...admin.connection import Connection

    properties = read_client_properties(command_config) if command_config is not None else {}
    given = pairs(setting or [], "-X")
    check_names(given)
    properties |= given | {"bootstrap.servers": bootstrap_server}
    if not name.strip() or not name.isprintable():
        raise Misused("the name of a context needs at least one character, and only printable characters")
    _ = Connection(properties).security  # explains properties that cannot be meant
    contexts = read_contexts()
    word = "replaced" if name in contexts.named else "added"
    contexts.named[name] = properties
    if use or contexts.current is None:
        contexts.current = name
    if dry_run:
        typer.echo(f"would be {word}: {name} in {contexts_file()}")
        return
    write_contexts(contexts)
    typer.echo(f"{word}: {name}{' (in use)' if contexts.current == name else ''}")


@app.command("list")
@client_command
def list_contexts(output: Output) -> None:
    """List all contexts; the current one is marked."""
    contexts = read_contexts()
    found = [
        {
            "name": name,
            "current": name == contexts.current,
            "bootstrap_servers": properties.get("bootstrap.servers", ""),
        }
        for name, properties in sorted(contexts.named.items())
    ]
    rows = [("*" if one["current"] else "", one["name"], one["bootstrap_servers"]) for one in found]
    output.show(found, Table("", ("IN USE", "NAME", "BOOTSTRAP SERVERS"), rows))


@app.command()
@client_command
def use(name: Name, dry_run: DryRun = False) -> None:
    """Make a context the current one."""
    contexts = _with(name)
    contexts.current = name
    if not dry_run:
        write_contexts(contexts)
    typer.echo(f"{'would be in use' if dry_run else 'in use'}: {name}")


@app.command()
@client_command
def show(
    output: Output,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="default: the current context")] = None,
) -> None:
    """Show a context's properties; secrets are hidden."""
    contexts = read_contexts()
    chosen = name if name is not None else contexts.current
    if chosen is None:
        raise UserError("there is no current context; choose one with `odradek context use NAME`", ErrorKind.NOT_FOUND)
    properties = shown_properties(_with(chosen).named[chosen])
    rows = sorted(properties.items())
    output.show([{"name": chosen, "properties": properties}], Table("", ("PROPERTY", "VALUE"), rows))


@app.command()
@client_command
def remove(name: Name, dry_run: DryRun = False) -> None:
    """Remove a context and its properties."""
    contexts = _with(name)
    del contexts.named[name]
    if contexts.current == name:
        contexts.current = None
    if not dry_run:
        write_contexts(contexts)
    typer.echo(f"{'would be removed' if dry_run else 'removed'}: {name}")


def _with(name: str) -> Contexts:
    contexts = read_contexts()
    if name not in contexts.named:
        known = ", ".join(sorted(contexts.named)) or "none; add one with `odradek context add`"
        raise UserError(f"there is no context {name!r}; contexts: {known}", ErrorKind.NOT_FOUND)
    return contexts
