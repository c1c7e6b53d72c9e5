"""A node's part in the quorum, before its start or with an engine that the test sets."""

from __future__ import annotations

from typing import Any

from odradek.server.controller.commit_engine import CommitEngine
from odradek.server.controller.metadata_log import QuorumLog
from odradek.server.controller.quorum_membership import QuorumMembership
from odradek.server.controller.raft import QuorumRaft
from odradek.server.runtime.lazy import Lazy
from odradek.server.runtime.node import Node

from tests.server.harness.nodes import node_of
from tests.server.harness.noted_peers import NotedPeers
from tests.server.harness.own_endpoints import registration_of


def membership_of(
    node: Node | None = None,
    *,
    engine: CommitEngine | None = None,
    quorum_log: QuorumLog | None = None,
    raft: QuorumRaft | None = None,
) -> QuorumMembership:
    node = node or node_of()

    def unexpected(*arguments: Any) -> None:
        raise AssertionError(arguments)

    member = QuorumMembership(
        node,
        registration_of(node.config),
        Lazy(NotedPeers),
        committed=unexpected,
        changed=unexpected,
        replaced=unexpected,
        failed=unexpected,
    )
    if quorum_log is not None:
        member.opened(quorum_log)
    member.engine, member.raft = engine, raft
    return member
