"""The partitions that members owned over time, from their notes (notes.py), and the violations in them.

A *life* is one process of a member, and a *tenure* a time in which it owned a partition. A tenure ends

- when its member gives the partition back, or leaves;
- with the life, when the process is killed;
- with the session of a frozen member: after that the coordinator may assign the partition to another member. The
  frozen member learns of it when it resumes, and then notes the loss. A member that was not frozen loses nothing.

The coordinator may rely on the owned partitions in a heartbeat (KIP-848). A heartbeat that crosses an assignment lists the
partitions owned before it. If the target has changed by then, the new partitions are free at once, and the response to that
heartbeat revokes them. Apache Kafka does the same (the differential scenario "a member is taken at its word that it owns
nothing yet"). So such a tenure lasts as long as a request; these tenures are counted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from .notes import COMMITS, GIVES, HANDLED, HAS, LOSES, REJECTED

#: In both protocols.
SESSION_S = 6.0
#: Longest time between a member's last heartbeat and its freeze, on a busy machine.
HEARTBEAT_S = 1.5
#: Time in which a member that resumes after its session learns of its expiry.
REPORTED_S = 20.0
#: Time in which a response reaches its member, on a busy machine.
CROSSED_S = 1.0


@dataclass
class Tenure:
    partition: int
    begin: float
    end: float | None = None
    was_lost: bool = False


class Commit(NamedTuple):
    partitions: Sequence[int]
    began: float
    reported: float
    error: str | None


@dataclass
class Freeze:
    begin: float
    #: None while the member is frozen.
    end: float | None = None


@dataclass
class Life:
    """The notes of one process in `file`, and its faults."""

    name: str
    file: Path
    is_consumer: bool
    killed_at: float | None = None
    freezes: list[Freeze] = field(default_factory=list)
    tenures: list[Tenure] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    handled: set[int] = field(default_factory=set)
    rejected: str | None = None
    _read_to: int = 0

    def read(self) -> None:
        """Reads the whole lines that are new since the last call."""
        with self.file.open("rb") as file:
            file.seek(self._read_to)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._read_to += len(whole)
        for line in whole.splitlines():
            self._take(*json.loads(line))

    def _take(self, what: str, time: float, *more: object) -> None:
        if what == HANDLED:
            self.handled.add(*more)  # type: ignore[arg-type]
        elif what == HAS:
            self.tenures += [Tenure(partition, time) for partition in more[0]]  # type: ignore[attr-defined]
        elif what in (GIVES, LOSES):
            for one in self.owned():
                if one.partition in more[0]:  # type: ignore[operator]
                    one.end, one.was_lost = time, what == LOSES
        elif what == COMMITS:
            reported, partitions, error = more
            self.commits.append(Commit(partitions, time, reported, error))  # type: ignore[arg-type]
        elif what == REJECTED:
            self.rejected = str(more[0])
            for one in self.owned():
                one.end, one.was_lost = time, True

    def owned(self) -> list[Tenure]:
        return [] if self.killed_at is not None else [one for one in self.tenures if one.end is None]

    def over(self, tenure: Tenure) -> float:
        """Returns the time from which the partition may have another owner."""
        ends = [end for end in (tenure.end, self.killed_at) if end is not None]
        end = min(ends, default=math.inf)
        if tenure.end is not None and not tenure.was_lost:
            return end
        for freeze in self.freezes:
            session_over = freeze.begin + SESSION_S - HEARTBEAT_S
            thawed = math.inf if freeze.end is None else freeze.end
            if session_over <= thawed and freeze.begin < end and end <= thawed + REPORTED_S:
                return min(end, session_over)
        return end

    def has_crossed(self, tenure: Tenure, at: float) -> bool:
        """Returns whether the coordinator may have relied on a heartbeat from before the member learned of this tenure."""
        if not self.is_consumer or tenure.end is None or tenure.was_lost:
            return False
        return tenure.begin <= at and tenure.end - tenure.begin <= CROSSED_S


@dataclass
class Ledger:
    lives: list[Life] = field(default_factory=list)
    #: Tenures that a crossed heartbeat ended early, of which the member learned a little later.
    crossed: int = 0

    def read(self) -> None:
        for life in self.lives:
            life.read()

    @property
    def handled(self) -> set[int]:
        return set().union(*(life.handled for life in self.lives))

    @property
    def moves(self) -> int:
        return sum(len(life.tenures) for life in self.lives)

    @property
    def rejected_commits(self) -> int:
        return sum(one.error is not None for life in self.lives for one in life.commits)

    def owners(self) -> dict[int, list[str]]:
        owners: dict[int, list[str]] = {}
        for life in self.lives:
            for one in life.owned():
                owners.setdefault(one.partition, []).append(life.name)
        return owners

    def problems(self) -> list[str]:
        return [*self._conflicts(), *self._commits_of_others()]

    def _conflicts(self) -> list[str]:
        """Returns pairs of members that owned a partition at the same time."""
        found = []
        by_partition: dict[int, list[tuple[Life, Tenure]]] = {}
        tenures = [(life, tenure) for life in self.lives for tenure in life.tenures]
        for life, tenure in sorted(tenures, key=lambda pair: pair[1].begin):
            if life.over(tenure) <= tenure.begin:
                continue  # The member received the assignment after its session.
            for other, earlier in by_partition.setdefault(tenure.partition, []):
                if other is life or other.over(earlier) <= tenure.begin:
                    continue
                if other.has_crossed(earlier, tenure.begin):
                    self.crossed += 1
                else:
                    found.append(f"{life.name} got what {other.name} owned: {tenure}, {earlier}, {other.freezes}")
            by_partition[tenure.partition].append((life, tenure))
        return found

    def _commits_of_others(self) -> list[str]:
        """Returns commits that the coordinator accepted from a member while another member owned the partition."""
        found = []
        for life in self.lives:
            for commit in life.commits:
                for partition in commit.partitions if commit.error is None else ():
                    found += [
                        f"{life.name} committed what {other.name} owned: {commit}, {tenure}"
                        for other in self.lives
                        if other is not life
                        for tenure in other.tenures
                        if tenure.partition == partition and _covers(other, tenure, commit)
                    ]
        return found


def _covers(life: Life, tenure: Tenure, commit: Commit) -> bool:
    return tenure.begin <= commit.began and commit.reported <= life.over(tenure)
