"""An archiver that kills itself at a chosen place: `python -m compat_tests.archive.dying PLACE NUMBER ARGUMENTS...`.

`ARGUMENTS` are those of `odradek archive`. The process kills itself with -9 when it has come NUMBER times to the PLACE:
before a commit, within it, after it, and in the merging of files and the expiry of snapshots. `none` never dies. Files are
merged and snapshots expire after a few commits.
"""

from __future__ import annotations

import functools
import inspect
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from odradek.archive import command, data_files, iceberg, maintenance, parquet, spark_tasks, topic_archive
from odradek.archive import store as odradek_store
from odradek.cli.main import main
from pyiceberg.catalog import sql
from sqlalchemy.orm import Session

_left = 0


def _come() -> None:
    """Dies when the place was reached often enough."""
    global _left
    _left -= 1
    if _left <= 0:
        os.kill(os.getpid(), signal.SIGKILL)


def _before(owner: Any, name: str) -> None:
    original = getattr(owner, name)

    def dying(*given: Any, **named: Any) -> Any:
        _come()
        return original(*given, **named)

    _put(owner, name, dying)


def _after(owner: Any, name: str) -> None:
    original = getattr(owner, name)

    def dying(*given: Any, **named: Any) -> Any:
        found = original(*given, **named)
        _come()
        return found

    _put(owner, name, dying)


def _put(owner: Any, name: str, dying: Callable[..., Any]) -> None:
    is_static = isinstance(inspect.getattr_static(owner, name), staticmethod)
    setattr(owner, name, staticmethod(dying) if is_static else dying)


#: Places of both kinds of tables: before the commit, and after it.
BOTH: dict[str, Callable[[], None]] = {
    "rows read": lambda: _before(topic_archive.TopicArchive, "_flush"),
    "commit begins": lambda: _before(topic_archive.TopicArchive, "_commit"),
    "commit ends": lambda: _after(topic_archive.TopicArchive, "_commit"),
}
ICEBERG: dict[str, Callable[[], None]] = BOTH | {
    "file of rows written": lambda: _after(data_files.FileWriter, "_written"),
    "dead-letter records committed": lambda: _after(iceberg.IcebergTable, "_append"),
    "metadata written, catalog not": lambda: _after(sql.SqlCatalog, "_write_metadata"),
    "catalog's statement run, not committed": lambda: _before(Session, "commit"),
    "catalog changed": lambda: _after(sql.SqlCatalog, "commit_table"),
    "merged file written": lambda: _before(maintenance, "replace_files"),
    "merge committed": lambda: _after(maintenance, "replace_files"),
    "files of expired snapshots listed": lambda: _after(maintenance, "_unused_files"),
    "snapshots expired": lambda: _after(maintenance.Maintenance, "expire"),
}
PARQUET: dict[str, Callable[[], None]] = BOTH | {
    "file of rows written": lambda: _after(parquet.ParquetTable, "write"),
    "manifest begins": lambda: _before(parquet.ParquetTable, "_replace"),
    "manifest written, not renamed": lambda: _before(Path, "rename"),
    "manifest renamed": lambda: _after(parquet.ParquetTable, "_replace"),
    "files published": lambda: _after(parquet.ParquetTable, "_publish"),
    "merge begins": lambda: _before(parquet.ParquetTable, "_merge"),
    "merge committed": lambda: _after(parquet.ParquetTable, "_merge"),
}
#: Places of the driver of a job of Spark: the tasks run in other processes.
SPARK: dict[str, Callable[[], None]] = {
    name: place for name, place in ICEBERG.items() if name not in ("rows read", "file of rows written")
} | {
    "job begins": lambda: _before(spark_tasks, "run_tasks"),
    "job ends": lambda: _after(spark_tasks, "run_tasks"),
    "files taken": lambda: _after(iceberg.IcebergTable, "add"),
}
PLACES = {"iceberg": ICEBERG, "parquet": PARQUET}


def run(arguments: list[str]) -> int:
    global _left
    place, number, *words = arguments
    odradek_store.FILES_TO_MERGE = maintenance.FILES_TO_MERGE = 4
    command.Maintenance = functools.partial(maintenance.Maintenance, least_snapshots=2, most_expired_kept=0)
    if place != "none":
        _left = int(number)
        (PARQUET if "--parquet" in words else SPARK if "--spark" in words else ICEBERG)[place]()
    return main(["archive", *words])


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
