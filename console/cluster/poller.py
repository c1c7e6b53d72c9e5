"""The poller: one thread that reads the cluster for all viewers, in portions of bounded size.

A poll asks for brokers, quorum and groups; for topics in pages of the brokers (KIP-966); and for the ends of a portion of
the partitions, by turns, so that 30,000 partitions are read over some polls. Rates are of the time between two
readings of the same topic. Without a viewer it polls seldom.

A broker that has died stays in the metadata, as a leader and a coordinator, until its session ends. The poll asks each
broker for its groups, and sends nothing else to one that sent no response: figures that only this broker has
stay as they were.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from ...admin.connection import Connection
from ...admin.errors import NotSupported, RequestFailed
from ...admin.lag import Lag, Total, by_topic, sum_of, total_of
from ...admin.log_offsets import offsets_at
from ...admin.metadata_quorum import describe_quorum
from ...admin.nodes import describe_cluster
from ...admin.places import Place
from ...admin.quorum import active_controller
from ...admin.rates import smoothed
from ...admin.topics import describe_topic_page, describe_topics
from ...client.explained_errors import from_library
from ...client.user_errors import UserError
from ...protocol.log_places import LATEST
from .group_lags import Offsets, behind, groups_of, known_failures
from .groups import members_of
from .history import History, Scope
from .links import AdminLink
from .model import GroupRow, Quorum, Snapshot, TopicFacts
from .portion import Portion
from .tally import Tally
from .topic_facts import read_facts

if TYPE_CHECKING:
    from ...admin.groups import GroupListing
    from ...admin.session import Admin
    from ...admin.topics import Topic


INTERVAL_S = 2.0
#: The first page names an address that has not responded for so long.
_LATE_S = 2.0
#: A poll that takes long is repeated after so many times its length, and after the bound at the latest: a poll is also long
#: when a broker stopped responding in the middle of it, which only the next one shows.
_REST, _MOST_REST_S = 4, 15.0
_IDLE_AFTER_S, _IDLE_INTERVAL_S = 60.0, 30.0
#: Partitions in one page of topics.
_PAGE = 500
#: Half-life of the smoothed rates: a burst shorter than a poll stays visible.
_HALF_LIFE_S = 5.0
#: Groups of which the lag is read in one poll.
_MOST_GROUPS = 50
#: Facts of a portion of the topics, and members of a portion of the groups, are read in intervals of this length.
_FACTS_S = 10.0
_WITHOUT_MEMBERS = ("Empty", "Dead")
#: Partitions of a group whose lag has a series.
_MOST_LAG_SERIES = 50


class Poller:
    """`snapshot` is replaced as a whole; its users take it once."""

    def __init__(self, connection: Connection, housekeeping: Callable[[], None], history: History) -> None:
        self.snapshot = Snapshot()
        self.history = history
        self._connection = connection
        self._lateness = ""
        self._link = AdminLink(connection)
        self._housekeeping = housekeeping
        self._stopping = threading.Event()
        self._changed = threading.Event()
        self._seen = time.monotonic()
        self._ends: dict[str, tuple[int, float]] = {}
        self._rates: dict[str, float] = {}
        self._lags: dict[str, Total] = {}
        #: Group -> topic -> lag there.
        self._reads: dict[str, dict[str, int | None]] = {}
        self._turn = self._group_turn = self._facts_turn = 0
        self._facts: dict[str, TopicFacts] = {}
        self._facts_at = 0.0
        #: Group -> its members.
        self._members: dict[str, int] = {}
        self._coordinators: dict[str, int] = {}
        #: Brokers that are fenced, or did not respond; known before the rest of a poll.
        self.away: frozenset[int] = frozenset()
        self._polls = threading.Condition()
        self._begun = self._probed = 0
        self._pages_fail = False
        self._thread = threading.Thread(target=self._run, name="console-poller", daemon=True)

    def start(self) -> None:
        self._thread.start()
        threading.Thread(target=self._find_silent, name="console-silent-addresses", daemon=True).start()

    def stop(self) -> None:
        self._stopping.set()
        self._changed.set()
        self._thread.join(5)
        self.history.close()

    def groups_of(self, topic: str) -> list[tuple[GroupRow, int | None]]:
        """Groups that read the topic, and their lag there; None without a commit."""
        reads = self._reads
        return [(row, reads[row.group][topic]) for row in self.snapshot.groups if topic in reads.get(row.group, ())]

    def note_viewer(self) -> None:
        """Keeps the polls frequent; the first viewer after a pause gets a poll at once."""
        now = time.monotonic()
        was_idle, self._seen = self.is_idle, now
        if was_idle:
            self._changed.set()

    @property
    def is_idle(self) -> bool:
        """Whether no viewer has loaded a page for a while."""
        return time.monotonic() - self._seen > _IDLE_AFTER_S

    @property
    def lateness(self) -> str:
        """Names the addresses that do not respond while the first poll takes longer than _LATE_S; else ""."""
        return self._lateness if not self.snapshot.is_filled else ""

    def _find_silent(self) -> None:
        """Before the first poll, which waits for the library: an address that accepts connections may send nothing."""
        silent = self._connection.silent_addresses(_LATE_S)
        self._lateness = f"no response for {_LATE_S:g} s from {', '.join(silent)}" if silent else ""

    def poll_soon(self) -> None:
        """After a change that a viewer made."""
        self._changed.set()

    def probe_now(self, timeout_s: float) -> bool:
        """Waits until a poll that begins after the call has found the brokers that are away. Returns False if it is late."""
        with self._polls:
            wanted = self._begun + 1
            self._changed.set()
            return self._polls.wait_for(lambda: self._probed >= wanted, timeout_s)

    def _run(self) -> None:
        while not self._stopping.is_set():
            began = time.monotonic()
            with self._polls:
                self._changed.clear()
                self._begun += 1
            try:
                self.snapshot = self._polled(self._link.open())
            except Exception as error:
                self.snapshot = replace(self.snapshot, error=_words(error))
                self._link.close()
            self.history.write()
            self._housekeeping()
            # A poll that waited for a dead broker was long without work for the others.
            is_waiting = bool(self.snapshot.error) or any(one.silent for one in self.snapshot.brokers)
            took = 0.0 if is_waiting else time.monotonic() - began
            self._changed.wait(rest_s(took, is_idle=self.is_idle))
        self._link.close()

    # ---- one poll

    def _polled(self, admin: Admin) -> Snapshot:
        cluster = describe_cluster(admin)
        self.history.identify(str(cluster.cluster_id or ""))
        fenced = {node.broker_id for node in cluster.brokers if node.is_fenced}
        listed, silent, is_whole = groups_of(admin.impatient, {node.broker_id for node in cluster.brokers} - fenced)
        with self._polls:
            self.away, self._probed = frozenset(fenced | silent), self._begun
            self._polls.notify_all()
        quorum = _quorum(admin)
        now = time.monotonic()
        # The first poll is without facts: pages wait for it.
        is_due = self.snapshot.is_filled and now - self._facts_at >= _FACTS_S
        tally = Tally(self._rates, self._facts, self.snapshot)
        portion, facts_portion = Portion(self._turn, self.away), Portion(self._facts_turn, self.away, keeps=is_due)
        for topic in self._topics(admin):
            tally.add(topic)
            portion.offer(topic)
            if is_due:
                facts_portion.offer(topic)
        self._turn = portion.next_turn
        if is_due:
            self._facts_turn, self._facts_at = facts_portion.next_turn, now
            with known_failures():
                self._facts |= read_facts(admin.impatient, list(facts_portion.topics.values()), self.away)
            tally.take(self._facts)
        now = time.monotonic()
        self._note_ends(admin, portion.places, now)
        groups = self._groups(admin, listed, is_whole=is_whole)
        self._forget(tally)
        rate = round(sum(self._rates.values()), 1) if self._rates else None
        lag = sum_of(total.lag for total in self._lags.values())
        self.history.add("records_per_s", rate or 0.0, Scope.CLUSTER)
        if lag is not None:
            self.history.add("lag", float(lag), Scope.CLUSTER)
        self.history.add("under_replicated", float(tally.counts.under_replicated), Scope.CLUSTER)
        return Snapshot(
            at=time.time(),
            cluster_id=str(cluster.cluster_id or ""),
            controller=active_controller(
                quorum.leader if quorum is not None else None,
                cluster.controller_id,
                [node.broker_id for node in cluster.brokers],
            ),
            brokers=tally.brokers(cluster.brokers, silent),
            quorum=quorum or Quorum(),
            topics=tuple(sorted(tally.rows)),
            groups=groups,
            partitions=tally.counts.partitions,
            under_replicated=tally.counts.under_replicated,
            without_leader=tally.counts.without_leader,
            records_per_s=rate,
            lag=lag,
        )

    def _topics(self, admin: Admin) -> Iterator[Topic]:
        """All topics, a page at a time where the brokers have pages. A topic may come in two parts."""
        cursor = None
        while not self._pages_fail:
            try:
                found = describe_topic_page(admin, _PAGE, cursor)
            except NotSupported:
                self._pages_fail = True
                break
            yield from found.topics
            cursor = found.next_cursor
            if cursor is None:
                return
        yield from describe_topics(admin, None)

    def _note_ends(self, admin: Admin, places: list[Place], now: float) -> None:
        found: Offsets = {}
        with known_failures():
            found = offsets_at(
                admin.impatient, places, LATEST
            )  # all or none: a part of a topic would look like fewer records
        sums: Counter[str] = Counter()
        for (name, _), end in found.items():
            sums[name] += end
        for name, end in sums.items():
            before = self._ends.get(name)
            if before is not None and now > before[1]:
                grown, seconds = max(0, end - before[0]), now - before[1]
                self._rates[name] = smoothed(self._rates.get(name), grown, seconds, _HALF_LIFE_S)
            self._ends[name] = (end, now)

    def _groups(self, admin: Admin, listed: list[tuple[GroupListing, int]], *, is_whole: bool) -> tuple[GroupRow, ...]:
        """Rows of groups. Of a list that is not whole the rest is as it was."""
        found = {one.group_id: GroupRow(one.group_id, one.kind, one.group_state, None) for one, _ in listed}
        self._coordinators = (self._coordinators if not is_whole else {}) | {one.group_id: node for one, node in listed}
        if not is_whole:
            found = {one.group: one for one in self.snapshot.groups} | found
        kinds = {name: found[name].kind for name in sorted(found)}
        names = list(kinds)
        start = self._group_turn if self._group_turn < len(names) else 0
        chosen = names[start : start + _MOST_GROUPS]
        lags, taken = behind(admin.impatient, {name: kinds[name] for name in chosen}, self._coordinators, self.away)
        self._group_turn = start + taken
        self._note_lags(lags)
        self._note_members(admin.impatient, [found[name] for name in chosen[:taken]])
        self._lags = {name: total for name, total in self._lags.items() if name in kinds}
        self._reads = {name: reads for name, reads in self._reads.items() if name in kinds}
        return tuple(self._with_lag(found[name]) for name in kinds)

    def _with_lag(self, row: GroupRow) -> GroupRow:
        total, reads = self._lags.get(row.group), self._reads.get(row.group)
        row = row._replace(
            members=0 if row.state in _WITHOUT_MEMBERS else self._members.get(row.group),
            topics=len(reads) if reads is not None else None,
            coordinator=self._coordinators.get(row.group),
        )
        if total is None:
            return row
        return row._replace(lag=total.lag, unknown=total.unknown, uncommitted=total.uncommitted)

    def _note_members(self, admin: Admin, rows: list[GroupRow]) -> None:
        """Counts the members of groups that have any, one request for each kind and coordinator."""
        asked: dict[tuple[str, int], list[str]] = defaultdict(list)
        for one in rows:
            node = self._coordinators.get(one.group)
            if one.state not in _WITHOUT_MEMBERS and node is not None and node not in self.away:
                asked[one.kind, node].append(one.group)
        for (kind, node), names in asked.items():
            with known_failures():
                self._members |= members_of(admin, kind, names, node)
        known = {one.group for one in self.snapshot.groups} | {one.group for one in rows}
        self._members = {name: count for name, count in self._members.items() if name in known}

    def _note_lags(self, lags: dict[str, list[Lag]]) -> None:
        for name, rows in lags.items():
            total = self._lags[name] = total_of(rows)
            self._reads[name] = by_topic(rows)
            if total.lag is not None:
                self.history.add(f"lag/{name}", float(total.lag))
            for one in rows[:_MOST_LAG_SERIES]:
                if one.lag is not None:
                    self.history.add(f"lag/{name}/{one.topic}/{one.partition}", float(one.lag), Scope.PARTITION)

    def _forget(self, tally: Tally) -> None:
        names = {row.name for row in tally.rows}
        self._facts = {name: facts for name, facts in self._facts.items() if name in names}
        for name in [name for name in self._ends if name not in names]:
            del self._ends[name]
            self._rates.pop(name, None)


def rest_s(took_s: float, *, is_idle: bool) -> float:
    """Returns the pause in seconds after a poll that took so long."""
    return max(min(took_s * _REST, _MOST_REST_S), _IDLE_INTERVAL_S if is_idle else INTERVAL_S)


def _quorum(admin: Admin) -> Quorum | None:
    """The metadata quorum; None of a cluster without one."""
    try:
        partition = describe_quorum(admin)
    except NotSupported:
        return None
    except (RequestFailed, IndexError):
        return Quorum()
    return Quorum(partition.leader_id, partition.leader_epoch, len(partition.current_voters), len(partition.observers))


def _words(error: Exception) -> str:
    known = error if isinstance(error, UserError) else from_library(error)
    return str(known) if known is not None else f"{type(error).__name__}: {error}"
