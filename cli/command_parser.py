"""The parser of a command line: mistakes in one line with the probable meaning, and texts of the terminal's width."""

from __future__ import annotations

import argparse
import shutil
import textwrap
from collections.abc import Iterator
from typing import Any, NoReturn

from ..client.message_text import one_line, shown
from ..client.suggestions import did_you_mean
from .messages import MISUSED, complain


class UsageError(Exception):
    """A request on the command line that cannot be fulfilled; the message has the remedy."""


class CommandParser(argparse.ArgumentParser):
    """Explains a mistake in one line, where argparse prints the whole usage before it. Texts have the terminal's width."""

    def __init__(self, *given: Any, **named: Any) -> None:
        for name in ("description", "epilog"):
            if named.get(name):
                named[name] = wrapped(named[name])
        super().__init__(*given, **named)

    def error(self, message: str) -> NoReturn:
        self.exit(complain(f"{one_line(message)}{self._hint(message)}; see `{self.prog} --help`", MISUSED))

    def _hint(self, message: str) -> str:
        """The option that was probably meant."""
        mistake, _, words = message.partition(": ")
        if mistake != "unrecognized arguments" or not words.startswith("-"):
            return ""
        return did_you_mean(words.split()[0].partition("=")[0], _option_strings(self))

    def _check_value(self, action: argparse.Action, value: str) -> None:
        if action.choices is not None and value not in action.choices:
            names = [str(name) for name in action.choices]
            hint = did_you_mean(value, names)
            raise argparse.ArgumentError(action, f"{shown(value)} is not one of {', '.join(names)}{hint}")


def _option_strings(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        yield from action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _option_strings(command)


def wrapped(text: str) -> str:
    """The text with its longer lines folded to the terminal's width, below their first word."""
    width = max(40, shutil.get_terminal_size().columns - 2)
    made = []
    for line in text.splitlines():
        indent = " " * (len(line) - len(line.lstrip()))
        made += textwrap.wrap(line, width, subsequent_indent=indent, break_on_hyphens=False) or [""]
    return "\n".join(made)
