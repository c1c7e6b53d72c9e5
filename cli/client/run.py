"""Runs a client command: finds its module, explains its errors, and completes words for the shell."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, cast

from ..options import FAILED, INTERRUPTED, MISUSED, complain, did_you_mean, warn
from .commands import COMMANDS, EXTRA, ClientCommand, command_of
from .errors import CommandError, from_library

if TYPE_CHECKING:
    import typer

#: Other names of commands, as in a shell.
_ALIASES = {"ls": ("list",), "rm": ("delete", "remove")}
_PACKAGE = __package__.rpartition(".")[0]
#: Modules of the extras, and the extra that each is of.
_EXTRAS = {"typer": EXTRA, "rich": EXTRA, "confluent_kafka": EXTRA, "kafka": EXTRA, "pyarrow": "odradek[parquet]"}
_EXTRAS |= {"fastavro": "odradek[decoding]", "google": "odradek[decoding]", "grpc_tools": "odradek[decoding]"}
_EXTRAS |= dict.fromkeys(("duckdb", "numba", "numpy", "ptars"), "odradek[columns]")
_EXTRAS["pyiceberg"] = "odradek[tables]"
_EXTRAS |= dict.fromkeys(
    ("starlette", "uvicorn", "jinja2", "itsdangerous", "multipart", "python_multipart", "authlib", "httpx2"),
    "odradek[console]",
)


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
    except CommandError as error:
        return complain(error, error.status)
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
    return complain(
        f"`odradek {' '.join(words)}` needs {missing}, which is not installed: pip install '{_EXTRAS[missing]}'", FAILED
    )


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
        return complain(known, known.status)
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


# ---- completion


def root(parser: argparse.ArgumentParser, *, names_only: bool = False) -> typer.Typer:
    """All commands in one tree, those of argparse as stubs with their options: the shell completes from it.

    `names_only`: no client command is imported.
    """
    import typer

    made = _empty_root()
    groups: dict[str, typer.Typer] = {}
    for name, command in _subcommands(parser).items():
        inner = _subcommands(command)
        if (name,) in COMMANDS:
            continue
        if not inner:
            made.command(name, help=command.description)(_stub(command))
            continue
        groups[name] = typer.Typer(help=command.description)
        made.add_typer(groups[name], name=name)
        for verb, parsed in inner.items():
            if (name, verb) not in COMMANDS:
                groups[name].command(verb, help=parsed.description)(_stub(parsed))
    for words, client in COMMANDS.items():
        into = made if len(words) == 1 else groups[words[0]]
        if not names_only:
            _add(into, words[-1], app_of(client))
        else:
            into.command(words[-1], help=client.meaning)(lambda: None)
    return made


def _tree_of(words: tuple[str, ...], command: ClientCommand) -> typer.Typer:
    """The tree with one client command in its place, and nothing of the others."""
    import typer

    made = into = _empty_root()
    for word in words[:-1]:
        inner = typer.Typer()
        into.add_typer(inner, name=word)
        into = inner
    _add(into, words[-1], app_of(command))
    return made


def _empty_root() -> typer.Typer:
    import typer

    made = typer.Typer(add_completion=True, rich_markup_mode=None)
    # With a callback it stays a group of commands when it has one command only.
    made.callback()(lambda: None)
    return made


def _add(into: typer.Typer, name: str, app: typer.Typer) -> None:
    if len(app.registered_commands) == 1 and not app.registered_groups and app.registered_callback is None:
        (only,) = app.registered_commands
        assert only.callback is not None
        into.command(name, help=only.help)(only.callback)
    else:
        into.add_typer(app, name=name)


def _subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _stub(parser: argparse.ArgumentParser) -> Callable[..., None]:
    import inspect
    from typing import Annotated

    import typer

    def nothing(**given: object) -> None:
        pass

    parameters = []
    for action in parser._actions:
        if not action.option_strings or action.dest == "help":
            continue
        option: object = typer.Option(*action.option_strings, help=action.help)
        annotation = Annotated[bool | None, option] if action.nargs == 0 else Annotated[str | None, option]
        parameters.append(
            inspect.Parameter(action.dest, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        )
    nothing.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    nothing.__annotations__ = {one.name: one.annotation for one in parameters}
    return nothing


def complete(make_parser: Callable[[], argparse.ArgumentParser]) -> int:
    """Writes completions of the line that is in the environment. `_ODRADEK_COMPLETE` names the shell. The parser is made for
    a line without a client command; otherwise that command alone is imported.
    """
    import typer.main

    named = command_of(_words_before_cursor())
    try:
        tree = _tree_of(*named) if named is not None else root(make_parser(), names_only=True)
        typer.main.get_command(tree).main(args=[], prog_name="odradek", complete_var="_ODRADEK_COMPLETE")
    except SystemExit as end:
        return int(end.code or 0)
    except ModuleNotFoundError as error:
        warn(error)
    return FAILED


def _words_before_cursor() -> list[str]:
    """The words between `odradek` and the one that is completed, in the variables of typer's scripts."""
    if "COMP_WORDS" in os.environ:  # bash
        words = os.environ["COMP_WORDS"].split()
        end = os.environ.get("COMP_CWORD", "")
        return words[1 : int(end) if end.isdecimal() else None]
    typed = os.environ.get("_TYPER_COMPLETE_ARGS", "")  # zsh and fish: the line up to the cursor
    words = typed.split()
    return words[1:] if typed[-1:].isspace() else words[1:-1]
