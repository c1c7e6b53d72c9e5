"""Options that several commands share, and the parsers of their values. argparse shows the text of a parser's error."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from ..client.message_text import shown
from .command_parser import UsageError

DEFAULT_DATA_DIR = "odradek-data"

#: Limit of `--processes`.
MOST_PROCESSES = 100


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
