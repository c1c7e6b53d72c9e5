"""Options that several commands share, and how a command reports that it failed.

Exit statuses: 0 for success, FAILED when the command failed, MISUSED when it was given something
that cannot be done: an option, a property or a file that must change first. 130 follows Ctrl-C, as in a shell.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

DEFAULT_DATA_DIR = "odradek-data"
FAILED = 1
MISUSED = 2
INTERRUPTED = 130
#: Longer messages are cut: a value of a megabyte on a command line is no help in its error.
MOST_MESSAGE_CHARACTERS = 800
#: Limit of a value that a message repeats.
MOST_SHOWN_CHARACTERS = 80
#: Limit of `--processes`.
MOST_PROCESSES = 100


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


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`, did you mean X?` for the known word that is most like this one; "" when none is."""
    from difflib import get_close_matches

    found = get_close_matches(word[:MOST_SHOWN_CHARACTERS], sorted(set(known)), n=1)
    return f", did you mean {found[0]}?" if found else ""


def add_configuration(command: argparse.ArgumentParser, *, optional_file: bool = True) -> None:
    command.add_argument(
        "properties",
        nargs="?" if optional_file else None,
        type=path,
        metavar="server.properties",
        help="a configuration file of Apache Kafka",
    )
    add_override(command, "set one property; takes precedence over the file; may be repeated")
    command.add_argument(
        "--data-dir",
        type=path,
        metavar="D",
        help=f"data directory; takes precedence over log.dirs of the file (default: ./{DEFAULT_DATA_DIR})",
    )


def add_override(command: argparse.ArgumentParser, meaning: str) -> None:
    command.add_argument("--override", action="append", type=key_value, default=[], metavar="KEY=VALUE", help=meaning)


# ---- values of options; argparse shows the text of the error


def path(text: str) -> Path:
    if not text.strip():
        raise argparse.ArgumentTypeError("an empty text is not a path")
    if "\0" in text:
        raise argparse.ArgumentTypeError(f"{shown(text)} has a NUL character, which no path can have")
    return Path(text)


def port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 5 and int(text) <= 65535):
        raise argparse.ArgumentTypeError(f"{shown(text)} is not a port: a number from 0 to 65535")
    return int(text)


def process_count(text: str) -> int:
    """The number of brokers of `--processes`; `auto` is one for each processor that this process may use."""
    if text == "auto":
        usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return min(MOST_PROCESSES, usable)
    if not (text.isascii() and text.isdecimal() and len(text) <= 3 and 1 <= int(text) <= MOST_PROCESSES):
        raise argparse.ArgumentTypeError(f"{shown(text)} is not auto or a number from 1 to {MOST_PROCESSES}")
    return int(text)


def host(text: str) -> str:
    """An address or a name of this machine, without the brackets of an IPv6 address."""
    found = text.strip().removeprefix("[").removesuffix("]")
    if not found or not all(one.isalnum() or one in "-._:%" for one in found):
        raise argparse.ArgumentTypeError(f"{shown(text)} is not an address or a name of this machine")
    return found


def key_value(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise argparse.ArgumentTypeError(f"{shown(text)} is not KEY=VALUE, as in num.partitions=3")
    return key.strip(), value.strip()


def overrides_of(options: argparse.Namespace) -> dict[str, str]:
    """The properties of `--override`. Raises UsageError for a key with two values."""
    found: dict[str, str] = {}
    for key, value in options.override:
        if found.setdefault(key, value) != value:
            raise UsageError(f"--override sets {shown(key)} twice, with different values: leave one of them out")
    return found


# ---- messages of a command


def shown(text: str) -> str:
    """A text between quotes in a message: one line, and not too long."""
    return repr(text if len(text) <= MOST_SHOWN_CHARACTERS else f"{text[:MOST_SHOWN_CHARACTERS]}...")


def one_line(message: object) -> str:
    """The message without line breaks and control characters, cut in its middle to a length that a person reads."""
    text = " ".join(str(message).split())
    if len(text) > MOST_MESSAGE_CHARACTERS:
        half = MOST_MESSAGE_CHARACTERS // 2
        text = f"{text[:half]} ... {text[-half:]}"
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


#: Writes a command's message to standard error; None for a line of text.
_write_message: Callable[[str], None] | None = None


def write_messages_with(write: Callable[[str], None] | None) -> None:
    """Has messages written by a function: where the log is JSON, they are, too."""
    global _write_message
    _write_message = write


def warn(message: object) -> None:
    if _write_message is not None:
        _write_message(one_line(message))
    else:
        print(f"odradek: {one_line(message)}", file=sys.stderr)


def complain(message: object, status: int = FAILED) -> int:
    """Prints why a command ends, in one line on standard error. Returns the exit status."""
    warn(_without_number(message) if isinstance(message, OSError) else message)
    return status


def _without_number(error: OSError) -> str:
    """The error as people write it, in place of `[Errno 2] No such file or directory: 'x'`."""
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename is not None else reason
