"""`odradek reassign`: moves replicas between brokers, by a plan in the form of kafka-reassign-partitions.sh.

- `Balance`: a plan that balances replicas, bytes and leaders over brokers, and spreads the replicas of a partition
  over racks.
- `plan`, `run`, `status`, `cancel`: the commands.
"""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .client.admin import alter_configs, ask, check, described_topics, replica_sizes
from .client.connection import Connection
from .client.errors import CommandError, Misused
from .client.options import DryRun, Output, client_command, complete_topic, new_app
from .output import Progress, Table

if TYPE_CHECKING:
    from ..protocol.messages.partitions import OngoingPartitionReassignment
    from .client.admin import AdminClient, Topic


# ---- balance
#
# The plan begins with the placement of now and moves one replica at a time, so it moves little. First go replicas on
# brokers that may have none and replicas that share a rack, then counts of replicas, then bytes, then leaders, which
# only changes the order of the replicas.

Place = tuple[str, int]
Placement = dict[Place, list[int]]
#: Exchanges of replicas for bytes; each takes a pass over the replicas of two brokers.
_MOST_EXCHANGES = 1000


class Balance:
    """`racks` has the rack of each broker that may hold replicas, None without one. `sizes`: bytes of a replica."""

    def __init__(
        self, replicas: Mapping[Place, list[int]], racks: Mapping[int, str | None], sizes: Mapping[Place, int]
    ) -> None:
        self.replicas: Placement = {place: list(held) for place, held in sorted(replicas.items())}
        self._racks = racks
        self._sizes = sizes
        self._held = Counter(dict.fromkeys(racks, 0))
        self._bytes = Counter(dict.fromkeys(racks, 0))
        for place, held in self.replicas.items():
            for broker in held:
                self._held[broker] += 1
                self._bytes[broker] += sizes.get(place, 0)

    def plan(self) -> Placement:
        """The new placement of all partitions. Raises ValueError where a partition has more replicas than brokers are."""
        for place, held in self.replicas.items():
            if len(held) > len(self._racks):
                raise ValueError(f"{place[0]}-{place[1]} has {len(held)} replicas, and only {len(self._racks)} brokers")
            self._leave_others(place)
            self._spread(place)
        self._even_counts()
        self._even_bytes()
        self._even_leaders()
        return self.replicas

    # ---- single replicas

    def _leave_others(self, place: Place) -> None:
        for broker in list(self.replicas[place]):
            if broker not in self._racks:
                self._move(place, broker, self._best(place, self._free(place), broker))

    def _spread(self, place: Place) -> None:
        """Moves replicas that share a rack to racks without one."""
        held = self.replicas[place]
        for broker in reversed(list(held)):
            if self._shared(place, broker):
                free = [one for one in self._free(place) if self._racks[one] not in map(self._racks.get, held)]
                if free:
                    self._move(place, broker, self._best(place, free, broker))

    def _shared(self, place: Place, broker: int) -> bool:
        rack = self._racks[broker]
        return rack is not None and [self._racks.get(one) for one in self.replicas[place]].count(rack) > 1

    def _free(self, place: Place) -> list[int]:
        return [broker for broker in self._racks if broker not in self.replicas[place]]

    def _best(self, place: Place, among: Iterable[int], instead_of: int) -> int:
        """The emptiest broker, one in a rack of no other replica first."""
        others = {self._racks.get(one) for one in self.replicas[place] if one != instead_of}
        return min(among, key=lambda one: (self._racks[one] in others, self._held[one], self._bytes[one], one))

    def _move(self, place: Place, old: int, new: int) -> None:
        held = self.replicas[place]
        held[held.index(old)] = new
        size = self._sizes.get(place, 0)
        for broker, sign in ((old, -1), (new, 1)):
            self._held[broker] += sign
            self._bytes[broker] += sign * size

    def _may_move(self, place: Place, old: int, new: int) -> bool:
        """Whether no rack gets a second replica by it that had one before."""
        held = self.replicas[place]
        if old not in held or new in held:
            return False
        rack = self._racks[new]
        return rack is None or rack == self._racks[old] or rack not in {self._racks[one] for one in held}

    # ---- counts, bytes, leaders

    def _even_counts(self) -> None:
        while self._move_one():
            pass

    def _move_one(self) -> bool:
        """Moves one replica from a broker to one with at least two less; False if none can."""
        for old in sorted(self._racks, key=lambda one: (-self._held[one], one)):
            for new in sorted(self._racks, key=lambda one: (self._held[one], one)):
                if self._held[old] - self._held[new] < 2:
                    break
                gap = (self._bytes[old] - self._bytes[new]) / 2
                able = [place for place in self.replicas if self._may_move(place, old, new)]
                if able:
                    self._move(min(able, key=lambda place: (abs(gap - self._sizes.get(place, 0)), place)), old, new)
                    return True
        return False

    def _even_bytes(self) -> None:
        for _ in range(_MOST_EXCHANGES):
            full = max(self._racks, key=lambda one: (self._bytes[one], one))
            if not any(self._exchange(full, empty) for empty in sorted(self._racks, key=lambda one: self._bytes[one])):
                return

    def _exchange(self, full: int, empty: int) -> bool:
        """Exchanges a large replica of one broker for a small one of another, where the two come closer by it."""
        gap = self._bytes[full] - self._bytes[empty]
        large = [place for place in self.replicas if self._may_move(place, full, empty)]
        small = [place for place in self.replicas if self._may_move(place, empty, full)]
        best = min(
            ((abs(gap - 2 * (self._sizes.get(a, 0) - self._sizes.get(b, 0))), a, b) for a in large for b in small),
            default=None,
        )
        if best is None or best[0] >= gap:
            return False
        self._move(best[1], full, empty)
        self._move(best[2], empty, full)
        return True

    def _even_leaders(self) -> None:
        leads = Counter(dict.fromkeys(self._racks, 0))
        leads.update(held[0] for held in self.replicas.values())
        while True:
            most = max(leads.values(), default=0)
            chains = (self._chain(one, leads) for one in sorted(leads) if leads[one] == most)
            chain = next((found for found in chains if found), None)
            if chain is None:
                return
            for place, broker in chain:
                held = self.replicas[place]
                leads[held[0]] -= 1
                leads[broker] += 1
                held.remove(broker)
                held.insert(0, broker)

    def _chain(self, start: int, leads: Mapping[int, int]) -> list[tuple[Place, int]]:
        """Partitions and their new leaders, which together take one leader from `start` for a broker with two less."""
        followers: dict[int, list[tuple[Place, int]]] = {}
        for place, held in self.replicas.items():
            followers.setdefault(held[0], []).extend((place, one) for one in held[1:])
        came: dict[int, tuple[int, Place]] = {start: (start, ("", 0))}
        waiting = deque([start])
        while waiting:
            broker = waiting.popleft()
            if leads[broker] <= leads[start] - 2:
                chain = []
                while broker != start:
                    before, place = came[broker]
                    chain.append((place, broker))
                    broker = before
                return chain
            for place, following in followers.get(broker, ()):
                if following not in came:
                    came[following] = broker, place
                    waiting.append(following)
        return []


# ---- commands

app = new_app("Move replicas: plan, run, status, cancel.")

_POLL_S = 0.2
_NO_REASSIGNMENT = 85
_RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
_REPLICAS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
#: A plan has 100 bytes for each partition; larger files are none.
_MOST_PLAN_BYTES = 64 << 20

Topics = Annotated[
    list[str] | None, typer.Argument(metavar="[TOPIC...]", help="default: all topics", autocompletion=complete_topic)
]


@app.command("plan")
@client_command
def plan(
    connection: Connection,
    output: Output,
    topics: Topics = None,
    brokers: Annotated[
        str | None, typer.Option("--brokers", metavar="ID,...", help="brokers that may hold replicas (default: all)")
    ] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="write the plan to this file")] = None,
) -> None:
    """Plan moves that balance leaders, replicas and bytes over brokers and racks. Nothing is changed."""
    with connection.admin() as admin:
        racks = _racks(admin, brokers)
        before = _placement(described_topics(admin, topics))
        sizes = replica_sizes(admin)
    try:
        after = Balance(before, racks, sizes).plan()
    except ValueError as error:
        raise Misused(str(error)) from None
    moved = {place: held for place, held in after.items() if held != before[place]}
    if file is not None:
        file.write_text(_text_of(moved), encoding="utf-8")
    found = [
        {
            "topic": topic,
            "partition": index,
            "before": before[topic, index],
            "after": held,
            "bytes": sizes.get((topic, index), 0) * len(set(held) - set(before[topic, index])),
        }
        for (topic, index), held in moved.items()
    ]
    output.show(
        found, Table("", [name.upper() for name in found[0]] if found else (), [list(one.values()) for one in found])
    )


@app.command("run")
@client_command
def run(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="file of `reassign plan`, or of Kafka's tool")],
    connection: Connection,
    output: Output,
    rollback: Annotated[
        Path | None, typer.Option("--rollback", help="write the placement of now to this file, as a plan")
    ] = None,
    throttle: Annotated[
        int | None,
        typer.Option("--throttle", metavar="BYTES", help="limit of the bandwidth of each broker, per second"),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="wait until all replicas have moved")] = True,
    dry_run: DryRun = False,
) -> None:
    """Move replicas by a plan. A throttle is removed at the end, or by `reassign status --clear-throttle`."""
    if throttle is not None and throttle <= 0:
        raise Misused("--throttle must be more than 0")
    wanted = _plan_of(plan)
    with connection.admin() as admin:
        before = _placement(described_topics(admin, sorted({topic for topic, _ in wanted})))
        if missing := [f"{topic}-{index}" for topic, index in wanted if (topic, index) not in before]:
            raise CommandError(f"{', '.join(missing[:5])} of the plan do not exist")
        moved = {place: held for place, held in wanted.items() if held != before[place]}
        if rollback is not None and not dry_run:
            rollback.write_text(_text_of({place: before[place] for place in moved}), encoding="utf-8")
        if moved and not dry_run:
            if throttle is not None:
                _throttle(admin, before, moved, throttle)
            _send(admin, moved)
            if wait:
                _await(admin, set(moved))
                if throttle is not None:
                    _clear(admin, {topic for topic, _ in moved})
    output.changed("moved" if wait else "begun", _lines(moved), dry_run=dry_run)


@app.command("status")
@client_command
def status(
    connection: Connection,
    output: Output,
    clear_throttle: Annotated[
        bool, typer.Option("--clear-throttle", help="remove throttles, where no replica moves any more")
    ] = False,
) -> None:
    """List the moves that are under way."""
    with connection.admin() as admin:
        found = [
            {"topic": topic, "partition": one.partition_index, "replicas": list(one.replicas),
             "adding": list(one.adding_replicas), "removing": list(one.removing_replicas)}
            for (topic, _), one in _ongoing(admin).items()
        ]  # fmt: skip
        if clear_throttle and not found:
            _clear(admin, {str(topic["name"]) for topic in described_topics(admin, None)})
    columns = ("TOPIC", "PARTITION", "REPLICAS", "ADDING", "REMOVING")
    output.show(found, Table("", columns, [list(one.values()) for one in found]))


@app.command("cancel")
@client_command
def cancel(connection: Connection, output: Output, topics: Topics = None, dry_run: DryRun = False) -> None:
    """Cancel moves that are under way: replicas are where they were before."""
    with connection.admin() as admin:
        places = {place: None for place in _ongoing(admin) if topics is None or place[0] in topics}
        if places and not dry_run:
            _send(admin, places)
    output.changed("cancelled", [f"{topic}-{index}" for topic, index in places], dry_run=dry_run)


# ---- plans


def _racks(admin: AdminClient, brokers: str | None) -> dict[int, str | None]:
    known = {one["broker_id"]: one["rack"] for one in admin.describe_cluster()["brokers"] if not one.get("is_fenced")}
    if brokers is None:
        return known
    try:
        chosen = [int(text) for text in brokers.split(",")]
    except ValueError:
        raise Misused(f"--brokers {brokers!r}: give ids, as 1,2,3") from None
    if unknown := [str(one) for one in chosen if one not in known]:
        raise Misused(
            f"--brokers: {', '.join(unknown)} do not run; brokers that run: {', '.join(map(str, sorted(known)))}"
        )
    return {one: known[one] for one in chosen}


def _placement(topics: Iterable[Topic]) -> Placement:
    return {
        (str(topic["name"]), one["partition_index"]): list(one["replica_nodes"])
        for topic in topics
        for one in topic["partitions"]
    }


def _text_of(placement: Mapping[Place, list[int]]) -> str:
    partitions = [{"topic": topic, "partition": index, "replicas": held} for (topic, index), held in placement.items()]
    return json.dumps({"version": 1, "partitions": partitions}, indent=1) + "\n"


def _plan_of(file: Path) -> Placement:
    try:
        with file.open("rb") as opened:
            content = json.loads(opened.read(_MOST_PLAN_BYTES))
        made = {(str(one["topic"]), int(one["partition"])): [int(node) for node in one["replicas"]]
                for one in content["partitions"]}  # fmt: skip
    except OSError as error:
        raise Misused(f"cannot read {file}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise Misused(f"{file} is not a plan: {error}") from None
    if wrong := [f"{topic}-{index}" for (topic, index), held in made.items() if not held or len(set(held)) < len(held)]:
        raise Misused(f"{file}: replicas of {', '.join(wrong[:5])} are missing, or named twice")
    return made


def _lines(placement: Mapping[Place, list[int]]) -> list[str]:
    return [f"{topic}-{index}: replicas {','.join(map(str, held))}" for (topic, index), held in placement.items()]


# ---- moves


def _send(admin: AdminClient, wanted: Mapping[Place, list[int] | None]) -> None:
    """Begins moves; None cancels one. Raises CommandError for the first that is refused."""
    from ..protocol.messages.partitions import (
        AlterPartitionReassignmentsRequest,
        ReassignablePartition,
        ReassignableTopic,
    )

    named: dict[str, list[ReassignablePartition]] = defaultdict(list)
    for (topic, index), held in wanted.items():
        named[topic].append(ReassignablePartition(index, held))
    topics = [ReassignableTopic(topic, partitions) for topic, partitions in named.items()]
    response = ask(admin, AlterPartitionReassignmentsRequest(topics=topics))
    check("reassignment", response.error_code, response.error_message)
    for topic in response.responses:
        for one in topic.partitions:
            if one.error_code != _NO_REASSIGNMENT:
                check(f"{topic.name}-{one.partition_index}", one.error_code, one.error_message)


def _ongoing(admin: AdminClient) -> dict[Place, OngoingPartitionReassignment]:
    from ..protocol.messages.partitions import ListPartitionReassignmentsRequest

    response = admin.repeated(lambda: ask(admin, ListPartitionReassignmentsRequest(topics=None)))
    check("reassignments", response.error_code, response.error_message)
    return {(topic.name, one.partition_index): one for topic in response.topics for one in topic.partitions}


def _await(admin: AdminClient, places: set[Place]) -> None:
    left = len(places)
    with Progress("moving partitions", left) as progress:
        while left:
            now = len(places & _ongoing(admin).keys())
            progress.advance(left - now)
            left = now
            if left:
                time.sleep(_POLL_S)


def _throttle(admin: AdminClient, before: Placement, moved: Mapping[Place, list[int]], rate: int) -> None:
    """Leaders are those that have a replica before, followers those that get one, as Kafka's tool has it."""
    brokers = {node for place, held in moved.items() for node in (*held, *before[place])}
    for node in sorted(brokers):
        changes = {key: ("SET", str(rate)) for key in _RATES}
        alter_configs(admin, "broker", str(node), changes, dry_run=False)
    for name in sorted({topic for topic, _ in moved}):
        places = [place for place in moved if place[0] == name]
        leading = [f"{place[1]}:{node}" for place in places for node in before[place]]
        following = [f"{place[1]}:{node}" for place in places for node in moved[place] if node not in before[place]]
        values = dict(zip(_REPLICAS, (",".join(leading), ",".join(following)), strict=True))
        alter_configs(admin, "topic", name, {key: ("SET", value) for key, value in values.items()}, dry_run=False)


def _clear(admin: AdminClient, topics: Iterable[str]) -> None:
    for node in [one["broker_id"] for one in admin.describe_cluster()["brokers"]]:
        alter_configs(admin, "broker", str(node), dict.fromkeys(_RATES, ("DELETE", None)), dry_run=False)
    for name in sorted(topics):
        alter_configs(admin, "topic", name, dict.fromkeys(_REPLICAS, ("DELETE", None)), dry_run=False)
