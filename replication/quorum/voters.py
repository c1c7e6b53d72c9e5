"""The voters of the quorum and their majorities.

A voter is a node with one directory: the same id with another disk is another voter (KIP-853). Static voters
(`controller.quorum.voters`, kraft.version 0) have no directory id and match by node id alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ...protocol.internal.control_records import Endpoint, KRaftVersionFeature, VotersRecord, VotersVoter
from ...protocol.uuids import ZERO_UUID

#: The offset of voters that come from the configuration and not from the log.
BEFORE_THE_LOG = -1


class ReplicaKey(NamedTuple):
    id: int
    directory_id: bytes = ZERO_UUID

    def matches(self, other: ReplicaKey) -> bool:
        """Returns whether both are the same replica, as far as both ids are known."""
        if self.id != other.id:
            return False
        return ZERO_UUID in (self.directory_id, other.directory_id) or self.directory_id == other.directory_id


class Address(NamedTuple):
    """A listener of a controller."""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Voter:
    key: ReplicaKey
    addresses: tuple[Address, ...] = ()
    min_kraft_version: int = 0
    max_kraft_version: int = 1


@dataclass(frozen=True, slots=True)
class VoterSet:
    """An immutable set of voters, by node id."""

    voters: Mapping[int, Voter] = field(default_factory=dict)

    @classmethod
    def of(cls, voters: Iterable[Voter]) -> VoterSet:
        return cls({voter.key.id: voter for voter in sorted(voters, key=lambda voter: voter.key.id)})

    def __contains__(self, key: ReplicaKey) -> bool:
        voter = self.voters.get(key.id)
        return voter is not None and voter.key.matches(key)

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(self.voters)

    @property
    def majority(self) -> int:
        return len(self.voters) // 2 + 1

    def is_only(self, key: ReplicaKey) -> bool:
        return len(self.voters) == 1 and key in self

    def replicated_offset(self, ends: Mapping[int, int]) -> int:
        """Returns the largest offset below which a majority has everything. `ends` by node id, 0 for missing ids.

        Without any voters nothing is replicated.
        """
        if not self.voters:
            return 0
        return sorted((ends.get(voter, 0) for voter in self.voters), reverse=True)[self.majority - 1]

    def with_voter(self, voter: Voter) -> VoterSet:
        return VoterSet.of({**self.voters, voter.key.id: voter}.values())

    def without(self, voter_id: int) -> VoterSet:
        return VoterSet.of(voter for id, voter in self.voters.items() if id != voter_id)

    def has_overlapping_majority(self, other: VoterSet) -> bool:
        """Returns whether any majority of one set shares a voter with any majority of the other: at most one voter
        differs.
        """
        mine, theirs = set(self.voters), set(other.voters)
        return len(mine - theirs) + len(theirs - mine) <= 1

    def to_record(self) -> VotersRecord:
        return VotersRecord(version=0, voters=[_to_record(voter) for voter in self.voters.values()])

    @classmethod
    def from_record(cls, record: VotersRecord) -> VoterSet:
        return cls.of(_from_record(voter) for voter in record.voters)


def _to_record(voter: Voter) -> VotersVoter:
    return VotersVoter(
        voter_id=voter.key.id,
        voter_directory_id=voter.key.directory_id,
        endpoints=[Endpoint(name=a.name, host=a.host, port=a.port) for a in voter.addresses],
        kraft_version_feature=KRaftVersionFeature(
            min_supported_version=voter.min_kraft_version, max_supported_version=voter.max_kraft_version
        ),
    )


def _from_record(voter: VotersVoter) -> Voter:
    return Voter(
        ReplicaKey(voter.voter_id, voter.voter_directory_id),
        tuple(Address(e.name, e.host, e.port) for e in voter.endpoints),
        voter.kraft_version_feature.min_supported_version,
        voter.kraft_version_feature.max_supported_version,
    )


@dataclass(slots=True)
class Tally:
    """The votes of one election among `voters`."""

    voters: VoterSet
    granted: set[int] = field(default_factory=set)
    rejected: set[int] = field(default_factory=set)

    def record(self, voter_id: int, is_granted: bool) -> None:
        """Records the first vote of a voter; later ones and those of non-voters are ignored."""
        if voter_id in self.voters.voters and voter_id not in self.granted | self.rejected:
            (self.granted if is_granted else self.rejected).add(voter_id)

    @property
    def is_won(self) -> bool:
        return len(self.granted) >= self.voters.majority

    @property
    def is_lost(self) -> bool:
        """Returns whether a majority can no longer be reached."""
        return len(self.voters.voters) - len(self.rejected) < self.voters.majority

    @property
    def unanswered(self) -> list[int]:
        return [voter for voter in self.voters.ids if voter not in self.granted and voter not in self.rejected]


class VoterHistory:
    """The voter sets in the log, by offset. The last one is effective, committed or not (KIP-853)."""

    __slots__ = ("_entries", "_versions", "kraft_version")

    def __init__(self, static: VoterSet, kraft_version: int = 0) -> None:
        self._entries: list[tuple[int, VoterSet]] = [(BEFORE_THE_LOG, static)]
        self._versions: list[tuple[int, int]] = [(BEFORE_THE_LOG, kraft_version)]
        self.kraft_version = kraft_version

    @property
    def current(self) -> VoterSet:
        return self._entries[-1][1]

    @property
    def previous(self) -> VoterSet:
        """Returns the set before the current one; the current one if there is no other."""
        return self._entries[-2 if len(self._entries) > 1 else -1][1]

    @property
    def current_offset(self) -> int:
        """Returns the offset of the current set in the log, or BEFORE_THE_LOG."""
        return self._entries[-1][0]

    def at(self, end_offset: int) -> tuple[VoterSet, int]:
        """Returns the voter set and the kraft.version of the log below `end_offset`."""
        entry = next(voters for offset, voters in reversed(self._entries) if offset < max(end_offset, 0))
        return entry, next(version for offset, version in reversed(self._versions) if offset < max(end_offset, 0))

    def add(self, offset: int, voters: VoterSet) -> None:
        assert offset > self.current_offset, f"voters at {offset}, after those at {self.current_offset}"
        self._entries.append((offset, voters))

    def set_kraft_version(self, offset: int, version: int) -> None:
        self._versions.append((offset, version))
        self.kraft_version = version

    def truncate(self, end_offset: int) -> None:
        """Drops the sets at and above `end_offset`, where the log ends now."""
        while len(self._entries) > 1 and self._entries[-1][0] >= end_offset:
            self._entries.pop()
        while len(self._versions) > 1 and self._versions[-1][0] >= end_offset:
            self._versions.pop()
        self.kraft_version = self._versions[-1][1]

    def forget(self) -> None:
        """Drops the sets of the log, which a snapshot replaces. The configured voters apply until those of the
        snapshot are read.
        """
        self.truncate(BEFORE_THE_LOG + 1)
