"""The driver of a quorum's node that has not been started, with the parts that a test sets."""

from __future__ import annotations

from typing import Any

from odradek.server.access.subsystem import AccessSubsystem
from odradek.server.controller.driver import OtherNodes, QuorumDriver
from odradek.server.controller.image_publishing import ImagePublisher
from odradek.server.controller.raft import QuorumRaft
from odradek.server.runtime.lazy import Lazy
from odradek.server.runtime.node import Node

from tests.server.harness.noted_commits import NotedCommits
from tests.server.harness.noted_peers import NotedPeers
from tests.server.harness.own_endpoints import registration_of
from tests.server.harness.scripted_engine import ScriptedEngine


class Drive(QuorumDriver):
    """A driver that has replayed `commits`. `engine`: commits what is appended. It publishes nothing."""

    def __init__(self, node: Node, commits: NotedCommits, engine: ScriptedEngine, raft: QuorumRaft | None) -> None:
        def unexpected(*arguments: Any, **client: Any) -> None:
            raise AssertionError(arguments)

        others = OtherNodes(Lazy(NotedPeers), unexpected, lambda: None)
        no_publisher: ImagePublisher = None  # type: ignore[assignment]
        super().__init__(
            node, registration_of(node.config), others, AccessSubsystem(node), no_publisher, lambda request: None
        )
        self.engine = engine
        self._images._commits = commits
        self._member.engine, self._member.raft = engine, raft

    def is_published_until(self, end_offset: int) -> None:
        self._images.end_offset = end_offset

    def is_led_by(self, leader_id: int) -> None:
        leader = self._known_leader.leader
        self._known_leader.leader = leader._replace(id=leader_id)

    def committed_now(self) -> object:
        return self._committed_now()
