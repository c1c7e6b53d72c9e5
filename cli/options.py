"""Options that several commands share, and how their values become broker configuration."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

DEFAULT_DATA_DIR = "odradek-data"


class UsageError(Exception):
    """What a person asked for cannot be done; the message says what to do instead."""


def add_configuration(command: argparse.ArgumentParser, *, optional_file: bool = True) -> None:
    command.add_argument(
        "properties",
        nargs="?" if optional_file else None,
        type=Path,
        metavar="server.properties",
        help="a configuration file as Apache Kafka takes it",
    )
    command.add_argument(
        "--override",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="sets one property over what the file says; may be given many times",
    )
    command.add_argument(
        "--data-dir", type=Path, metavar="D", help=f"where data is kept (default: ./{DEFAULT_DATA_DIR})"
    )


def properties_of(options: argparse.Namespace) -> dict[str, str]:
    """What the command line says, over what the file says; raises UsageError."""
    from ..server.config import read_properties

    found: dict[str, str] = {}
    if options.properties is not None:
        try:
            found = read_properties(options.properties)
        except OSError as error:
            raise UsageError(f"cannot read {options.properties}: {error}") from None
    if options.data_dir is not None:
        found.pop("log.dir", None)
        found["log.dirs"] = str(options.data_dir)
    elif "log.dirs" not in found and "log.dir" not in found:
        found["log.dirs"] = DEFAULT_DATA_DIR
    for text in options.override:
        key, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--override takes KEY=VALUE, not {text!r}")
        found[key.strip()] = value.strip()
    return found


def complain(message: object) -> int:
    print(f"odradek: {message}", file=sys.stderr)
    return 1
