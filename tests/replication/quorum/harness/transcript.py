"""A transcript of a quorum: commands, and the messages and effects that follow."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Any

from odradek.protocol.errors import ErrorCode
from odradek.replication.quorum.core import QuorumConfig
from odradek.replication.quorum.effects import (
    Appended,
    ElectionState,
    Flush,
    LeaderGone,
    PeerRequest,
    PeerResponse,
    RaiseKRaftVersion,
    Reply,
    Resign,
    Send,
    Synced,
    WriteState,
)
from odradek.replication.quorum.replica import QuorumReplica, Remembered
from odradek.replication.quorum.voters import Address, ReplicaKey, Voter, VoterHistory, VoterSet
from odradek.replication.quorum.wire import partition_of, response_of

from tests.replication.quorum.quorum_simulator import voter
from tests.replication.quorum.toy_log import ToyLog

#: After the longest election and fetch timeouts.
LATE_MS = 2_500


SHOWN = (
    "replica_epoch",
    "pre_vote",
    "vote_granted",
    "leader_id",
    "leader_epoch",
    "fetch_offset",
    "high_watermark",
    "voter_id",
)


class Transcript:
    def __init__(self) -> None:
        self.replicas: dict[int, QuorumReplica] = {}
        self.logs: dict[int, ToyLog] = {}
        self.states: dict[int, ElectionState] = {}
        self.now = 0
        self.apart: set[int] = set()
        self.wire: deque[tuple[int, int, Any]] = deque()
        self.out: list[str] = []

    def run(self, text: str) -> str:
        for line in text.splitlines():
            if line.startswith("> "):
                word, *numbers = line[2:].split()
                self.out.append(line)
                getattr(self, word)(*map(int, numbers))
            elif line.startswith("#") or not line.strip():
                self.out.append(line)
        return "\n".join(self.out) + "\n"

    def voters(self, *ids: int) -> None:
        for id in ids:
            self.begin(id, VoterHistory(VoterSet.of(map(voter, ids)), 1), QuorumConfig("cluster"))

    def static(self, *ids: int) -> None:
        by_configuration = VoterSet.of(Voter(ReplicaKey(id), voter(id).addresses) for id in ids)
        for id in ids:
            self.begin(id, VoterHistory(by_configuration), QuorumConfig("cluster", addresses=voter(id).addresses))

    def begin(self, id: int, history: VoterHistory, config: QuorumConfig) -> None:
        self.logs[id], self.states[id] = ToyLog(), ElectionState()
        key, rng = voter(id).key, random.Random(id)
        self.replicas[id] = QuorumReplica(key, config, self.logs[id], history, Remembered(self.states[id]), rng, 0)
        self.effects(id)

    def again(self, id: int, *addresses: Address) -> None:
        key, history, rng = voter(id).key, self.replicas[id].voters, random.Random(id)
        config, state = QuorumConfig("cluster", addresses=addresses), self.states[id]
        self.replicas[id] = QuorumReplica(key, config, self.logs[id], history, Remembered(state), rng, self.now)
        self.effects(id)

    def moved(self, id: int) -> None:
        self.again(id, Address("CONTROLLER", f"moved{id}", 9093))

    def where(self) -> None:
        for id, replica in self.replicas.items():
            voters = [f"{v.key.id}@{v.addresses[0].host}" for v in replica.voter_set.voters.values()]
            self.out.append(f"  {id} knows {' '.join(voters)}")

    def late(self, id: int) -> None:
        self.now += LATE_MS
        self.replicas[id].expire(self.now)
        self.effects(id)

    def resign(self, id: int) -> None:
        self.handle(id, Resign())

    def upgrade(self, id: int) -> None:
        error_text = self.replicas[id].kraft_upgrade_error(1)
        if error_text is None:
            self.handle(id, RaiseKRaftVersion(1))
        else:
            self.out.append(f"  {id} refuses: {error_text}")

    def who(self) -> None:
        for id, replica in self.replicas.items():
            keys = [f"{v.key.id}:{v.key.directory_id[:1].hex()}" for v in replica.voter_set.voters.values()]
            self.out.append(f"  {id} kraft.version={replica.kraft_version} voters {' '.join(keys)}")

    def gone(self, id: int, leader: int) -> None:
        self.handle(id, LeaderGone(leader))

    def wait(self, ms: int) -> None:
        self.now += ms
        for id, replica in self.replicas.items():
            if id not in self.apart:
                replica.expire(self.now)
                self.effects(id)

    def append(self, id: int) -> None:
        self.logs[id].append(self.replicas[id].epoch, "record")
        self.handle(id, Appended(self.replicas[id].epoch, self.logs[id].end_offset))

    def cut(self, id: int) -> None:
        self.apart.add(id)

    def mend(self) -> None:
        self.apart.clear()

    def deliver(self) -> None:
        for _ in range(200):
            if not self.wire:
                break
            source, target, message = self.wire.popleft()
            if not {source, target} & self.apart:
                self.handle(target, message)
        for id, replica in self.replicas.items():
            role = type(replica.role).__name__
            ends = f"end={self.logs[id].end_offset} high_watermark={replica.high_watermark}"
            self.out.append(f"  {id} {role} epoch={replica.epoch} {ends}")

    def handle(self, id: int, message: Any) -> None:
        self.replicas[id].handle(message, self.now)
        self.effects(id)

    def effects(self, id: int) -> None:
        for effect in self.replicas[id].take():
            if isinstance(effect, WriteState):
                self.states[id] = state = effect.state
                self.out.append(
                    f"  {id} writes epoch={state.leader_epoch} leader={state.leader_id} voted={state.voted_id}"
                )
            elif isinstance(effect, Flush):
                self.logs[id].synced_offset = self.logs[id].end_offset
                self.handle(id, Synced(self.logs[id].synced_offset))
            elif isinstance(effect, Send):
                self.out.append(
                    f"  {id} -> {effect.node} {self.shown(effect.request, about(effect.request, partition_of))}"
                )
                token = (id, effect.node, effect.correlation)
                self.wire.append((id, effect.node, PeerRequest(token, effect.request)))
            elif isinstance(effect, Reply):
                asker, node, correlation = effect.token  # type: ignore[misc]
                self.out.append(f"  {id} -> {asker} {self.shown(effect.response, about(effect.response, response_of))}")
                self.wire.append((id, asker, PeerResponse(node, correlation, effect.response)))

    def shown(self, message: Any, part: Any) -> str:
        fields = [f"{name}={getattr(part, name)}" for name in SHOWN if hasattr(part, name)]
        error = getattr(part, "error_code", 0)
        return " ".join([type(message).__name__, *fields, *([ErrorCode(error).name] if error else [])])


def about(message: Any, of_partition: Callable[[Any], Any]) -> Any:
    """Returns the part of a message to show: that for its one partition, or the whole message if it is about a voter."""
    return message if "RaftVoter" in type(message).__name__ else of_partition(message)
