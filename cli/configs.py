"""`odradek config`: its commands. `config get|set broker default` is `--entity-default` of Kafka's tools."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from ..admin.config_alteration import alter_configs
from ..admin.configs import ALL_BROKERS, ConfigValue, describe_configs, node_of
from ..admin.configs import Kind as Resource
from ..admin.connection import Connection, connection_of
from ..admin.nodes import check_running
from ..admin.session import Admin
from ..client.error_kinds import ErrorKind
from ..client.properties import HIDDEN, given_once, pairs
from ..client.user_errors import Misused, UserError
from .client.options import DryRun, client_command, new_app
from .output import Output, Table

#: The name that stands for all brokers; a broker's own is a number.
DEFAULT = "default"


app = new_app("Show and change configs of topics, brokers, groups and client metrics.")


class Kind(StrEnum):
    topic = "topic"
    broker = "broker"
    group = "group"
    client_metrics = "client-metrics"
    broker_logger = "broker-logger"

    @property
    def word(self) -> str:
        return self.value.replace("-", "_")


KindArgument = Annotated[Kind, typer.Argument(help="kind of the resource")]
Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="name of the topic or group, a broker's id, `default` for all brokers, ..."),
]


@app.command()
@client_command
def get(
    kind: KindArgument,
    name: Name,
    connection: Connection,
    output: Output,
    keys: Annotated[list[str] | None, typer.Argument(metavar="[KEY...]", help="only these keys")] = None,
    every: Annotated[bool, typer.Option("--all", help="show defaults, too")] = False,
) -> None:
    """Show configs that are set, and the source of each value."""
    _check_name(kind, name)
    values = _read(connection, kind, name)
    unknown = [key for key in keys or () if key not in values]
    if unknown:
        raise UserError(
            f"{kind.value} {name} has no config {', '.join(unknown)}; --all lists them", ErrorKind.NOT_FOUND
        )
    shown = {
        key: value
        for key, value in sorted(values.items())
        if (key in keys if keys else every or value.config_source != "DEFAULT_CONFIG")
    }
    found = [_described(key, value) for key, value in shown.items()]
    rows = [[one[column] for column in ("key", "value", "source", "read_only")] for one in found]
    output.show(found, Table("", ("KEY", "VALUE", "SOURCE", "READ ONLY"), rows))


def _read(connection: Connection, kind: Kind, name: str) -> dict[str, ConfigValue]:
    """Raises RequestFailed for a topic or a broker that does not exist."""
    with connection.admin() as admin:
        resource, resource_name = _resource(admin, kind, name)
        return describe_configs(admin, resource, resource_name)


def _resource(admin: Admin, kind: Kind, name: str) -> tuple[Resource, str]:
    """The resource of the arguments, and its name. Raises NoSuchNode."""
    resource, resource_name = Resource[kind.word.upper()], ALL_BROKERS if _is_of_all(kind, name) else name
    node = node_of(resource, resource_name)
    check_running(admin, [] if node is None else [node])
    return resource, resource_name


def _is_of_all(kind: Kind, name: str) -> bool:
    return kind is Kind.broker and name == DEFAULT


def _described(key: str, value: ConfigValue) -> dict[str, object]:
    return {
        "key": key,
        "value": HIDDEN if value.is_sensitive else value.value,
        "source": value.config_source,
        "read_only": value.read_only,
        "type": value.config_type,
    }


def _check_name(kind: Kind, name: str) -> None:
    if _is_of_all(kind, name):
        return
    if kind in (Kind.broker, Kind.broker_logger) and not (name.isascii() and name.isdecimal()):
        every = f", or `{DEFAULT}` for all brokers" if kind is Kind.broker else ""
        raise Misused(f"{kind.value} needs a broker's id{every}, not {name!r}; `odradek cluster describe` lists them")


@app.command("set")
@client_command
def set_configs(
    kind: KindArgument,
    name: Name,
    connection: Connection,
    output: Output,
    values: Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE...]")] = None,
    delete: Annotated[
        list[str] | None, typer.Option("--delete", "-d", metavar="KEY", help="return to the default; may be repeated")
    ] = None,
    append: Annotated[list[str] | None, typer.Option("--append", metavar="KEY=VALUE", help="append to a list")] = None,
    subtract: Annotated[
        list[str] | None, typer.Option("--subtract", metavar="KEY=VALUE", help="remove from a list")
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Set or delete configs, append to or remove from lists. With --dry-run the broker only validates them."""
    _check_name(kind, name)
    changes: dict[str, tuple[str, str | None]] = {}
    for word, texts, option in (
        ("SET", values, "config set"),
        ("APPEND", append, "--append"),
        ("SUBTRACT", subtract, "--subtract"),
    ):
        changes |= given_once(changes, {key: (word, value) for key, value in pairs(texts or [], option).items()})
    changes |= given_once(changes, dict.fromkeys(delete or [], ("DELETE", None)))
    if not changes:
        raise Misused("nothing to change: give KEY=VALUE, --delete, --append or --subtract")
    with connection.admin() as admin:
        _, resource_name = _resource(admin, kind, name)
        alter_configs(admin, kind.word, resource_name, changes, dry_run=dry_run)
    output.changed(
        "set", [f"{kind.value} {name}: {_words(key, *change)}" for key, change in changes.items()], dry_run=dry_run
    )


def _words(key: str, word: str, value: str | None) -> str:
    if "password" in key or "secret" in key:
        value = HIDDEN
    return {"SET": f"{key}={value}", "DELETE": f"{key} deleted"}.get(word, f"{key} {word.lower()} {value}")


@app.command()
@client_command
def diff(
    kind: KindArgument,
    name: Name,
    connection: Connection,
    output: Output,
    other: Annotated[
        str | None,
        typer.Argument(metavar="[OTHER]", help="the second resource (default: the same name, in the other cluster)"),
    ] = None,
    other_bootstrap: Annotated[
        str | None, typer.Option("--other-bootstrap-server", metavar="HOST:PORT", help="compare with this cluster")
    ] = None,
    other_context: Annotated[
        str | None, typer.Option("--other-context", metavar="NAME", help="compare with the cluster of this context")
    ] = None,
) -> None:
    """Show configs in which two topics, brokers or clusters differ. Exit status 1 when they do."""
    _check_name(kind, name)
    if other is None and other_bootstrap is None and other_context is None:
        raise Misused("compare with OTHER, --other-bootstrap-server or --other-context")
    there = connection
    if other_bootstrap is not None or other_context is not None:
        there = connection_of(other_bootstrap, None, other_context, [], connection.timeout_s)
    left, right = (_values(where, kind, one) for where, one in ((connection, name), (there, other or name)))
    found = [
        {"key": key, "left": left.get(key), "right": right.get(key)}
        for key in sorted(left.keys() | right.keys())
        if left.get(key) != right.get(key)
    ]
    output.show(found, Table("", ("KEY", name, other or f"{name} (other)"), [list(one.values()) for one in found]))
    if found:
        raise typer.Exit(1)


def _values(connection: Connection, kind: Kind, name: str) -> dict[str, str | None]:
    values = _read(connection, kind, name)
    return {key: HIDDEN if value.is_sensitive else value.value for key, value in values.items()}
