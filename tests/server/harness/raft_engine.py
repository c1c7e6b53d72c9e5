"""The Raft engine of a node, whose replica and log a test sets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from odradek.replication.quorum.voters import VoterSet
from odradek.server.controller.quorum_requests import QuorumEndpoints, QuorumSender
from odradek.server.controller.raft import QuorumRaft
from odradek.server.runtime.lazy import Lazy

from tests.server.harness.nodes import node_of
from tests.server.harness.noted_peers import NotedPeers
from tests.server.harness.scripted_replica import ScriptedReplica
from tests.server.harness.scripted_replicated_log import ScriptedReplicatedLog

_TIMEOUT_MS = 700
_NOWHERE = Path("/")
NO_VOTERS = VoterSet.of(())


def raft_of(
    voters: VoterSet = NO_VOTERS, endpoints: QuorumEndpoints | None = None, *, now_ms: Callable[[], int] = lambda: 0
) -> QuorumRaft:
    """Returns the engine of a replica among these voters. Its replica and its log are scripted."""

    def unexpected(*arguments: Any) -> None:
        raise AssertionError(arguments)

    replica: Any = ScriptedReplica(voters)
    replicated: Any = ScriptedReplicatedLog(_NOWHERE)
    endpoints = endpoints or QuorumEndpoints(0, "cluster", lambda: voters, (), {})
    sender = QuorumSender(Lazy(NotedPeers), endpoints, _TIMEOUT_MS)
    return QuorumRaft(node_of(), replicated, replica, sender, now_ms, unexpected, unexpected)
