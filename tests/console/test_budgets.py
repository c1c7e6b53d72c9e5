"""Budgets of requests that wait for each other: a user's share is divided when they begin to work, not when they come."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from odradek.console import budgets
from odradek.console.budgets import PAGE_CPU_S, Account, Budget, Budgets, Busy

_REQUESTS, _SHARE_S = 8, 10.0


class Waiting:
    """A request whose viewer stays."""

    async def receive(self) -> dict[str, Any]:
        await anyio.sleep_forever()
        return {}


def limits_of(work: Callable[[Budget], None]) -> tuple[list[float], int]:
    """Runs requests of one user at once. Returns the limits that they got, and the number of those that got none."""
    found: list[float] = []
    refused: list[Busy] = []
    lock = threading.Lock()

    async def run() -> None:
        served = Budgets()

        def noted(budget: Budget) -> None:
            with lock:
                found.append(budget._cpu_s)
            work(budget)

        async def one() -> None:
            request: Any = Waiting()
            try:
                await served.run_records(request, "alice", PAGE_CPU_S, noted)
            except Busy as error:
                refused.append(error)

        async with anyio.create_task_group() as group:
            for _ in range(_REQUESTS):
                group.start_soon(one)

    anyio.run(run)
    return found, len(refused)


def test_requests_that_wait_get_what_those_before_them_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "USER_CPU_S", _SHARE_S)
    now = threading.local()

    def thread_time() -> float:
        now.calls = getattr(now, "calls", 0) + 1
        return now.calls * PAGE_CPU_S  # each look at the clock is later by all that a page has

    monkeypatch.setattr(budgets.time, "thread_time", thread_time)
    monkeypatch.setattr(Budget, "check", lambda self: None)
    limits, refused = limits_of(lambda budget: None)
    assert len(limits) + refused == _REQUESTS and refused >= _REQUESTS - 3, limits
    assert sum(limits) <= _SHARE_S + PAGE_CPU_S and max(limits) <= PAGE_CPU_S


def test_requests_that_spend_nothing_all_get_a_whole_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "USER_CPU_S", 2 * PAGE_CPU_S)
    limits, refused = limits_of(lambda budget: None)
    assert refused == 0 and all(one > PAGE_CPU_S - 1 for one in limits), limits


def test_requests_at_work_share_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "USER_CPU_S", _SHARE_S)
    account = Account()
    assert [account.take(PAGE_CPU_S), account.take(PAGE_CPU_S)] == [PAGE_CPU_S, _SHARE_S - PAGE_CPU_S]
    with pytest.raises(Busy):
        account.take(PAGE_CPU_S)
    account.spend(1.0, PAGE_CPU_S)
    assert account.left_s() == _SHARE_S - 1 and account.take(PAGE_CPU_S) == PAGE_CPU_S - 1


def test_refused_request_is_refused_at_once_where_all_is_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "USER_CPU_S", 0.0)
    assert limits_of(lambda budget: pytest.fail("it ran")) == ([], _REQUESTS)
