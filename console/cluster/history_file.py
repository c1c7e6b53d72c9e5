"""The file of the history of a cluster: SQLite, so that a crash or the loss of power leaves it whole.

It has the mean of each minute for six hours, and of each ten minutes before that, for a number of days. Both numbers are
bounded, and so is the number of series: at the limits the file has about 30 MB for each ten days.
"""

from __future__ import annotations

import contextlib
import logging
import re
import sqlite3
import threading
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..settings import MOST_DAYS

#: Series in the file: the least recently written goes first.
MOST_STORED_SERIES = 1000
#: Limit of the file, in pages of 4 KiB: with all series at MOST_DAYS it is never reached.
_MOST_PAGES = (256 << 20) // 4096
#: Means of minutes are kept for so long, and then folded into means of this length.
_FINE_S, _COARSE_S = 6 * 3600, 600
_DAY_S = 86_400
_BUSY_S = 2.0
_SUFFIX, _DAMAGED = ".history", ".damaged"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS series (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, newest INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS points (series INTEGER, at INTEGER, value REAL, PRIMARY KEY (series, at)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS folded (until INTEGER NOT NULL);
"""

logger = logging.getLogger(__name__)


class HistoryLost(Exception):
    """The file cannot be read or written."""


class HistoryFile:
    """Any thread calls it. A second process with the same cluster writes the same minutes, which changes nothing."""

    def __init__(self, folder: Path, cluster_id: str, days: int, now: float) -> None:
        """Opens the file of a cluster, or makes it. Files of clusters without a console for `days` are deleted. A damaged
        file is put aside. Raises HistoryLost.
        """
        self._days = min(days, MOST_DAYS)
        self._lock = threading.Lock()
        self.path = folder / f"{re.sub(r'[^A-Za-z0-9_-]', '_', cluster_id)[:64]}{_SUFFIX}"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _delete_old(folder, self.path, now - self._days * _DAY_S)
        except OSError as error:
            raise HistoryLost(f"{folder}: {error.strerror}") from None
        self._connection = self._opened()

    def _opened(self) -> sqlite3.Connection:
        try:
            return _connected(self.path)
        except sqlite3.OperationalError as error:
            raise HistoryLost(f"{self.path}: {error}") from None
        except sqlite3.DatabaseError as error:
            aside = self.path.with_suffix(_DAMAGED)
            logger.warning("%s is damaged (%s): it is kept as %s, and a new one begins", self.path, error, aside)
        for one in _beside(self.path):
            one.unlink(missing_ok=True)
        with self._explained():
            self.path.replace(aside)
            return _connected(self.path)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise HistoryLost(f"{self.path}: {error}") from None

    def add(self, means: Sequence[tuple[str, int, float]], now: float) -> None:
        """Adds means by series and begin of their minute, and forgets what is too old, in one transaction."""
        with self._lock, self._explained(), self._connection as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(
                "INSERT INTO series (name, newest) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET newest = excluded.newest",
                [(name, begun) for name, begun, _ in means],
            )
            connection.executemany(
                "INSERT OR REPLACE INTO points SELECT id, ?, ? FROM series WHERE name = ?",
                [(begun, value, name) for name, begun, value in means],
            )
            self._fold(connection, now)

    def _fold(self, connection: sqlite3.Connection, now: float) -> None:
        """Makes means of ten minutes of the minutes that are old, once for each ten minutes."""
        horizon = int(now - _FINE_S) // _COARSE_S * _COARSE_S
        known = connection.execute("SELECT max(until) FROM folded").fetchone()[0]
        begin = known or 0
        if horizon <= begin:
            return
        coarse = connection.execute(
            "SELECT series, at / ? * ?, avg(value) FROM points WHERE at >= ? AND at < ? GROUP BY 1, 2",
            (_COARSE_S, _COARSE_S, begin, horizon),
        ).fetchall()
        connection.execute("DELETE FROM points WHERE at >= ? AND at < ?", (begin, horizon))
        connection.executemany("INSERT OR REPLACE INTO points VALUES (?, ?, ?)", coarse)
        connection.execute("DELETE FROM folded")
        connection.execute("INSERT INTO folded VALUES (?)", (horizon,))
        self._forget(connection, int(now) - self._days * _DAY_S)

    def _forget(self, connection: sqlite3.Connection, oldest: int) -> None:
        connection.execute("DELETE FROM points WHERE at < ?", (oldest,))
        connection.execute(
            "DELETE FROM series WHERE newest < ? OR id NOT IN (SELECT id FROM series ORDER BY newest DESC LIMIT ?)",
            (oldest, MOST_STORED_SERIES),
        )
        connection.execute("DELETE FROM points WHERE series NOT IN (SELECT id FROM series)")

    def points(self, name: str, begin: float, end: float | None = None) -> tuple[array[float], array[float]]:
        """Times and means of a series from a time on, and before `end`."""
        with self._lock, self._explained():
            rows = self._connection.execute(
                "SELECT at, value FROM points WHERE series = (SELECT id FROM series WHERE name = ?) AND at >= ? AND at < ?"
                " ORDER BY at",
                (name, int(begin), 1 << 62 if end is None else int(end)),
            ).fetchall()
        return array("d", [at for at, _ in rows]), array("d", [value for _, value in rows])

    def close(self) -> None:
        with self._lock, contextlib.suppress(sqlite3.Error):
            self._connection.close()


def _connected(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_BUSY_S, check_same_thread=False, isolation_level=None)
    try:
        connection.execute(f"PRAGMA max_page_count = {_MOST_PAGES}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.executescript(_SCHEMA)
        connection.execute("SELECT count(*) FROM series").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _delete_old(folder: Path, own: Path, oldest: float) -> None:
    """Deletes files that no console has written for so long: those of clusters that are gone, and damaged ones."""
    for path in list(folder.iterdir()):
        if path.suffix not in (_SUFFIX, _DAMAGED) or path == own:
            continue
        files = [one for one in (path, *_beside(path)) if one.exists()]
        if max(one.stat().st_mtime for one in files) < oldest:
            for one in files:
                one.unlink(missing_ok=True)


def _beside(path: Path) -> list[Path]:
    """Files of SQLite beside one: what it has not taken over yet, and the index of that."""
    return [Path(f"{path}{suffix}") for suffix in ("-wal", "-shm")]
