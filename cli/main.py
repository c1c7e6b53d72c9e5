"""The `odradek` command.

Modules of the server are imported inside the commands that need them: `odradek --help` responds at once, and a broker's
start pays for nothing that it does not use.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from ..version import KAFKA_LEVEL, __version__
from .client.commands import COMMANDS, command_of
from .command_parser import CommandParser
from .messages import FAILED, INTERRUPTED, complain

DESCRIPTION = """\
A Kafka-compatible broker in Python. Kafka clients work with it unchanged.

  odradek start                          start a broker on 127.0.0.1:9092, data in ./odradek-data
  odradek start --port 0                 start it on a free port; the first line names it
  odradek start server.properties        start it with Apache Kafka's own configuration file
  odradek cluster start                  start a cluster of three brokers on this machine
  odradek topic create orders            create a topic, on this broker or any Kafka cluster (pip install 'odradek[cli]')
"""
#: The environment variable by which a shell requests completions.
_COMPLETE = "_ODRADEK_COMPLETE"


#: The base install's commands, and the module that has each.
_OWN = {name: f".{name}_command" for name in ("start", "format", "cluster", "log", "repair")}


def parser(word: str = "") -> argparse.ArgumentParser:
    """The parser of the base install's commands. Client commands are rows in its help; `main` never gives it one.

    For a first word that names a command it has only this one: a broker keeps no memory for the others.
    """
    made = CommandParser(prog="odradek", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--version", action="version", version=f"odradek {__version__} (Apache Kafka {KAFKA_LEVEL})")
    commands = made.add_subparsers(title="commands", dest="command", metavar="COMMAND", required=True)
    for name, module in _OWN.items():
        if word not in _OWN or name == word:
            import_module(module, __package__).add_to(commands)
    for words, client in COMMANDS.items():
        if len(words) == 1 and word not in _OWN:
            commands.add_parser(words[0], help=client.meaning)
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command. Returns its exit status (client/exit_statuses.py); failures are explained on standard error."""
    try:
        return _status(list(sys.argv[1:] if arguments is None else arguments))
    finally:
        # Ctrl-C within an `exec` of text (a dataclass is made with one) has Python set a flag that stays when the exception
        # is caught. `python -m` then ends by SIGINT whatever the exit status is. The next `exec` of text clears the flag.
        exec("")


def _status(words: list[str]) -> int:
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A path may hold bytes that no encoding has a character for.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        status = _run(words)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return complain("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # The reader of standard output is gone, and with it every reader of an error message.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    return status


def _run(words: list[str]) -> int:
    if _COMPLETE in os.environ:
        from .client.completion import complete

        return complete(parser)
    client = command_of(words)
    if client is not None:
        from .client.running import run

        return run(*client, words[len(client[0]) :])
    if not words:
        parser().print_help()
        return 0
    options = parser(words[0]).parse_args(words)
    status: int = options.run(options)
    return status


if __name__ == "__main__":
    sys.exit(main())
