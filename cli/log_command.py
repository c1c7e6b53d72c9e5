"""`odradek log`: `check` and `skip` find batches that stop every consumer and take them out, `dump` prints files."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..client.wording import counted
from .command_parser import UsageError
from .log_dump_command import add_dump
from .messages import complain
from .options import path as path_option

if TYPE_CHECKING:
    from ..storage.directory import ReplicaDirectory
    from ..storage.repair.segment_faults import SegmentFault
    from .command_parser import CommandParser

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
    add_dump(actions)
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
    from ..storage.repair.segment_faults import partition_faults

    found = partitions = 0
    try:
        for replica in _replicas(options):
            partitions += 1
            for fault in partition_faults(replica.path, reads_records=True):
                found += 1
                print(_line(replica, fault))
    except (UsageError, OSError, ValueError) as error:
        return complain(error)
    print(f"{counted(partitions, 'partition')}, {counted(found, 'bad batch', 'bad batches')}")
    return 1 if found else 0


def _line(replica: ReplicaDirectory, fault: SegmentFault) -> str:
    from ..storage.segments.batches import OFFSETS_OUT_OF_ORDER

    name, place = f"{replica.topic}-{replica.partition}", f"{fault.file} at byte {fault.position}"
    if fault.header is None:
        is_whole = fault.reason == OFFSETS_OUT_OF_ORDER
        words = "with offsets out of order" if is_whole else "that are not a complete batch with a valid CRC"
        return f"{name}: {place}: {fault.size} bytes {words}; damaged, not poisoned: it cannot be skipped"
    return f"{name}: offsets {fault.first_offset}-{fault.next_offset - 1} ({place}): {fault.reason}"


def _skip(options: argparse.Namespace) -> int:
    from ..storage.directory import LogDirectory
    from ..storage.files.directory_lock import DirectoryInUse
    from ..storage.files.failures import LogDirectoryFailure
    from ..storage.files.meta_properties import InvalidMetaProperties
    from ..storage.repair.segment_faults import partition_faults
    from ..storage.repair.skipping import skip_batch

    try:
        (replica,) = _replicas(options)
        first, last = _offsets(options.offsets)
        # Held until the end: no broker may start meanwhile.
        directory = LogDirectory.open(options.data_dir)
        try:
            poisoned = _only(partition_faults(replica.path, reads_records=True), first, last)
            if options.dry_run:
                print(f"would skip: {_line(replica, poisoned)}")
                return 0
            skip_batch(replica.path, poisoned)
        finally:
            directory.close()
    except (UsageError, DirectoryInUse, InvalidMetaProperties, LogDirectoryFailure, OSError, ValueError) as error:
        return complain(error)
    print(f"skipped: {_line(replica, poisoned)}")
    return 0


def _offsets(text: str) -> tuple[int, int]:
    matched = _OFFSETS.fullmatch(text)
    if matched is None:
        raise UsageError(f"--offsets needs FIRST-LAST, as `odradek log check` prints them, not {text!r}")
    return int(matched[1]), int(matched[2])


def _only(faults: Iterator[SegmentFault], first: int, last: int) -> SegmentFault:
    for fault in faults:
        if fault.header is not None and (fault.first_offset, fault.next_offset - 1) == (first, last):
            return fault
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
