"""Work on a call that takes several turns of the loop."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from ..runtime.sliced_work import Done, run_slice

if TYPE_CHECKING:
    from ..runtime.turns import Task, Work
    from .call import Call, CallRoute, RequestDispatch

T = TypeVar("T")
#: A decoder's clock is read once in so many items.
ITEMS_PER_CLOCK = 32


def begin_work(dispatcher: RequestDispatch, route: CallRoute, call: Call, steps: Work) -> Task:
    def failed(failure: Exception) -> None:
        dispatcher.failed_later(call, route, failure)

    task = call.connection.listener.shared.turns.begin(steps, failed)
    if call.observer is not None and call.observer.meter is not None:
        task.spent = partial(call.observer.meter.spent, call)
    task.api, task.version, task.client_id, task.size = route.api.name, route.version, call.client_id, call.size
    return task


def work_in_turns(
    call: Call,
    steps: Generator[object, None, T],
    done: Callable[[T], None],
    failed: Callable[[Exception], None] | None = None,
) -> None:
    """Has a handler's own work done: its first slice now, the rest in turns. `done` gets what comes of it.

    `done` may begin more work. All of it together has one slice in a turn.

    `failed`: called with what a later slice raises, in place of the usual response to a bug.
    """
    turns = call.connection.listener.shared.turns
    end = run_slice(steps, turns.clock, turns.slice_end_s(), sys.maxsize)
    if isinstance(end, Done):
        done(end.result)
        return
    if not call.is_parked:
        call.connection.park(call)
    call.hold_connection()

    def rest() -> Generator[object, None, None]:
        made = yield from steps
        if not call.connection.closed:
            done(made)

    task = begin_work(call.connection.dispatcher, call.route, call, rest())
    if failed is not None:
        task.failed = failed
