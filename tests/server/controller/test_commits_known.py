"""Whether the published image has what was committed some time ago: what deletes by it must not have an old one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from odradek.server.controller.driver import QuorumDriver

AGO_MS = 5_000


def driver(*, published: int = 10, caught_up: bool = True, leads: bool = False, silent_ms: int | None = 0) -> Any:
    """A driver that has replayed ten records. `silent_ms`: since the leader's last response; None for the only node."""
    made = QuorumDriver.__new__(QuorumDriver)
    raft = None if silent_ms is None else SimpleNamespace(ms_since_fetch=lambda: silent_ms)
    made._member = SimpleNamespace(raft=raft, is_caught_up=caught_up, leads=leads)  # type: ignore[assignment]
    made._images = SimpleNamespace(end_offset=published, committed_offset=10)  # type: ignore[assignment]
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
