"""The roles of a replica in the quorum, what they mean and which may follow which.

```
                          an epoch above ours is heard of, from any role
                                        |
                                        v
              election timeout     +------------+   a leader is heard of
            +--------------------- | Unattached | ----------------------+
            |                      +------------+                       |
            v                            ^ lost, nobody leads           v
      +-------------+ -------------------+                        +----------+
      | Prospective | -- lost or late, a leader was known ------> | Follower |
      +-------------+ <-- fetch timeout ------------------------- +----------+
        |        ^                                                      ^
        | most   | lost, or election timeout                            | a leader is heard of
        v        |                                                      |
      +-------------+ --------------------------------------------------+
      |  Candidate  | -- most vote for it --> Leader -- steps down --> Resigned -- election timeout --> Unattached,
      +-------------+                                                                                  one epoch on
```

- Unattached: knows the epoch and perhaps for whom it voted in it; waits for a leader, or for its election timeout.
- Prospective: asks whether it would be elected, without an epoch of its own (pre-vote, KIP-996). So a node that was cut off
  comes back without disturbing a quorum that works.
- Candidate: has begun an epoch, voted for itself, and asks for votes.
- Leader: answers fetches, and commits what a majority has. Steps down when a majority has not fetched for long
  (check-quorum), when it is stopped, and when it is no voter any more.
- Follower: fetches from the leader of the epoch.
- Resigned: has led this epoch and does not again; tells the voters to elect another.
- An observer is a replica that is no voter. It is Unattached or a Follower, and has no election timeout: when it does not
  hear of the leader it asks another voter. Which of the two a replica is, is the voters' word and may change any time.

Epochs never go back. Within one epoch a vote, once given, stays, through all roles.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Union

from .log import SnapshotId
from .voters import NOBODY, ReplicaKey, Tally, Voter

#: The deadline of a timer that is not set.
NEVER = 1 << 62


@dataclass(slots=True)
class Unattached:
    epoch: int
    voted: ReplicaKey | None = None
    leader_id: int = NOBODY
    election_deadline: int = NEVER


@dataclass(slots=True)
class Prospective:
    epoch: int
    tally: Tally
    voted: ReplicaKey | None = None
    leader_id: int = NOBODY
    election_deadline: int = NEVER


@dataclass(slots=True)
class Candidate:
    epoch: int
    tally: Tally
    voted: ReplicaKey
    leader_id: int = NOBODY
    election_deadline: int = NEVER


@dataclass(slots=True)
class Follower:
    epoch: int
    leader_id: int
    voted: ReplicaKey | None = None
    fetch_deadline: int = NEVER
    #: The leader has answered: whoever asks for a pre-vote is told that it is alive.
    has_fetched: bool = False
    #: What is being fetched instead of the log, and how far.
    snapshot: SnapshotId | None = None
    snapshot_position: int = 0
    #: Not before then are the voters told where this one is reached.
    update_voter_at: int = 0
    #: A static voter has told this leader who it is.
    is_described: bool = False


@dataclass(slots=True)
class Progress:
    """What a leader knows of another replica."""

    key: ReplicaKey
    end_offset: int = 0
    last_fetch_ms: int = -1
    #: When it last had everything that the leader had at its fetch before.
    last_caught_up_ms: int = -1
    leader_end_at_last_fetch: int = -1


@dataclass(slots=True)
class Leader:
    epoch: int
    voted: ReplicaKey
    leader_id: int
    epoch_start_offset: int
    granting: tuple[int, ...] = ()
    #: By node id and directory.
    progress: dict[ReplicaKey, Progress] = field(default_factory=dict)
    #: Of its own log.
    synced_offset: int = 0
    #: Something of this epoch is committed: only then is the high watermark known (KIP-595), and voters may change.
    has_committed: bool = False
    check_quorum_deadline: int = NEVER
    #: Voters that have fetched since the deadline was set.
    fetched_voters: set[int] = field(default_factory=set)
    #: When BeginQuorumEpoch is due, by voter.
    begin_at: dict[int, int] = field(default_factory=dict)
    #: What static voters have told of themselves, see kraft_version.py.
    described: dict[int, Voter] = field(default_factory=dict)


@dataclass(slots=True)
class Resigned:
    epoch: int
    voted: ReplicaKey | None
    leader_id: int
    #: Whom to follow first, best first.
    preferred: tuple[ReplicaKey, ...] = ()
    #: Voters that have not acknowledged it.
    unacknowledged: set[int] = field(default_factory=set)
    election_deadline: int = NEVER


Role = Union[Unattached, Prospective, Candidate, Follower, Leader, Resigned]

#: What may follow what. A pair that is missing is a bug of ours.
MAY_FOLLOW: dict[type[Role], frozenset[type[Role]]] = {
    Unattached: frozenset({Unattached, Prospective, Follower}),
    Prospective: frozenset({Unattached, Prospective, Candidate, Follower}),
    Candidate: frozenset({Unattached, Prospective, Leader, Follower}),
    Follower: frozenset({Unattached, Prospective, Follower}),
    Leader: frozenset({Unattached, Follower, Resigned}),
    Resigned: frozenset({Unattached, Prospective, Follower}),
}
