"""Whether the published image has what was committed some time ago: what deletes by it must not have an old one."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.metadata.image import EMPTY_IMAGE

from tests.server.harness.nodes import node_of
from tests.server.harness.noted_commits import NotedCommits
from tests.server.harness.quorum_drivers import Drive
from tests.server.harness.raft_engine import raft_of
from tests.server.harness.scripted_engine import ScriptedEngine

AGO_MS = 5_000


def driver(*, published: int = 10, caught_up: bool = True, leads: bool = False, silent_ms: int | None = 0) -> Drive:
    """A driver that has replayed ten records. `silent_ms`: since the leader's last response; None for the only node."""
    raft = None
    if silent_ms is not None:
        raft = raft_of(now_ms=lambda: silent_ms)
        raft.last_fetched_ms = 0
    engine = ScriptedEngine(leads=leads, is_caught_up=caught_up)
    made = Drive(node_of(), NotedCommits(EMPTY_IMAGE, offset=10), engine, raft)
    made.is_published_until(published)
    return made


@pytest.mark.parametrize(
    "state", [{}, {"silent_ms": AGO_MS}, {"silent_ms": None}, {"leads": True, "silent_ms": 99_999}]
)
def test_image_of_a_node_that_follows_the_quorum_is_new(state: dict[str, Any]) -> None:
    assert driver(**state).has_commits_until(AGO_MS)


@pytest.mark.parametrize(
    "state",
    [{"silent_ms": AGO_MS + 1}, {"published": 9}, {"caught_up": False}, {"leads": True, "caught_up": False}],
)
def test_image_of_a_node_without_the_quorum_or_behind_it_is_not(state: dict[str, Any]) -> None:
    assert not driver(**state).has_commits_until(AGO_MS)
