"""The poller: one thread that reads the cluster for all viewers, in portions of bounded size.

A poll asks for brokers, quorum and groups; for topics in pages of the brokers (KIP-966); and for the ends of a portion of
the partitions, by turns, so that 30,000 partitions are read over some polls. Rates are of the time between two
readings of the same topic. Without a viewer it polls seldom.

A broker that has died stays in the metadata, as a leader and a coordinator, until its session ends. The poll asks each
broker for its groups, and sends nothing else to one that sent no response: figures that only this broker has
stay as they were.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ...cli.client.admin import LATEST, coordinator_now, offsets_at
from ...cli.client.connection import Connection
from ...cli.client.errors import CommandError, from_library
from ...cli.groups.offsets import (
    Lag,
    Positions,
    Reading,
    Total,
    committed_positions,
    lags_of,
    read_topics,
    shared_positions,
    total_of,
)
from .groups import share_offsets
from .links import AdminLink
from .model import BrokerRow, GroupRow, History, Quorum, Snapshot, TopicRow

if TYPE_CHECKING:
    from ...cli.client.admin import AdminClient, Broker, GroupListing, Topic


# ---- groups, ends and lags

#: Partitions of which the ends are read in one poll.
MOST_ENDS = 2000

Place = tuple[str, int]
Offsets = dict[Place, int]


def groups_of(admin: AdminClient, brokers: set[int]) -> tuple[list[GroupListing], set[int], bool]:
    """Groups that the brokers coordinate, the brokers that do not respond, and whether these are all groups."""
    from kafka.errors import (
        Cancelled,
        CoordinatorLoadInProgressError,
        CoordinatorNotAvailableError,
        KafkaConnectionError,
        KafkaTimeoutError,
        NodeNotReadyError,
        RequestTimedOutError,
        UnknownBrokerIdError,
    )

    found: list[GroupListing] = []
    silent: set[int] = set()
    is_loading = False
    for node in sorted(brokers):
        try:
            found += admin.list_groups(broker_ids=[node])
        except (
            KafkaConnectionError,
            KafkaTimeoutError,
            NodeNotReadyError,
            RequestTimedOutError,
            Cancelled,
            ConnectionError,
        ):
            silent.add(node)
        except (CoordinatorLoadInProgressError, CoordinatorNotAvailableError, UnknownBrokerIdError):
            is_loading = True
    return found, silent, not (silent or is_loading)


def behind(admin: AdminClient, kinds: Mapping[str, str], away: frozenset[int]) -> tuple[dict[str, list[Lag]], int]:
    """Lags of groups by partition, without groups that cannot be read now. Reads whole groups, up to MOST_ENDS partitions,
    and returns how many of `kinds` it has taken; the next poll reads the others.
    """
    positions: dict[str, Positions] = {}
    nodes: dict[int, list[str]] = defaultdict(list)
    count = taken = 0
    for name, kind in kinds.items():
        if count >= MOST_ENDS:
            break
        taken += 1
        with known_failures():
            node = coordinator_now(admin, name)
            if node in away:
                continue
            positions[name] = _shared(admin, name) if kind == "share" else committed_positions(admin, name)
            nodes[node].append(name)
            count += len(positions[name])
    readings: dict[str, Reading] = {}
    for node, names in nodes.items():
        with known_failures():
            readings |= read_topics(admin, kinds, {node: names})
            continue
        for name in names:  # their topics are unknown, and so is their lag
            del positions[name]
    with known_failures():
        return lags_of(admin, positions, readings, away), taken
    return {}, taken


def _shared(admin: AdminClient, name: str) -> Positions:
    """Positions of a share group, with the lag that its coordinator has (KIP-1226)."""
    offsets = share_offsets(admin, name)
    started = {(one.topic, one.partition): (one.start if one.start >= 0 else None, one.lag) for one in offsets}
    return shared_positions(admin, name, started)


@contextlib.contextmanager
def known_failures() -> Iterator[None]:
    """Errors of the cluster pass: the next poll reads again."""
    try:
        yield
    except Exception as error:
        if from_library(error) is None and not isinstance(error, CommandError | ConnectionError):
            raise


INTERVAL_S = 2.0
#: The first page names an address that has not responded for so long.
_LATE_S = 2.0
#: A poll that takes long is repeated after so many times its length, and after the bound at the latest: a poll is also long
#: when a broker stopped responding in the middle of it, which only the next one shows.
_REST, _MOST_REST_S = 4, 15.0
_IDLE_AFTER_S, _IDLE_INTERVAL_S = 60.0, 30.0
#: Partitions in one page of topics.
_PAGE = 500
_HALF_LIFE_S, _LEAST_RATE = 5.0, 0.05
#: Groups of which the lag is read in one poll.
_MOST_GROUPS = 50
#: Partitions of a group whose lag has a series.
_MOST_LAG_SERIES = 50


class Poller:
    """`snapshot` is replaced as a whole; readers take it once."""

    def __init__(self, connection: Connection, housekeeping: Callable[[], None]) -> None:
        self.snapshot = Snapshot()
        self.history = History()
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
        self._reads: dict[str, dict[str, int]] = {}
        self._turn = self._group_turn = 0
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

    def readers(self, topic: str) -> list[tuple[GroupRow, int]]:
        """Groups with offsets in the topic, and their lag there."""
        reads = self._reads
        return [(row, reads[row.group][topic]) for row in self.snapshot.groups if topic in reads.get(row.group, ())]

    def note_viewer(self) -> None:
        """Keeps the polls frequent; the first viewer after a pause gets a poll at once."""
        now = time.monotonic()
        was_idle, self._seen = now - self._seen > _IDLE_AFTER_S, now
        if was_idle:
            self._changed.set()

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
            self._housekeeping()
            # A poll that waited for a dead broker was long without work for the others.
            is_waiting = bool(self.snapshot.error) or any(one.silent for one in self.snapshot.brokers)
            took = 0.0 if is_waiting else time.monotonic() - began
            self._changed.wait(rest_s(took, is_idle=time.monotonic() - self._seen > _IDLE_AFTER_S))
        self._link.close()

    # ---- one poll

    def _polled(self, admin: AdminClient) -> Snapshot:
        cluster = admin.describe_cluster()
        fenced = {one["broker_id"] for one in cluster["brokers"] if one.get("is_fenced")}
        listed, silent, is_whole = groups_of(admin.impatient, {one["broker_id"] for one in cluster["brokers"]} - fenced)
        with self._polls:
            self.away, self._probed = frozenset(fenced | silent), self._begun
            self._polls.notify_all()
        quorum = _quorum(admin)
        tally = _Tally(self._rates, self.snapshot)
        portion = _Portion(self._turn, self.away)
        for topic in self._topics(admin):
            tally.add(topic)
            portion.offer(topic)
        now = time.monotonic()
        self._turn = portion.next_turn
        self._note_ends(admin, portion.places, now)
        groups = self._groups(admin, listed, is_whole=is_whole)
        self._forget(tally)
        rate = round(sum(self._rates.values()), 1) if self._rates else None
        lag = sum(total.lag for total in self._lags.values()) if self._lags else None
        self.history.add("records_per_s", rate or 0.0)
        self.history.add("lag", float(lag or 0))
        self.history.add("under_replicated", float(tally.under_replicated))
        return Snapshot(
            at=time.time(),
            cluster_id=str(cluster["cluster_id"] or ""),
            controller=cluster["controller_id"],
            brokers=tally.brokers(cluster["brokers"], silent),
            quorum=quorum,
            topics=tuple(sorted(tally.rows)),
            groups=groups,
            partitions=tally.partitions,
            under_replicated=tally.under_replicated,
            without_leader=tally.without_leader,
            records_per_s=rate,
            lag=lag,
        )

    def _topics(self, admin: AdminClient) -> Iterator[Topic]:
        """All topics, a page at a time where the brokers have pages. A topic may come in two parts."""
        from kafka.errors import IncompatibleBrokerVersion, UnsupportedVersionError

        cursor = None
        while not self._pages_fail:
            try:
                found = admin.describe_topic_partitions([], _PAGE, cursor)
            except (IncompatibleBrokerVersion, UnsupportedVersionError):
                self._pages_fail = True
                break
            yield from found["topics"]
            cursor = found["next_cursor"]
            if cursor is None:
                return
        yield from admin.describe_topics(None)

    def _note_ends(self, admin: AdminClient, places: list[Place], now: float) -> None:
        found: Offsets = {}
        with known_failures():
            found = dict(
                offsets_at(admin.impatient, places, LATEST)
            )  # all or none: a part of a topic would look like fewer records
        sums: Counter[str] = Counter()
        for (name, _), end in found.items():
            sums[name] += end
        for name, end in sums.items():
            before = self._ends.get(name)
            if before is not None and now > before[1]:
                self._rates[name] = _smoothed(self._rates.get(name), max(0, end - before[0]), now - before[1])
            self._ends[name] = (end, now)

    def _groups(self, admin: AdminClient, listed: list[GroupListing], *, is_whole: bool) -> tuple[GroupRow, ...]:
        """Rows of groups. Of a list that is not whole the rest is as it was."""
        found = {
            one["group_id"]: GroupRow(
                one["group_id"], str(one.get("group_type") or "classic").lower(), one.get("group_state") or "", None
            )
            for one in listed
        }
        if not is_whole:
            found = {one.group: one for one in self.snapshot.groups} | found
        kinds = {name: found[name].kind for name in sorted(found)}
        names = list(kinds)
        start = self._group_turn if self._group_turn < len(names) else 0
        chosen = names[start : start + _MOST_GROUPS]
        lags, taken = behind(admin.impatient, {name: kinds[name] for name in chosen}, self.away)
        self._group_turn = start + taken
        self._note_lags(lags)
        self._lags = {name: total for name, total in self._lags.items() if name in kinds}
        self._reads = {name: reads for name, reads in self._reads.items() if name in kinds}
        return tuple(self._with_lag(found[name]) for name in kinds)

    def _with_lag(self, row: GroupRow) -> GroupRow:
        total = self._lags.get(row.group)
        return row if total is None else row._replace(lag=total.lag, unknown=total.unknown)

    def _note_lags(self, lags: dict[str, list[Lag]]) -> None:
        for name, rows in lags.items():
            self._lags[name] = total_of(rows)
            reads: Counter[str] = Counter()
            for one in rows:
                reads[one.topic] += one.lag or 0
            self._reads[name] = dict(reads)
            self.history.add(f"lag/{name}", float(self._lags[name].lag))
            for one in rows[:_MOST_LAG_SERIES]:
                if one.lag is not None:
                    self.history.add(f"lag/{name}/{one.topic}/{one.partition}", float(one.lag))

    def _forget(self, tally: _Tally) -> None:
        names = {row.name for row in tally.rows}
        for name in [name for name in self._ends if name not in names]:
            del self._ends[name]
            self._rates.pop(name, None)


def rest_s(took_s: float, *, is_idle: bool) -> float:
    """Returns the pause in seconds after a poll that took so long."""
    return max(min(took_s * _REST, _MOST_REST_S), _IDLE_INTERVAL_S if is_idle else INTERVAL_S)


def _smoothed(before: float | None, records: int, seconds: float) -> float:
    """A mean in which a reading has half its weight after _HALF_LIFE_S: a burst shorter than a poll stays visible."""
    rate = records / seconds
    if before is None:
        return rate
    kept = 0.5 ** (seconds / _HALF_LIFE_S)
    mean = kept * before + (1 - kept) * rate
    return mean if mean >= _LEAST_RATE else 0.0


def _quorum(admin: AdminClient) -> Quorum:
    from kafka.errors import KafkaError

    try:
        partition = admin.describe_metadata_quorum()["topics"][0]["partitions"][0]
    except (KafkaError, IndexError):
        return Quorum()
    return Quorum(
        partition["leader_id"], partition["leader_epoch"], len(partition["current_voters"]), len(partition["observers"])
    )


def _words(error: Exception) -> str:
    known = error if isinstance(error, CommandError) else from_library(error)
    return str(known) if known is not None else f"{type(error).__name__}: {error}"


class _Tally:
    """Counts over all topics, without keeping their partitions. Rows that are as they were stay the same objects."""

    def __init__(self, rates: dict[str, float], before: Snapshot) -> None:
        self.partitions = self.under_replicated = self.without_leader = 0
        self.rows: list[TopicRow] = []
        self._rates = rates
        self._before = before
        self._leads: Counter[int] = Counter()
        self._holds: Counter[int] = Counter()
        self._lacks: Counter[int] = Counter()

    def add(self, topic: Topic) -> None:
        short = leaderless = replicas = 0
        for one in topic["partitions"]:
            nodes, isr = one["replica_nodes"], one["isr_nodes"]
            self._leads[one["leader_id"]] += 1
            self._holds.update(nodes)
            replicas = max(replicas, len(nodes))
            leaderless += one["leader_id"] < 0
            if len(isr) < len(nodes):
                short += 1
                self._lacks.update(set(nodes) - set(isr))
        count = len(topic["partitions"])
        self.partitions += count
        self.under_replicated += short
        self.without_leader += leaderless
        name = topic["name"]
        if self.rows and self.rows[-1].name == name:  # the rest of a topic that did not fit the page before
            begun = self.rows.pop()
            count, short = count + begun.partitions, short + begun.under_replicated
            leaderless, replicas = leaderless + begun.without_leader, max(replicas, begun.replicas)
        row = TopicRow(name, count, replicas, short, leaderless, bool(topic["is_internal"]), self._rates.get(name))
        known = self._before.topic(name)
        if known is not None:
            row = known if known == row else row._replace(name=known.name)
        self.rows.append(row)

    def brokers(self, described: list[Broker], silent: set[int]) -> tuple[BrokerRow, ...]:
        return tuple(
            BrokerRow(
                one["broker_id"],
                one["host"],
                one["port"],
                one["rack"],
                bool(one.get("is_fenced")),
                self._leads[one["broker_id"]],
                self._holds[one["broker_id"]],
                self._lacks[one["broker_id"]],
                one["broker_id"] in silent,
            )
            for one in sorted(described, key=lambda one: int(one["broker_id"]))
        )


class _Portion:
    """Partitions whose ends this poll reads: of topics that begin among the MOST_ENDS partitions from `turn` on, if each
    partition has a leader that responds. Without one of them a topic would seem to have fewer records, and more after it.
    """

    def __init__(self, turn: int, away: frozenset[int]) -> None:
        self._turn, self._position = turn, 0
        self._away = away
        self._last, self._is_chosen = "", False
        self._chosen: dict[str, list[Place]] = {}

    def offer(self, topic: Topic) -> None:
        if topic["name"] != self._last:  # else it is the rest of a topic that did not fit the page before
            is_due = self._turn <= self._position < self._turn + MOST_ENDS
            self._last, self._is_chosen = topic["name"], is_due and not topic["is_internal"]
        self._position += len(topic["partitions"])
        if self._is_chosen and any(
            one["leader_id"] < 0 or one["leader_id"] in self._away for one in topic["partitions"]
        ):
            self._is_chosen = False
            self._chosen.pop(topic["name"], None)
        if self._is_chosen:
            self._chosen.setdefault(topic["name"], []).extend(
                (topic["name"], one["partition_index"]) for one in topic["partitions"]
            )

    @property
    def places(self) -> list[Place]:
        return [place for places in self._chosen.values() for place in places]

    @property
    def next_turn(self) -> int:
        following = self._turn + MOST_ENDS
        return following if following < self._position else 0
