"""The roles of a quorum replica, their meaning and their transitions.

```
                          a higher epoch is received, in any role
                                        |
                                        v
              election timeout     +------------+   a leader is known
            +--------------------- | Unattached | ----------------------+
            |                      +------------+                       |
            v                            ^ lost, no leader known        v
      +-------------+ -------------------+                        +----------+
      | Prospective | -- lost or late, a leader was known ------> | Follower |
      +-------------+ <-- fetch timeout ------------------------- +----------+
        |        ^                                                      ^
        | most   | lost, or election timeout                            | a leader is known
        v        |                                                      |
      +-------------+ --------------------------------------------------+
      |  Candidate  | -- most vote for it --> Leader -- resigns --> Resigned -- election timeout --> Unattached,
      +-------------+                                                                                next epoch
```

- Unattached: has an epoch and possibly a vote in it, but no leader; waits for a leader, or for its election
  timeout.
- Prospective: asks whether it would be elected, without raising the epoch (pre-vote, KIP-996). So a node that was
  partitioned from the network returns without disrupting a working quorum.
- Candidate: has started an epoch, voted for itself, and requests votes.
- Leader: answers fetches, and commits what a majority has. Resigns when a majority has not fetched for too long
  (check-quorum), when it is stopped, and when it is no longer a voter.
- Follower: fetches from the leader of the epoch.
- Resigned: has led this epoch and does not lead it again; tells the voters to elect another leader.
- An observer is a replica that is not a voter. It is Unattached or a Follower, and has no election timeout. Without
  a
  response from the leader it asks another voter. The voter set decides whether a replica is an observer, and may
  change at any time.

Epochs never decrease. Within one epoch a vote, once given, stays, through all roles.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Union

from ...protocol.node_ids import NO_NODE
from .log import SnapshotId
from .voters import ReplicaKey, Tally, Voter

#: The deadline of a timer that is not set.
NEVER = 1 << 62


@dataclass(slots=True)
class Unattached:
    epoch: int
    voted: ReplicaKey | None = None
    leader_id: int = NO_NODE
    election_deadline: int = NEVER


@dataclass(slots=True)
class Prospective:
    epoch: int
    tally: Tally
    voted: ReplicaKey | None = None
    leader_id: int = NO_NODE
    election_deadline: int = NEVER


@dataclass(slots=True)
class Candidate:
    epoch: int
    tally: Tally
    voted: ReplicaKey
    leader_id: int = NO_NODE
    election_deadline: int = NEVER


@dataclass(slots=True)
class Follower:
    epoch: int
    leader_id: int
    voted: ReplicaKey | None = None
    fetch_deadline: int = NEVER
    #: The leader has responded, so pre-vote requests are rejected: it is alive.
    has_fetched: bool = False
    #: The snapshot that is being fetched instead of the log, and the position reached.
    snapshot: SnapshotId | None = None
    snapshot_position: int = 0
    #: The time before which this voter's addresses are not sent to the leader.
    update_voter_at: int = 0
    #: This static voter has described itself to the leader.
    is_described: bool = False


@dataclass(slots=True)
class Progress:
    """The leader's view of another replica."""

    key: ReplicaKey
    end_offset: int = 0
    last_fetch_ms: int = -1
    #: The last time when it had everything that the leader had at its previous fetch.
    last_caught_up_ms: int = -1
    leader_end_at_last_fetch: int = -1


@dataclass(slots=True)
class Leader:
    epoch: int
    voted: ReplicaKey
    leader_id: int
    epoch_start_offset: int
    granting: tuple[int, ...] = ()
    #: By node id and directory id.
    progress: dict[ReplicaKey, Progress] = field(default_factory=dict)
    #: The synced end offset of the leader's own log.
    synced_offset: int = 0
    #: A record of this epoch is committed. Only then is the high watermark known (KIP-595), and voters may change.
    has_committed: bool = False
    check_quorum_deadline: int = NEVER
    #: Voters that have fetched since the deadline was set.
    fetched_voters: set[int] = field(default_factory=set)
    #: The time when BeginQuorumEpoch is due, by voter.
    begin_at: dict[int, int] = field(default_factory=dict)
    #: The descriptions received from static voters, see voter_changes.py.
    described: dict[int, Voter] = field(default_factory=dict)


@dataclass(slots=True)
class Resigned:
    epoch: int
    voted: ReplicaKey | None
    leader_id: int
    #: The preferred successors, best first.
    preferred: tuple[ReplicaKey, ...] = ()
    #: Voters that have not acknowledged the resignation.
    unacknowledged: set[int] = field(default_factory=set)
    election_deadline: int = NEVER


Role = Union[Unattached, Prospective, Candidate, Follower, Leader, Resigned]


#: The valid transitions. A missing pair is a bug.
MAY_FOLLOW: dict[type[Role], frozenset[type[Role]]] = {
    Unattached: frozenset({Unattached, Prospective, Follower}),
    Prospective: frozenset({Unattached, Prospective, Candidate, Follower}),
    Candidate: frozenset({Unattached, Prospective, Leader, Follower}),
    Follower: frozenset({Unattached, Prospective, Follower}),
    Leader: frozenset({Unattached, Follower, Resigned}),
    Resigned: frozenset({Unattached, Prospective, Follower}),
}
