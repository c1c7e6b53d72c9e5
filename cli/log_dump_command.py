"""`odradek log dump`: its options, and the rows of files as lines."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from .command_parser import UsageError
from .messages import FAILED, MISUSED, complain
from .options import path as path_option

if TYPE_CHECKING:
    from ..protocol.json_value import JsonObject, JsonValue
    from .command_parser import CommandParser

#: Found damage.
DAMAGED = 1


def add_dump(actions: argparse._SubParsersAction[CommandParser]) -> None:
    dump = actions.add_parser(
        "dump",
        help="print segments, indexes, snapshots and checkpoints",
        description=(
            "Prints files of a data directory, of a partition, or single files, without a broker. Records of internal "
            "topics, of the metadata log and of its snapshots are decoded. Exit status: 1 when something is damaged."
        ),
    )
    dump.add_argument("paths", nargs="+", type=path_option, metavar="PATH", help="a file, or a directory")
    dump.add_argument("--records", action="store_true", help="print the records of each batch, too")
    dump.add_argument("--offsets", metavar="FIRST-LAST", help="only batches with these offsets")
    dump.add_argument(
        "--kind", metavar="SUFFIX", help="only files of this kind in directories: log, index, timeindex, snapshot, ..."
    )
    dump.add_argument("--topic", metavar="T", help="only this topic's partitions in a data directory")
    dump.add_argument("--output", choices=("text", "jsonl"), default="text", help="output format (default: text)")
    dump.set_defaults(run=_dump)


def _dump(options: argparse.Namespace) -> int:
    from .log_dump.contents import decoder_of
    from .log_dump.rows import rows_of
    from .log_dump.segments import DumpSelection

    try:
        first, last = _dump_offsets(options.offsets)
        selection = DumpSelection(records=options.records, first=first, last=last)
        damaged = False
        for file in _files(options):
            decode = decoder_of(_topic(file))
            if options.output == "text":
                sys.stdout.write(f"{file}\n")
            for row in rows_of(file, selection, decode):
                damaged = damaged or row["kind"] == "damage"
                sys.stdout.write(_dump_line(file, row, options.output))
    except UsageError as error:
        return complain(error, MISUSED)
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as error:
        return complain(error, FAILED)
    return DAMAGED if damaged else 0


def _dump_offsets(text: str | None) -> tuple[int, int]:
    if text is None:
        return 0, (1 << 63) - 1
    first, dash, last = text.partition("-")
    if not dash or not all(one.isascii() and one.isdecimal() and len(one) <= 19 for one in (first, last)):
        raise UsageError(f"--offsets needs FIRST-LAST, such as 100-200, not {text!r}")
    return int(first), int(last)


def _files(options: argparse.Namespace) -> Iterator[Path]:
    from .log_dump.rows import is_known

    for path in options.paths:
        if not path.is_dir():
            yield path
            continue
        found = False
        for file in sorted(path.rglob("*")):
            if file.is_file() and is_known(file.name) and _is_chosen(options, path, file):
                found = True
                yield file
        if not found:
            raise UsageError(f"{path} has no such file")


def _is_chosen(options: argparse.Namespace, root: Path, file: Path) -> bool:
    if options.kind is not None and file.suffix != f".{options.kind.lstrip('.')}":
        return False
    return options.topic is None or (file.parent != root and _topic(file) == options.topic)


def _topic(file: Path) -> str | None:
    """The topic of the directory that the file is in; of a stray or deleted one, too."""
    from ..storage.directory import parse_replica_directory

    replica = parse_replica_directory(str(file.resolve().parent))
    return replica.topic if replica is not None else None


def _dump_line(file: Path, row: JsonObject, form: str) -> str:
    if form == "jsonl":
        return json.dumps({"file": str(file), **row}, ensure_ascii=False) + "\n"
    words = " ".join(f"{name}={_word(content)}" for name, content in row.items() if name != "kind")
    indent = "    " if row["kind"] == "record" else "  "
    return f"{indent}{row['kind']}: {words}\n"


def _word(content: JsonValue) -> str:
    if isinstance(content, str) and content.isprintable() and " " not in content:
        return content or '""'
    return json.dumps(content, ensure_ascii=False)
