"""Options that every client command has. `client_command` adds them to a function, which gets the objects they make."""

from __future__ import annotations

import functools
import inspect
import shutil
import typing
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from ...admin.connection import DEFAULT_BOOTSTRAP, DEFAULT_TIMEOUT_S, connection_of
from ...client.user_errors import Misused
from ..output import FORMATS, Output
from .path_parameters import checked_path
from .value_completion import complete_context

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

#: The largest number of an option with a fraction: seconds, hours and rates beyond it, and NaN, mean nothing.
MOST_NUMBER = 1e9

_KEYWORD = inspect.Parameter.KEYWORD_ONLY
_OF_CONNECTION = (
    inspect.Parameter("bootstrap_server", _KEYWORD, default=None, annotation=Bootstrap),
    inspect.Parameter("command_config", _KEYWORD, default=None, annotation=checked_path(CommandConfig)),
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
        parameter.replace(annotation=checked_path(hints[name]), kind=_KEYWORD)
        for name, parameter in own.items()
        if name not in ("connection", "output")
    ]
    parameters += [*(_OF_CONNECTION if has_connection else ()), *(_OF_OUTPUT if has_output else ())]

    @functools.wraps(function)
    def run(**given: Any) -> None:
        for name, value in given.items():
            if isinstance(value, float) and not abs(value) <= MOST_NUMBER:
                raise Misused(
                    f"{_option_name(hints.get(name, Timeout), name)} {value:g} is not a number up to {MOST_NUMBER:.0f}"
                )
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


def one_of(option: str, given: str | None, names: tuple[str, ...]) -> str | None:
    """The name that the text of an option is, whatever its case; None without one. Raises Misused for another text."""
    if given is None:
        return None
    for name in names:
        if name.lower() == given.lower():
            return name
    raise Misused(f"{option} {given!r} is not one of {', '.join(names)}")


def _option_name(hint: object, name: str) -> str:
    """The option of a parameter, as a user writes it."""
    written = [word for one in getattr(hint, "__metadata__", ()) for word in getattr(one, "param_decls", None) or ()]
    return next((word for word in written if word.startswith("--")), f"--{name.replace('_', '-')}")


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
