"""`odradek log`: `check` and `skip` find batches that stop every consumer and take them out, `dump` prints files."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from .options import FAILED, MISUSED, UsageError, complain
from .options import path as path_option

if TYPE_CHECKING:
    from ..protocol.json_value import JsonValue
    from ..storage.directory import ReplicaDirectory
    from ..storage.repair.rebuilding import BadBatch
    from .log_dump import Row
    from .options import CommandParser

#: Offsets are 64 bits.
_OFFSETS = re.compile(r"([0-9]{1,19})-([0-9]{1,19})")


def add_to(commands: argparse._SubParsersAction[CommandParser]) -> None:
    command = commands.add_parser(
        "log",
        help="print log files; list and skip unreadable batches",
        description=(
            "A batch may have a valid CRC and unreadable records: other brokers, and Odradek with "
            "odradek.produce.validation=header, accept such batches from producers. Every consumer stops at such a batch."
        ),
    )
    actions = command.add_subparsers(dest="action", metavar="ACTION", required=True)
    _add_dump(actions)
    check = actions.add_parser(
        "check",
        help="list the batches that cannot be read",
        description="Reads the logs and lists each bad batch with its offsets. Exit status: 0 for none, 1 for some.",
    )
    _add_place(check, required=False)
    check.set_defaults(run=_check)
    skip = actions.add_parser(
        "skip",
        help="replace a poisoned batch, so that consumers can continue",
        description=(
            "Replaces a poisoned batch by an empty batch with the same offsets. The records of the poisoned batch "
            "are lost, if it has "
            "any. Stop the broker first. In a cluster, skip the same batch on every replica before any of them starts."
        ),
    )
    _add_place(skip, required=True)
    skip.add_argument(
        "--offsets",
        required=True,
        metavar="FIRST-LAST",
        help="offsets of the batch, exactly as `odradek log check` prints them",
    )
    skip.add_argument("--dry-run", action="store_true", help="print what would change, and change nothing")
    skip.set_defaults(run=_skip)


def _add_place(command: argparse.ArgumentParser, *, required: bool) -> None:
    command.add_argument("--data-dir", type=path_option, required=True, metavar="D", help="a directory of log.dirs")
    command.add_argument("--topic", required=required, metavar="T", help=None if required else "only this topic")
    command.add_argument(
        "--partition", type=int, required=required, metavar="P", help=None if required else "only this partition"
    )


def _check(options: argparse.Namespace) -> int:
    from ..storage.repair.rebuilding import bad_batches

    found = partitions = 0
    try:
        for replica in _replicas(options):
            partitions += 1
            for bad in bad_batches(replica.path):
                found += 1
                print(_line(replica, bad))
    except (UsageError, OSError, ValueError) as error:
        return complain(error)
    print(f"{partitions} partitions, {found} bad batches")
    return 1 if found else 0


def _line(replica: ReplicaDirectory, bad: BadBatch) -> str:
    name = f"{replica.topic}-{replica.partition}"
    if bad.header is None:
        return f"{name}: {bad.file} at byte {bad.position}: {bad.reason}; damaged, not poisoned: it cannot be skipped"
    offsets = f"{bad.header.base_offset}-{bad.header.last_offset}"
    return f"{name}: offsets {offsets} ({bad.file} at byte {bad.position}): {bad.reason}"


def _skip(options: argparse.Namespace) -> int:
    from ..storage.directory import LogDirectory
    from ..storage.files.directory_lock import DirectoryInUse
    from ..storage.files.identity import InvalidMetaProperties
    from ..storage.files.open_files import LogDirectoryFailure
    from ..storage.repair.rebuilding import bad_batches, empty_one

    try:
        (replica,) = _replicas(options)
        first, last = _offsets(options.offsets)
        # Held until the end: no broker may start meanwhile.
        directory = LogDirectory.open(options.data_dir)
        try:
            bad = _only(bad_batches(replica.path), first, last)
            if options.dry_run:
                print(f"would skip: {_line(replica, bad)}")
                return 0
            empty_one(replica.path, bad)
        finally:
            directory.close()
    except (UsageError, DirectoryInUse, InvalidMetaProperties, LogDirectoryFailure, OSError, ValueError) as error:
        return complain(error)
    print(f"skipped: {_line(replica, bad)}")
    return 0


def _offsets(text: str) -> tuple[int, int]:
    matched = _OFFSETS.fullmatch(text)
    if matched is None:
        raise UsageError(f"--offsets needs FIRST-LAST, as `odradek log check` prints them, not {text!r}")
    return int(matched[1]), int(matched[2])


def _only(bad: Iterator[BadBatch], first: int, last: int) -> BadBatch:
    for one in bad:
        if one.header is not None and (one.header.base_offset, one.header.last_offset) == (first, last):
            return one
    raise UsageError(f"no poisoned batch has exactly the offsets {first}-{last}; `odradek log check` lists them")


def _replicas(options: argparse.Namespace) -> list[ReplicaDirectory]:
    """Returns the replicas that the options name, in order. Raises UsageError if there are none."""
    from ..storage.directory import parse_replica_directory

    if not options.data_dir.is_dir():
        raise UsageError(f"{options.data_dir} is not a directory")
    found = []
    for path in sorted(options.data_dir.iterdir()):
        replica = parse_replica_directory(str(path)) if path.is_dir() else None
        if replica is None or replica.suffix:
            continue
        if options.topic in (None, replica.topic) and options.partition in (None, replica.partition):
            found.append(replica)
    if not found and (options.topic is not None or options.partition is not None):
        raise UsageError(f"{options.data_dir} has no such partition")
    return found


# ---- `dump`: its options, and the rows of files as lines


#: Found damage.
DAMAGED = 1


def _add_dump(actions: argparse._SubParsersAction[CommandParser]) -> None:
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
    from .log_dump import Selection, decoder_of, rows_of

    try:
        first, last = _dump_offsets(options.offsets)
        selection = Selection(records=options.records, first=first, last=last)
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
    from .log_dump import is_known

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


def _dump_line(file: Path, row: Row, form: str) -> str:
    if form == "jsonl":
        return json.dumps({"file": str(file), **row}, ensure_ascii=False) + "\n"
    words = " ".join(f"{name}={_word(content)}" for name, content in row.items() if name != "kind")
    indent = "    " if row["kind"] == "record" else "  "
    return f"{indent}{row['kind']}: {words}\n"


def _word(content: JsonValue) -> str:
    if isinstance(content, str) and content.isprintable() and " " not in content:
        return content or '""'
    return json.dumps(content, ensure_ascii=False)
