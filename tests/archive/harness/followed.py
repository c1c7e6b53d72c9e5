"""Topics with tables that follow them: their rows, and the processes that keep them."""

from __future__ import annotations

from pathlib import Path

from odradek.archive.store import ArchiveError

from compat_tests.cli.commands import odradek_command
from compat_tests.recipes import eventually
from tests.archive.harness.tables import offsets_of, source_of

MODULE = b"archive.table_process"
#: Turns come each 0.2 s.
FRESH = {"odradek.table.freshness.ms": "500"}


def table_processes(parent: int) -> list[int]:
    """The processes that keep tables and were started by a process."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and _is_of(folder, parent):
            found.append(int(folder.name))
    return found


def _is_of(folder: Path, parent: int) -> bool:
    try:
        words = (folder / "stat").read_text().rpartition(")")[2].split()
        return words[0] != "Z" and int(words[1]) == parent and MODULE in (folder / "cmdline").read_bytes()
    except OSError:
        return False


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def offsets(warehouse: Path, table: str, partition: int = 0) -> list[int]:
    """The offsets of the rows of a table; none where there is no table."""
    if not (warehouse / "catalog.db").exists():
        return []
    try:
        return offsets_of(source_of("iceberg", warehouse, table), partition)
    except ArchiveError:
        return []


def await_rows(warehouse: Path, table: str, count: int, partition: int = 0) -> None:
    """Waits until the table has each of the first records of a partition once."""
    eventually(
        lambda: offsets(warehouse, table, partition) == list(range(count)), what=f"{table} has {count} rows, once each"
    )


def set_config(bootstrap: str, topic: str, *pairs: str) -> None:
    done = odradek_command("config", "set", "topic", topic, *pairs, "-b", bootstrap)
    assert done.status == 0, done
