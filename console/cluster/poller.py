"""The poller: one thread that reads the cluster for all viewers, in portions of bounded size.

A poll asks for brokers, quorum and groups; for topics in pages of the brokers (KIP-966); and for the ends of a portion of
the partitions, by turns, so that 30,000 partitions are read over some polls. Rates are of the time between two
readings of the same topic. Without a viewer it polls seldom.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from ...cli.client.admin_calls import LATEST
from ...cli.client.connection import Connection
from ...cli.client.errors import CommandError, from_library
from ...cli.groups.offsets import committed_offsets
from .groups import share_offsets
from .links import AdminLink
from .model import BrokerRow, GroupRow, History, Quorum, Snapshot, TopicRow

INTERVAL_S = 2.0
#: A poll that takes long is repeated after so many times its length.
_REST = 4
_IDLE_AFTER_S, _IDLE_INTERVAL_S = 60.0, 30.0
#: Partitions in one page of topics, and of which the ends are read in one poll.
_PAGE, _MOST_ENDS = 500, 2000
#: Partitions in one request for ends: the answers of more take memory that the process keeps.
_ENDS_AT_ONCE = 500
_HALF_LIFE_S, _LEAST_RATE = 5.0, 0.05
#: Groups of which the lag is read in one poll.
_MOST_GROUPS = 50
#: Partitions of a group whose lag has a series.
_MOST_LAG_SERIES = 50

_Topic = dict[str, Any]
_Place = tuple[str, int]
_Offsets = dict[_Place, int]


class Poller:
    """`snapshot` is replaced as a whole; readers take it once."""

    def __init__(self, connection: Connection, housekeeping: Callable[[], None]) -> None:
        self.snapshot = Snapshot()
        self.history = History()
        self._link = AdminLink(connection)
        self._housekeeping = housekeeping
        self._stopping = threading.Event()
        self._changed = threading.Event()
        self._seen = time.monotonic()
        self._ends: dict[str, tuple[int, float]] = {}
        self._rates: dict[str, float] = {}
        self._lags: dict[str, int] = {}
        self._turn = self._group_turn = 0
        self._pages_fail = False
        self._thread = threading.Thread(target=self._run, name="console-poller", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._changed.set()
        self._thread.join(5)

    def note_viewer(self) -> None:
        """Keeps the polls frequent; the first viewer after a pause gets a poll at once."""
        now = time.monotonic()
        was_idle, self._seen = now - self._seen > _IDLE_AFTER_S, now
        if was_idle:
            self._changed.set()

    def poll_soon(self) -> None:
        """After a change that a viewer made."""
        self._changed.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            began = time.monotonic()
            self._changed.clear()
            try:
                self.snapshot = self._polled(self._link.open())
            except Exception as error:
                self.snapshot = replace(self.snapshot, error=_words(error))
                self._link.close()
            self._housekeeping()
            took = time.monotonic() - began
            is_idle = time.monotonic() - self._seen > _IDLE_AFTER_S
            self._changed.wait(max(took * _REST, _IDLE_INTERVAL_S if is_idle else INTERVAL_S))
        self._link.close()

    # ---- one poll

    def _polled(self, admin: Any) -> Snapshot:
        cluster = admin.describe_cluster()
        quorum = _quorum(admin)
        tally = _Tally(self._rates, self.snapshot)
        portion = _Portion(self._turn)
        for topic in self._topics(admin):
            tally.add(topic)
            portion.offer(topic)
        now = time.monotonic()
        self._turn = portion.next_turn
        self._note_ends(admin, portion.places, now)
        groups = self._groups(admin)
        self._forget(tally)
        rate = round(sum(self._rates.values()), 1) if self._rates else None
        lag = sum(self._lags.values()) if self._lags else None
        self.history.add("records_per_s", rate or 0.0)
        self.history.add("lag", float(lag or 0))
        self.history.add("under_replicated", float(tally.under_replicated))
        return Snapshot(
            at=time.time(),
            cluster_id=str(cluster["cluster_id"] or ""),
            controller=cluster["controller_id"],
            brokers=tally.brokers(cluster["brokers"]),
            quorum=quorum,
            topics=tuple(sorted(tally.rows)),
            groups=groups,
            partitions=tally.partitions,
            under_replicated=tally.under_replicated,
            without_leader=tally.without_leader,
            records_per_s=rate,
            lag=lag,
        )

    def _topics(self, admin: Any) -> Iterator[_Topic]:
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

    def _note_ends(self, admin: Any, places: list[_Place], now: float) -> None:
        found: _Offsets = {}
        with _known_failures():
            found = dict(_ends(admin, places))  # all or none: a part of a topic would look like fewer records
        ends: Counter[str] = Counter()
        for (name, _), end in found.items():
            ends[name] += end
        for name, end in ends.items():
            before = self._ends.get(name)
            if before is not None and now > before[1]:
                self._rates[name] = _smoothed(self._rates.get(name), max(0, end - before[0]), now - before[1])
            self._ends[name] = (end, now)

    def _groups(self, admin: Any) -> tuple[GroupRow, ...]:
        listed = sorted(admin.list_groups(), key=lambda one: str(one["group_id"]))
        kinds = {one["group_id"]: str(one.get("group_type") or "classic").lower() for one in listed}
        names = list(kinds)
        start = self._group_turn if self._group_turn < len(names) else 0
        chosen = names[start : start + _MOST_GROUPS]
        self._group_turn = start + _MOST_GROUPS
        self._note_lags(_behind(admin, [name for name in chosen if kinds[name] != "share"]))
        self._note_lags(_behind_shared(admin, [name for name in chosen if kinds[name] == "share"]))
        self._lags = {name: lag for name, lag in self._lags.items() if name in kinds}
        return tuple(
            GroupRow(
                one["group_id"], kinds[one["group_id"]], one.get("group_state") or "", self._lags.get(one["group_id"])
            )
            for one in listed
        )

    def _note_lags(self, lags: dict[str, _Offsets]) -> None:
        for name, behind in lags.items():
            self._lags[name] = sum(behind.values())
            self.history.add(f"lag/{name}", float(self._lags[name]))
            for (topic, partition), lag in list(behind.items())[:_MOST_LAG_SERIES]:
                self.history.add(f"lag/{name}/{topic}/{partition}", float(lag))

    def _forget(self, tally: _Tally) -> None:
        names = {row.name for row in tally.rows}
        for name in [name for name in self._ends if name not in names]:
            del self._ends[name]
            self._rates.pop(name, None)


def _smoothed(before: float | None, records: int, seconds: float) -> float:
    """A mean in which a reading has half its weight after _HALF_LIFE_S: a burst shorter than a poll stays visible."""
    rate = records / seconds
    if before is None:
        return rate
    kept = 0.5 ** (seconds / _HALF_LIFE_S)
    mean = kept * before + (1 - kept) * rate
    return mean if mean >= _LEAST_RATE else 0.0


def _ends(admin: Any, places: list[_Place]) -> Iterator[tuple[_Place, int]]:
    """Ends of partitions that have leaders, in requests of bounded size."""
    from kafka.structs import TopicPartition

    for start in range(0, len(places), _ENDS_AT_ONCE):
        asked = {TopicPartition(*place): LATEST for place in places[start : start + _ENDS_AT_ONCE]}
        for where, found in admin.list_partition_offsets(asked).items():
            yield (where.topic, where.partition), found.offset


def _ends_of(admin: Any, places: list[_Place]) -> _Offsets:
    """Ends of partitions that may be gone."""
    if not places:
        return {}
    existing = {
        topic["name"]
        for topic in admin.describe_topics(sorted({name for name, _ in places}))
        if not topic["error_code"]
    }
    return dict(_ends(admin, [place for place in places if place[0] in existing]))


def _behind(admin: Any, groups: list[str]) -> dict[str, _Offsets]:
    """Lags of groups by partition, without those that cannot be read now."""
    committed = {}
    for name in groups:
        with _known_failures():
            committed[name] = committed_offsets(admin, name)
    places = sorted({place for held in committed.values() for place in held})[:_MOST_ENDS]
    ends: _Offsets = {}
    with _known_failures():
        ends = _ends_of(admin, places)
    found = {}
    for name, held in committed.items():
        behind = {place: max(0, ends[place] - offset) for place, offset in held.items() if place in ends}
        if behind or not held:
            found[name] = behind
    return found


def _behind_shared(admin: Any, groups: list[str]) -> dict[str, _Offsets]:
    """Lags of share groups, as their coordinators say (KIP-1226)."""
    found = {}
    for name in groups:
        with _known_failures():
            behind = {(one.topic, one.partition): one.lag for one in share_offsets(admin, name) if one.lag is not None}
            if behind:
                found[name] = behind
    return found


@contextlib.contextmanager
def _known_failures() -> Iterator[None]:
    """Errors of the cluster pass: the next poll reads again."""
    try:
        yield
    except Exception as error:
        if from_library(error) is None and not isinstance(error, CommandError):
            raise


def _quorum(admin: Any) -> Quorum:
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

    def add(self, topic: _Topic) -> None:
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

    def brokers(self, described: list[dict[str, Any]]) -> tuple[BrokerRow, ...]:
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
            )
            for one in sorted(described, key=lambda one: int(one["broker_id"]))
        )


class _Portion:
    """Partitions whose ends this poll reads: of topics that begin among the _MOST_ENDS partitions from `turn` on."""

    def __init__(self, turn: int) -> None:
        self._turn, self._position = turn, 0
        self._last, self._is_chosen = "", False
        self.places: list[_Place] = []

    def offer(self, topic: _Topic) -> None:
        if topic["name"] != self._last:  # else it is the rest of a topic that did not fit the page before
            is_due = self._turn <= self._position < self._turn + _MOST_ENDS
            self._last, self._is_chosen = topic["name"], is_due and not topic["is_internal"]
        self._position += len(topic["partitions"])
        if self._is_chosen:
            self.places += [
                (topic["name"], one["partition_index"]) for one in topic["partitions"] if one["leader_id"] >= 0
            ]

    @property
    def next_turn(self) -> int:
        following = self._turn + _MOST_ENDS
        return following if following < self._position else 0
