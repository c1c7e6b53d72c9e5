"""Options that every client command has, and the completion of their values. `client_command` adds them to a function,
which gets the objects they make.

The values that the shell completes are names of contexts, and of topics and groups of the cluster in use: that of the
current context, of ODRADEK_BOOTSTRAP_SERVER, or 127.0.0.1:9092. A person waits, so these requests take a connection that
blocks (0.04 s to load, with the codecs) in place of the clients of the commands (0.08 s and 0.15 s). Settings of TLS and
SASL take effect as in commands; what they need is loaded only then.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import shutil
import typing
from collections.abc import Callable, Iterable
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from ..output import FORMATS, Output
from .connection import DEFAULT_BOOTSTRAP, DEFAULT_TIMEOUT_S, Connection, connection_of
from .errors import CommandError
from .properties import login_of, ssl_context

if TYPE_CHECKING:
    from ...client.blocking import BlockingConnection

# ---- completion of values

T = TypeVar("T")
#: A person waits for it: the limit for each broker.
_TIMEOUT_S = 2.0
#: Versions that every Kafka since 0.10 has; these lists need nothing of later ones.
_METADATA_VERSION, _LIST_GROUPS_VERSION = 1, 0


def complete_context(incomplete: str) -> list[str]:
    from .contexts import read_contexts

    try:
        return [name for name in sorted(read_contexts().named) if name.startswith(incomplete)]
    except CommandError:
        return []


def complete_topic(incomplete: str) -> list[str]:
    """Topics of the cluster; nothing when it does not respond."""
    return _names(_topics, incomplete)


def complete_group(incomplete: str) -> list[str]:
    """Groups of the same cluster."""
    return _names(_groups, incomplete)


def _names(read: Callable[[Connection], Iterable[str]], incomplete: str) -> list[str]:
    from .connection import connection_of

    try:
        connection = connection_of(os.environ.get("ODRADEK_BOOTSTRAP_SERVER"), None, None, [], _TIMEOUT_S)
        return [name for name in sorted(read(connection)) if name.startswith(incomplete)]
    except Exception:
        return []


def _topics(connection: Connection) -> Iterable[str]:
    from ...protocol.messages.metadata import MetadataRequest

    every = MetadataRequest(topics=None)
    topics = _of_any(connection, lambda broker: broker.ask(every, _METADATA_VERSION).topics)
    return [topic.name for topic in topics if not topic.is_internal]


def _groups(connection: Connection) -> Iterable[str]:
    """Asks every broker: a group is in the list of its coordinator only."""
    from ...protocol.messages.groups import ListGroupsRequest
    from ...protocol.messages.metadata import MetadataRequest

    none = MetadataRequest(topics=[])
    found: set[str] = set()
    for one in _of_any(connection, lambda broker: broker.ask(none, _METADATA_VERSION).brokers):
        with contextlib.suppress(OSError), _connected(connection, (one.host, one.port)) as broker:
            found.update(group.group_id for group in broker.ask(ListGroupsRequest(), _LIST_GROUPS_VERSION).groups)
    return found


def _of_any(connection: Connection, step: Callable[[BlockingConnection], T]) -> T:
    """Runs the step with the first address that responds. Raises OSError."""
    for address in connection.addresses:
        with contextlib.suppress(OSError), _connected(connection, address) as broker:
            return step(broker)
    raise OSError("no broker responds")


def _connected(
    connection: Connection, address: tuple[str, int]
) -> contextlib.AbstractContextManager[BlockingConnection]:
    from ...client.blocking import BlockingConnection

    security = connection.security
    tls = ssl_context(security) if security.has_tls else None
    client_id = connection.properties.get("client.id", "odradek-cli")
    return contextlib.closing(BlockingConnection(address, client_id, _TIMEOUT_S, tls, login_of(security)))


# ---- options

OutputFormat = Enum("OutputFormat", {name: name for name in FORMATS}, type=str)  # type: ignore[misc]

Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        "-b",
        metavar="HOST:PORT",
        envvar="ODRADEK_BOOTSTRAP_SERVER",
        help=f"brokers, separated by commas (default: those of the current context, or {DEFAULT_BOOTSTRAP})",
        show_envvar=False,
    ),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option("--command-config", metavar="FILE", help="file of client properties, as for Kafka's own tools"),
]
Context = Annotated[
    str | None,
    typer.Option(
        "--context",
        metavar="NAME",
        help="a named cluster (default: the current context; see `odradek context`)",
        autocompletion=complete_context,
    ),
]
Setting = Annotated[
    list[str] | None, typer.Option("-X", metavar="KEY=VALUE", help="set one client property; may be repeated")
]
Timeout = Annotated[float, typer.Option("--timeout", metavar="SECONDS", help="timeout of a request")]
OutputOption = Annotated[OutputFormat | None, typer.Option("--output", help="output format (default: table)")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="print what would change, and change nothing")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="do not ask for confirmation")]

_KEYWORD = inspect.Parameter.KEYWORD_ONLY
_OF_CONNECTION = (
    inspect.Parameter("bootstrap_server", _KEYWORD, default=None, annotation=Bootstrap),
    inspect.Parameter("command_config", _KEYWORD, default=None, annotation=CommandConfig),
    inspect.Parameter("context", _KEYWORD, default=None, annotation=Context),
    inspect.Parameter("setting", _KEYWORD, default=None, annotation=Setting),
    inspect.Parameter("timeout", _KEYWORD, default=DEFAULT_TIMEOUT_S, annotation=Timeout),
)
_OF_OUTPUT = (inspect.Parameter("output_format", _KEYWORD, default=None, annotation=OutputOption),)


def client_command(function: Callable[..., None]) -> Callable[..., None]:
    """Replaces parameters `connection: Connection` and `output: Output` by the options that make them."""
    hints = typing.get_type_hints(function, include_extras=True)
    own = inspect.signature(function).parameters
    has_connection, has_output = "connection" in own, "output" in own
    parameters = [
        parameter.replace(annotation=hints[name], kind=_KEYWORD)
        for name, parameter in own.items()
        if name not in ("connection", "output")
    ]
    parameters += [*(_OF_CONNECTION if has_connection else ()), *(_OF_OUTPUT if has_output else ())]

    @functools.wraps(function)
    def run(**given: Any) -> None:
        if has_connection:
            given["connection"] = connection_of(
                given.pop("bootstrap_server"),
                given.pop("command_config"),
                given.pop("context"),
                given.pop("setting") or [],
                given.pop("timeout"),
            )
        if has_output:
            chosen = given.pop("output_format")
            given["output"] = Output(chosen.value if chosen is not None else "table")
        function(**given)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    del run.__wrapped__
    return run


def new_app(help_text: str) -> typer.Typer:
    """A group of commands with plain help, and errors that `run` explains."""
    return typer.Typer(
        help=help_text,
        add_completion=False,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={
            "help_option_names": ["-h", "--help"],
            # The library's own limit is 80 columns.
            "max_content_width": shutil.get_terminal_size().columns,
        },
    )


__all__ = ["Connection", "DryRun", "Output", "Yes", "client_command", "new_app"]
