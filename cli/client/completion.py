"""The shell's completion of a command line: all commands in one tree, with their options."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..messages import FAILED, warn
from .commands import COMMANDS, ClientCommand, command_of
from .running import app_of

if TYPE_CHECKING:
    import typer


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
