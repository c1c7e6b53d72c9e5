"""Work on a call that takes several turns of the loop."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.server.network.work_in_turns import work_in_turns
from odradek.server.runtime.turn_budget import SLICE_S, TurnWatch
from odradek.server.runtime.turns import Turns

from tests.server.harness.noted_calls import NotedCalls
from tests.server.harness.noted_connection import NotedConnection
from tests.server.harness.replicas import eventually

STEP_S = SLICE_S / 4


async def test_work_that_ends_in_a_turn_begins_more_within_the_same_slice() -> None:
    """Each part of a large request has parts of its own: together they hold the loop for one slice."""
    now_s = 0.0
    turns = Turns(TurnWatch(lambda: now_s))
    call = NotedCalls(NotedConnection(turns=turns)).call(MetadataRequest(), 9)
    slices_s: list[float] = []
    run, ended = turns._turn, [False]

    def timed_turn() -> None:
        began_s = now_s
        run()
        slices_s.append(now_s - began_s)

    turns._turn = timed_turn  # type: ignore[method-assign]

    def steps(count: int) -> Generator[object, None, int]:
        nonlocal now_s
        for _ in range(count):
            now_s += STEP_S
            yield
        return count

    def third(_: Any) -> None:
        ended[0] = True

    def second(_: Any) -> None:
        work_in_turns(call, steps(7), third)

    work_in_turns(call, steps(7), second)
    await eventually(lambda: ended[0])
    turns.stop()
    assert sum(slices_s) == pytest.approx(14 * STEP_S - SLICE_S), "the first slice was that of the call"
    assert max(slices_s) < SLICE_S + 1.5 * STEP_S, "a step may exceed the slice"
