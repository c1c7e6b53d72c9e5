"""The run of a client command: its exit status, and one line for each error."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, cast

from ...client.explained_errors import from_library
from ...client.suggestions import did_you_mean
from ...client.user_errors import UserError
from ..messages import FAILED, INTERRUPTED, MISUSED, complain
from .commands import EXTRA, ClientCommand
from .exit_statuses import exit_status_of

if TYPE_CHECKING:
    import typer

#: Other names of commands, as in a shell.
_ALIASES = {"ls": ("list",), "rm": ("delete", "remove")}
_PACKAGE = __package__.rpartition(".")[0]

#: Modules of the extras, and the extra that each is of.
_EXTRAS = {
    "typer": EXTRA,
    "rich": EXTRA,
    "confluent_kafka": EXTRA,
    "kafka": EXTRA,
    "pyarrow": "parquet",
    **dict.fromkeys(("fastavro", "google", "grpc_tools"), "decoding"),
    **dict.fromkeys(("duckdb", "numba", "numpy", "ptars"), "columns"),
    "pyiceberg": "tables",
    **dict.fromkeys(
        ("starlette", "uvicorn", "jinja2", "itsdangerous", "multipart", "python_multipart", "authlib", "httpx2"),
        "console",
    ),
}


def run(words: tuple[str, ...], command: ClientCommand, arguments: Sequence[str]) -> int:
    """Runs the command that `words` name with the `arguments` after them. Returns its exit status."""
    try:
        import typer.main

        made = typer.main.get_command(app_of(command))
        status = made.main(
            _without_aliases(made, arguments), prog_name=" ".join(("odradek", *words)), standalone_mode=False
        )
        sys.stdout.flush()
        return int(status or 0)
    except ModuleNotFoundError as error:
        return _missing(words, error)
    except UserError as error:
        return complain(error, exit_status_of(error))
    except (KeyboardInterrupt, EOFError):
        return complain("interrupted", INTERRUPTED)
    except BrokenPipeError:
        raise
    except Exception as error:
        return _explained(" ".join(("odradek", *words)), error)


def _without_aliases(command: object, arguments: Sequence[str]) -> list[str]:
    """The arguments with the name of the command that an alias stands for."""
    names = getattr(command, "commands", {})
    if not arguments or arguments[0] in names:
        return list(arguments)
    meant = next((name for name in _ALIASES.get(arguments[0], ()) if name in names), arguments[0])
    return [meant, *arguments[1:]]


def app_of(command: ClientCommand) -> typer.Typer:
    module, _, name = command.module.partition(":")
    app: typer.Typer = getattr(importlib.import_module(f".{module}", _PACKAGE), name or "app")
    return app


def _missing(words: tuple[str, ...], error: ModuleNotFoundError) -> int:
    missing = (error.name or "").partition(".")[0]
    if missing not in _EXTRAS:
        raise error
    from ...extras import install_command  # it imports much, and no command has to wait for that

    how = install_command(_EXTRAS[missing])
    return complain(f"`odradek {' '.join(words)}` needs {missing}, which is not installed: {how}", FAILED)


def _explained(program: str, error: Exception) -> int:
    """One line for errors of the command line and of the libraries; other exceptions are bugs and pass."""
    import typer

    if isinstance(error, typer.Abort) and isinstance(error.__cause__, KeyboardInterrupt):
        return complain("interrupted", INTERRUPTED)
    if isinstance(error, typer.Abort):
        return complain("not confirmed; nothing was changed", FAILED)
    if hasattr(error, "format_message"):  # of a wrong option or argument; typer names the class anew now and then
        return _usage(program, cast("_UsageError", error))
    known = from_library(error)
    if known is not None:
        return complain(known, exit_status_of(known))
    if isinstance(error, OSError):
        return complain(error, FAILED)
    raise error


class _UsageError(Protocol):
    def format_message(self) -> str: ...


def _usage(program: str, error: _UsageError) -> int:
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else program
    message = error.format_message().rstrip(".")
    wrong = getattr(error, "message", "")
    if context is not None and wrong.startswith("No such command"):
        names = context.command.list_commands(context)
        mistake = wrong.split("'")[1]
        message = f"No such command '{mistake}'{did_you_mean(mistake, names)}"
    elif (options := getattr(error, "possibilities", None)) and hasattr(error, "option_name"):
        message = f"No such option: {error.option_name}{did_you_mean(error.option_name, options)}"
    if not message:  # no arguments: the help was printed
        return MISUSED
    return complain(f"{message}; see `{path} --help`", MISUSED)
