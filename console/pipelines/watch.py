"""The watch: a thread that reads pipelines for all viewers, beside the poller, since a catalog may be slow."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ...admin.connection import Connection
from ...admin.log_offsets import offsets_at
from ...admin.places import Place
from ...admin.topics import describe_topics
from ...client.explained_errors import from_library
from ...client.user_errors import UserError
from ...protocol.log_places import LATEST
from ..cluster.group_reads import GroupReads
from ..cluster.links import AdminLink
from ..cluster.node_metrics import NodeMetrics
from ..settings import Archives
from .archives import ArchiveTables
from .checkpoints import read_queries
from .commits import kind_of, merged, read_commits
from .mirrors import read_mirrors
from .pace import Paces
from .pipeline import Kind, Pipeline, bounded
from .tiers import read_tiers

if TYPE_CHECKING:
    from ...admin.session import Admin
    from ..cluster.poller import Poller

_INTERVAL_S, _IDLE_INTERVAL_S = 5.0, 30.0
#: Until the poller has read the cluster a first time.
_FIRST_S = 0.5


class PipelineWatch:
    """`pipelines`: those of the last reading, by kind. `errors`: why a kind could not be read."""

    def __init__(
        self,
        connection: Connection,
        poller: Poller,
        archives: Archives,
        checkpoints: tuple[Path, ...],
        metrics: NodeMetrics,
    ) -> None:
        self.pipelines: dict[Kind, tuple[Pipeline, ...]] = {}
        self.errors: dict[Kind, str] = {}
        self._link = AdminLink(connection)
        self._poller = poller
        self._tables = ArchiveTables(archives) if archives else None
        self._checkpoints = checkpoints
        self._metrics = metrics
        self._paces = Paces()
        #: Those of the last reading of groups.
        self._of_groups: list[Pipeline] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="console-pipelines", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(5)

    def find(self, kind: str, name: str) -> Pipeline | None:
        every = (one for found in self.pipelines.values() for one in found)
        return next((one for one in every if (one.kind, one.name) == (kind, name)), None)

    @property
    def failed(self) -> list[Pipeline]:
        return [one for found in self.pipelines.values() for one in found if one.tone == "bad"]

    def _run(self) -> None:
        while not self._stopping.is_set():
            if self._poller.snapshot.is_filled:
                self._read()
            self._stopping.wait(self._pause_s())
        self._link.close()

    def _pause_s(self) -> float:
        if not self._poller.snapshot.is_filled:
            return _FIRST_S
        return _IDLE_INTERVAL_S if self._poller.is_idle else _INTERVAL_S

    def _read(self) -> None:
        snapshot, away = self._poller.snapshot, self._poller.away
        now_ms = int(time.time() * 1000)

        def ends(places: list[Place]) -> dict[Place, int]:
            return _ends(self._link.open(), places, away)

        coordinators = {one.group: one.coordinator for one in snapshot.groups if one.coordinator is not None}
        reads = GroupReads(coordinators, away)
        with self._noted(Kind.mirror) as note:
            links = read_mirrors(self._link.open().impatient, reads, snapshot.topics, now_ms)
            note([*links, *_left_out(self.pipelines.get(Kind.mirror, ()), reads)])
        with self._noted(Kind.tier) as note:
            note(read_tiers(self._link.open().impatient, snapshot.topics, away, self._metrics))
        with self._noted(Kind.replay) as note:
            names = [one.group for one in snapshot.groups if kind_of(one.group) is not None]
            found = read_commits(self._link.open().impatient, reads, names, ends)
            self._of_groups = [*found, *_left_out(self._of_groups, reads)]
            note(self._with_groups(Kind.replay))
            self._note(Kind.sink, self._with_groups(Kind.sink))
        with self._noted(Kind.archive) as note:
            tables = [] if self._tables is None else self._tables.read(snapshot.cluster_id, ends)
            note(self._paces.paced(merged(tables, self._with_groups(Kind.archive)), time.monotonic()))
        with self._noted(Kind.query) as note:
            queries = read_queries(self._checkpoints, ends) if self._checkpoints else []
            note(self._paces.paced(merged(queries, self._with_groups(Kind.query)), time.monotonic()))
        for kind in Kind:
            trouble = reads.trouble(partial(_is_group_of, kind))
            if trouble:
                self.errors.setdefault(kind, trouble)
        self._paces.keep({one.series for found in self.pipelines.values() for one in found})

    def _with_groups(self, kind: Kind) -> list[Pipeline]:
        return [one for one in self._of_groups if one.kind is kind]

    @contextmanager
    def _noted(self, kind: Kind) -> Iterator[Callable[[list[Pipeline]], None]]:
        """Keeps what was read, or why it was not. Pipelines of the reading before stay where one failed."""
        try:
            yield lambda pipelines: self._note(kind, pipelines)
        except Exception as error:
            self._link.close()
            known = error if isinstance(error, UserError) else from_library(error)
            self.errors[kind] = str(known) if known is not None else f"{type(error).__name__}: {error}"

    def _note(self, kind: Kind, pipelines: list[Pipeline]) -> None:
        self.pipelines = {**self.pipelines, kind: tuple(pipelines)}
        self.errors.pop(kind, None)
        for one in pipelines:
            if one.charted is not None:
                self._poller.history.add(one.series, float(one.charted))


def _left_out(before: Iterable[Pipeline], reads: GroupReads) -> list[Pipeline]:
    """Pipelines of the last reading whose groups this one left out."""
    return [one for one in before if one.group in reads.unread]


def _is_group_of(kind: Kind, group: str) -> bool:
    """Whether a group that was read is of a pipeline of the kind: those of links have no beginning of their own here."""
    return (kind_of(group) or Kind.mirror) is kind


def _ends(admin: Admin, places: list[Place], away: frozenset[int]) -> dict[Place, int]:
    """Ends of partitions with a leader that responds; none of topics that do not exist."""
    wanted = set(bounded(places))
    names = sorted({topic for topic, _ in wanted})
    led = [
        (topic.name, one.partition_index)
        for topic in (describe_topics(admin, names) if names else ())
        for one in topic.partitions
        if one.leader_id >= 0 and one.leader_id not in away
    ]
    return offsets_at(admin.impatient, [place for place in led if place in wanted], LATEST)
