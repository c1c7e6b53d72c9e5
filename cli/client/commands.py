"""The client commands: their words, the module that has each and what each is for, and how a command is run.

A module is imported when its command runs. The table alone is what `odradek --help` needs, so the base install shows the
commands and explains how to install them.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from ..options import FAILED, INTERRUPTED, MISUSED, complain, did_you_mean, warn
from .errors import CommandError, from_library

if TYPE_CHECKING:
    import typer

# ---- commands

#: The package that `pip` installs for these commands.
EXTRA = "odradek[cli]"


class ClientCommand(NamedTuple):
    """`module` is relative to `odradek.cli`, with a dot before it to `odradek`. It has `app`, or the name after a colon, a
    `typer.Typer`. `meaning` is the line in the help.
    """

    module: str
    meaning: str


COMMANDS: dict[tuple[str, ...], ClientCommand] = {
    ("topic",): ClientCommand("topics", "list, describe, create, alter and delete topics"),
    ("consume",): ClientCommand("records.consume_command", "read records"),
    ("query",): ClientCommand(".columns.query_command", "query topics with SQL"),
    ("archive",): ClientCommand(".archive.command", "keep topics as Iceberg tables or Parquet files"),
    ("replay",): ClientCommand(".archive.command:replay_app", "write a table back into a topic"),
    ("record",): ClientCommand("records.record_command", "copy records into a file for tests, with fields masked"),
    ("produce",): ClientCommand("records.produce_command", "write records"),
    ("group",): ClientCommand("groups.command", "show members, offsets and lag of groups; set offsets; delete groups"),
    ("config",): ClientCommand("configs", "show and change configs of topics, brokers, groups and client metrics"),
    ("txn",): ClientCommand("transactions", "list, describe and abort transactions, also hanging ones"),
    ("cluster", "describe"): ClientCommand("clusters:describe_app", "show brokers and replicas of any cluster"),
    ("cluster", "quorum"): ClientCommand("clusters:quorum_app", "show the metadata quorum of any cluster"),
    ("cluster", "features"): ClientCommand("clusters:features_app", "show features and their levels"),
    ("cluster", "set-feature"): ClientCommand("clusters:set_feature_app", "upgrade and downgrade features"),
    ("cluster", "elect-leaders"): ClientCommand("clusters:elect_leaders_app", "make preferred replicas leaders again"),
    ("cluster", "log-dirs"): ClientCommand("clusters:log_dirs_app", "show log directories and their disk space"),
    ("reassign",): ClientCommand("reassign", "move replicas between brokers, by a plan that balances them"),
    ("tier",): ClientCommand("tier", "show, check and repair what topics have in the remote store"),
    ("backup",): ClientCommand("backup.command", "back up topics and group offsets"),
    ("restore",): ClientCommand("backup.command:restore_app", "restore a backup to a cluster"),
    ("doctor",): ClientCommand("doctor", "check a data directory or a running cluster"),
    ("migrate",): ClientCommand("migrate", "plan and watch the way from Apache Kafka to Odradek, and back"),
    ("bench",): ClientCommand("bench", "measure the throughput and latency of a cluster"),
    ("top",): ClientCommand("live", "show live metrics of a cluster"),
    ("acl",): ClientCommand("security:acl_app", "list, create and delete ACLs"),
    ("user",): ClientCommand("security:user_app", "list, create and delete users with SCRAM credentials"),
    ("quota",): ClientCommand("security:quota_app", "list and set quotas of users, client ids and IP addresses"),
    ("token",): ClientCommand("security:token_app", "create, list, renew and expire delegation tokens"),
    ("schema",): ClientCommand("records.schema_command", "list, get, register, check and delete schemas of a registry"),
    ("console",): ClientCommand(".console.command", "serve the web console"),
    ("context",): ClientCommand("client.context_command", "manage named clusters: addresses and client properties"),
    ("completion",): ClientCommand("client.completion_command", "print the shell's completion script"),
}


def command_of(words: Sequence[str]) -> tuple[tuple[str, ...], ClientCommand] | None:
    """Returns the command that the first one or two words name, and these words. None for the others."""
    for count in (2, 1):
        found = COMMANDS.get(tuple(words[:count]))
        if found is not None and len(words) >= count:
            return tuple(words[:count]), found
    return None


def second_words(first: str) -> dict[str, str]:
    """Returns the client commands below a command of argparse, as `cluster`, with their meanings."""
    return {words[1]: command.meaning for words, command in COMMANDS.items() if len(words) == 2 and words[0] == first}


# ---- run

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
