"""The archiver: keeps the tables of several topics up to date, each in its turns.

A turn ends with the log, or after `freshness_s`: so each of several topics has its turns, and a
back-fill commits now and then.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ..admin.table_owner import Owner
from ..client.error_kinds import ErrorKind
from ..columns.cluster import Cluster
from ..columns.cluster_errors import ClusterError
from ..protocol.uuids import uuid_to_text
from .progress_commits import ProgressCommits
from .store import ArchiveError, Table, TableChanged
from .topic_archive import Archived, ArchiveOptions, NotAssigned, SparkEnded, TopicArchive, is_explained, of_library

_logger = logging.getLogger(__name__)
#: A turn follows the one before after at most this part of the freshness: the rest is for the turn itself.
_PART_OF_FRESHNESS = 0.4
#: The next turn may take so many times as long as the longest of the last ones, which are so many.
_MARGIN, _LAST_TURNS = 1.5, 20
_LEAST_WAIT_S = 0.05

#: Longest wait after errors, which doubles from `freshness_s`.
_MOST_BACKOFF_S = 60.0


class Archiver:
    """Keeps topics as tables: `run(once=True)` up to the ends of their logs, and `run()` until `stop`.

    `open_table` opens the table of a topic of the cluster. No error of one topic stops the others: its turns are repeated,
    after a time that doubles up to a minute.
    """

    def __init__(
        self,
        client: Mapping[str, str],
        topics: Sequence[str],
        open_table: Callable[[Owner], Table],
        options: ArchiveOptions | None = None,
        *,
        on_error: Callable[[str, Exception], None] | None = None,
        open_archive: Callable[[str, Table, ArchiveOptions], TopicArchive] = TopicArchive,
    ) -> None:
        """`client`: Kafka's client properties. `open_archive`: reads a topic in this process, or in jobs of Spark."""
        self._client = dict(client)
        #: The settings of each topic's table: a change opens the table again. Any thread replaces the whole mapping.
        self._assigned: Mapping[str, object] = dict.fromkeys(topics)
        self._first_wait_s = 0.0
        self._open_table = open_table
        self._options = options or ArchiveOptions()
        self._on_error = on_error or (lambda topic, error: None)
        self._open_archive = open_archive
        self._archives: dict[str, TopicArchive] = {}
        self._archived: dict[str, Archived] = {}
        self._failures: dict[str, int] = {}
        #: Topics with a turn that succeeded: their tables are not made anew a second time.
        self._rebuilt: set[str] = set()
        #: Errors of maintenance that `on_error` has.
        self._shown: dict[str, ArchiveError] = {}
        #: Seconds to a turn's commit, with its wait for the turns of other topics: the last ones by topic.
        self._turns_s: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_LAST_TURNS))
        self._cluster: Cluster | None = None
        #: Whether a login has succeeded.
        self._has_connected = False
        self._is_stopped = False
        self._commits = ProgressCommits(
            self._client, self._options.commit_group, self._options.on_note, self._options.table_of
        )

    def stop(self) -> None:
        """Ends `run` after the commit in progress."""
        self._is_stopped = True

    def assign(self, topics: Mapping[str, object], first_wait_s: float = 0.0) -> None:
        """Has `run` keep the tables of these topics, and close those of others, from its next turn on. From any thread.

        `topics`: by topic what its table is opened by; where it changes, the table is opened again. The first turn of a
        new topic comes after `first_wait_s`.
        """
        self._first_wait_s = first_wait_s
        self._assigned = dict(topics)

    def run(self, *, once: bool = False) -> list[Archived]:
        """Returns the counts of each topic. With `once`, raises the first topic's error after the others' turns.

        Returns when there is no topic left: without `once`, when `assign` has taken the last one away.
        """
        assigned = self._assigned
        next_turns = dict.fromkeys(assigned, time.monotonic() + self._first_wait_s)
        ended = dict(next_turns)
        try:
            while next_turns and not self._is_stopped:
                topic = min(next_turns, key=lambda one: next_turns[one])
                self._wait_until(next_turns[topic], assigned)
                if self._is_stopped:
                    break
                if self._assigned is not assigned:
                    assigned = self._reassigned(assigned, next_turns, ended)
                    continue
                began = time.monotonic()
                is_first = topic not in self._archived
                found = self._turn(topic)
                ready = max(next_turns[topic], ended[topic])
                ended[topic] = time.monotonic()
                if found.is_caught_up and not is_first:  # others read a backlog, or open the table
                    self._turns_s[topic].append((found.committed_at or ended[topic]) - ready)
                if once and (found.is_caught_up or found.error is not None):
                    del next_turns[topic]
                else:
                    next_turns[topic] = began + self._pause_s(found)
        finally:
            self.close()
        if once:
            self.raise_first()
        return self.archived

    def _reassigned(
        self, before: Mapping[str, object], next_turns: dict[str, float], ended: dict[str, float]
    ) -> Mapping[str, object]:
        """Closes the tables of topics that went or changed, and adds turns of new ones. Returns what is assigned now."""
        now = self._assigned
        for topic in before:
            if topic not in now or now[topic] != before[topic]:
                self._close(topic)
                self._failures.pop(topic, None)
            if topic not in now:
                self._commits.forget(topic)
                next_turns.pop(topic, None)
                self._archived.pop(topic, None)
        for topic in now:
            if topic not in before:
                next_turns[topic] = ended[topic] = time.monotonic() + self._first_wait_s
            elif now[topic] != before[topic]:
                next_turns[topic] = time.monotonic()
        return now

    def _close(self, topic: str) -> None:
        archive = self._archives.pop(topic, None)
        if archive is not None:
            with contextlib.suppress(Exception):
                archive.close()

    @property
    def archived(self) -> list[Archived]:
        """The counts and the state of each topic that had a turn."""
        return list(self._archived.values())

    def raise_first(self) -> None:
        """Raises the error of the first topic whose last turn failed."""
        for one in self._archived.values():
            if one.error is not None:
                raise one.error

    def _turn(self, topic: str) -> Archived:
        began, rows = time.monotonic(), self._rows(topic)
        try:
            archive = self._advanced(topic)
        except SparkEnded:
            raise
        except NotAssigned:  # its table is closed before the next turn
            return self._archived.setdefault(topic, Archived(topic))
        except Exception as error:
            if isinstance(error, ClusterError) and error.kind == ErrorKind.DENIED and not self._has_connected:
                raise  # the login: the next turn would be rejected, too
            return self._failed(topic, error)
        self._failures.pop(topic, None)
        self._rebuilt.add(topic)
        archive.archived.error = None
        rate = (self._rows(topic) - rows) / max(time.monotonic() - began, 0.001)
        self._commits.commit(topic, archive.table, archive.offsets, rate, archive.archived.dead_letter_records)
        of_maintenance = archive.archived.maintenance_error
        if of_maintenance is not None and of_maintenance is not self._shown.get(topic):
            self._shown[topic] = of_maintenance
            self._on_error(topic, of_maintenance)
        return archive.archived

    def _rows(self, topic: str) -> int:
        return self._archived[topic].rows if topic in self._archived else 0

    def _advanced(self, topic: str) -> TopicArchive:
        if self._cluster is None:
            self._cluster = Cluster(self._client)
            self._has_connected = True
        archive = self._archives.get(topic)
        if archive is None:
            table = self._open_table(self._owner(self._cluster, topic))
            options = replace(self._options, rebuild=False) if topic in self._rebuilt else self._options
            try:
                archive = self._open_archive(topic, table, options)
            except BaseException:
                table.close()
                raise
            archive.archived = self._archived.setdefault(topic, archive.archived)
            self._archives[topic] = archive
        archive.advance(self._cluster)
        return archive

    def _owner(self, cluster: Cluster, topic: str) -> Owner:
        (described,) = cluster.described([topic])
        text = "" if described.topic_id is None else uuid_to_text(described.topic_id.bytes)
        return Owner(topic, cluster.cluster_id(), text)

    def _failed(self, topic: str, error: Exception) -> Archived:
        archive = self._archives.get(topic)
        found = self._archived.setdefault(topic, Archived(topic))
        if isinstance(error, ClusterError) and self._cluster is not None:
            self._cluster.close()
            self._cluster = None
        if archive is not None and (isinstance(error, TableChanged) or not is_explained(error)):
            self._close(topic)  # opened again, with the offsets that the table has
        self._failures[topic] = self._failures.get(topic, 0) + 1
        if not is_explained(error):
            _logger.debug("a turn of topic %s failed", topic, exc_info=error)
            error = of_library(error, f"topic {topic}")
        found.error, found.is_caught_up = error, False
        self._commits.fail(topic, str(error).partition("\n")[0])
        self._on_error(topic, error)
        return found

    def _pause_s(self, archived: Archived) -> float:
        if archived.error is not None:
            backoff = self._options.freshness_s * 2.0 ** min(self._failures[archived.topic] - 1, 10)
            return min(backoff, _MOST_BACKOFF_S)
        return self._interval_s(archived.topic) if archived.is_caught_up else 0.0

    def _interval_s(self, topic: str) -> float:
        """Time between the begins of turns: a record that just missed a turn is in the table at the end of the next one."""
        freshness_s = self._options.freshness_s
        return max(
            0.0, min(_PART_OF_FRESHNESS * freshness_s, freshness_s - _MARGIN * max(self._turns_s[topic], default=0.0))
        )

    def _wait_until(self, moment: float, assigned: Mapping[str, object]) -> None:
        """Returns at the moment, at a stop, or when other topics are assigned."""
        while not self._is_stopped and self._assigned is assigned and (left := moment - time.monotonic()) > 0:
            time.sleep(min(left, _LEAST_WAIT_S))

    def close(self) -> None:
        for archive in self._archives.values():
            with contextlib.suppress(Exception):
                archive.close()
        self._archives = {}
        self._commits.close()
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None
