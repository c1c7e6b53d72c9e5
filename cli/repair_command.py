"""`odradek repair`: the damage in the data directory of a stopped node, and the decisions that only an operator takes."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from .messages import FAILED, MISUSED, complain
from .options import DEFAULT_DATA_DIR

if TYPE_CHECKING:
    from .command_parser import CommandParser


EPILOG = """\
The command changes nothing without an option for a decision. It keeps replaced files under names that end in .damaged. The
broker repairs all other damage at its start: docs/specialists/damage.md.

exit status:
  0  no damage needs a decision, or every decision was carried out
  1  the repair failed: the directory is in use, or the disk fails
  2  an option or the directory is wrong
  3  some damage needs a decision

examples:
  odradek repair --data-dir ./odradek-data
  odradek repair --data-dir ./odradek-data --cut-metadata
"""

NEEDS_DECISION = 3


def add_to(commands: argparse._SubParsersAction[CommandParser]) -> None:
    command = commands.add_parser(
        "repair",
        help="show damage in a data directory, and repair it",
        description="Checks the data directory of a stopped node. Names every damaged file and the data that is lost.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument(
        "--data-dir", type=Path, default=Path(DEFAULT_DATA_DIR), metavar="D", help="the data directory"
    )
    command.add_argument(
        "--dry-run", action="store_true", help="print what the decisions would change, and change nothing"
    )
    command.add_argument(
        "--cut-metadata",
        action="store_true",
        help="cut the metadata log before its damage; all records after the cut are lost",
    )
    command.add_argument(
        "--forget-votes",
        action="store_true",
        help="create a new quorum-state; this voter might vote twice in one epoch",
    )
    command.add_argument("--write-meta-properties", action="store_true", help="rewrite meta.properties")
    command.add_argument("--cluster-id", metavar="ID", help="cluster id for meta.properties, when no other file has it")
    command.add_argument(
        "--node-id", type=int, metavar="N", help="node id for meta.properties, when no other file has it"
    )
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from ..storage.files.directory_lock import DirectoryInUse, locked
    from ..storage.files.failures import LogDirectoryFailure

    directory: Path = options.data_dir
    if not directory.is_dir():
        return complain(f"{directory} is not a directory", MISUSED)
    try:
        with locked(str(directory)):
            return _repair(options, directory)
    except (OSError, ValueError, DirectoryInUse, LogDirectoryFailure) as error:
        return complain(error, FAILED)


def _repair(options: argparse.Namespace, directory: Path) -> int:
    from ..server.controller.repair_decisions import cut_metadata, forget_votes, write_properties
    from ..server.controller.repairing import findings

    if not options.dry_run:
        if options.write_meta_properties:
            print(write_properties(directory, options.cluster_id, options.node_id))
        if options.cut_metadata:
            print(cut_metadata(directory))
        if options.forget_votes:
            print(forget_votes(directory))
    found = list(findings(directory))
    for one in found:
        print(one.words + (f"; to repair it: {one.decision}" if one.decision is not None else ""))
    open_questions = sum(one.decision is not None for one in found)
    print(f"{directory}: {len(found)} findings, {open_questions} need a decision")
    return NEEDS_DECISION if open_questions else 0
