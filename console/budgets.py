"""Budgets of work: a request ends when its viewer leaves or its time of CPU is spent, and a user has a share of it.

Requests that read records have threads of their own, of which a user has a part; those of other pages are never waited for.
"""

from __future__ import annotations

import contextlib
import math
import sys
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from types import FrameType
from typing import TypeVar

import anyio
import anyio.to_thread
from anyio import CapacityLimiter
from starlette.requests import Request

from ..client.user_errors import UserError

T = TypeVar("T")

#: CPU seconds of one request: of a page, and of a download, which reads a hundred thousand records.
PAGE_CPU_S, DOWNLOAD_CPU_S = 6.0, 30.0
#: CPU seconds of a user's requests in a window.
USER_CPU_S, _WINDOW_S = 60.0, 60.0
#: Threads of pages, and of requests that read records; of the latter, those of one user.
PAGE_THREADS, RECORD_THREADS, USER_THREADS = 8, 6, 2
#: Requests of one user that wait for a thread.
_MOST_WAITING = 16
#: Users whose work is remembered.
_MOST_USERS = 1000
#: Calls of functions between two looks at the clock, while a filter runs.
_CALLS = 200


class Stopped(UserError):
    """The work has to end: its viewer has left, or its CPU time is spent."""


class Busy(UserError):
    """A user has used up the CPU time, or has too many requests."""


def used_up() -> Busy:
    return Busy("you have used up the CPU time of a minute: wait, then search a shorter range")


class Budget:
    """The CPU time of one request. `check` is called by the thread that works."""

    def __init__(self, cpu_s: float) -> None:
        self._cpu_s = cpu_s
        self._began: float | None = None
        self._calls = 0
        #: Set when the viewer has left, by another thread.
        self.is_abandoned = False

    @contextlib.contextmanager
    def running(self, most_s: float = math.inf) -> Iterator[None]:
        """Counts the CPU time of this thread. `most_s`: what is left for the work when it begins."""
        self._cpu_s = min(self._cpu_s, most_s)
        self._began = time.thread_time()
        yield

    @property
    def used_s(self) -> float:
        return 0.0 if self._began is None else time.thread_time() - self._began

    @property
    def is_nearly_spent(self) -> bool:
        """Whether a page should end with what it has."""
        return self.used_s > self._cpu_s / 2

    def check(self) -> None:
        """Raises Stopped."""
        if self.is_abandoned:
            raise Stopped("the viewer has left")
        if self.used_s > self._cpu_s:
            raise Stopped(
                f"the search took more than {self._cpu_s:g} s of CPU time: use a shorter range, or a simpler filter"
            )

    @contextlib.contextmanager
    def enforced(self) -> Iterator[None]:
        """Raises Stopped within any work of Python's inside, such as a filter on one record, at a call of a function."""
        previous = sys.getprofile()
        sys.setprofile(self._called)
        try:
            yield
        finally:
            sys.setprofile(previous)

    def _called(self, frame: FrameType, event: str, argument: object) -> None:
        self._calls += 1
        if self._calls >= _CALLS:
            self._calls = 0
            self.check()


#: The budget of work without a viewer, as in tests.
UNLIMITED = Budget(math.inf)


class Account:
    """The work of one user in the last minute, and the requests at work."""

    def __init__(self) -> None:
        self.threads = CapacityLimiter(USER_THREADS)
        self.waiting = 0
        self._spent: deque[tuple[float, float]] = deque()
        #: The sum of the parts that are set aside for requests at work.
        self._taken = 0.0
        self._lock = threading.Lock()

    def left_s(self) -> float:
        """Returns the part of the share that no request has spent."""
        with self._lock:
            return self._left_s()

    def _left_s(self) -> float:
        while self._spent and time.monotonic() - self._spent[0][0] > _WINDOW_S:
            self._spent.popleft()
        return USER_CPU_S - sum(seconds for _, seconds in self._spent)

    def take(self, most_s: float) -> float:
        """Sets a request's part aside, up to `most_s`. Raises Busy where nothing is left."""
        with self._lock:
            taken = min(most_s, self._left_s() - self._taken)
            if taken <= 0:
                raise used_up()
            self._taken += taken
            return taken

    def spend(self, seconds: float, taken: float = 0.0) -> None:
        """Notes what a request took. `taken`: the part that was set aside for it."""
        with self._lock:
            self._taken -= taken
            self._spent.append((time.monotonic(), seconds))


class Budgets:
    """The threads of a console, and the accounts of its users."""

    def __init__(self) -> None:
        self._pages = CapacityLimiter(PAGE_THREADS)
        self._records = CapacityLimiter(RECORD_THREADS)
        self._accounts: dict[str, Account] = {}

    async def run_page(self, work: Callable[[Budget], T]) -> T:
        return await anyio.to_thread.run_sync(work, Budget(math.inf), limiter=self._pages)

    async def run_records(self, request: Request, user: str, cpu_s: float, work: Callable[[Budget], T]) -> T | None:
        """Runs work that reads records in a thread, as soon as the user may have one. Returns None if the viewer has left.
        Raises Busy.
        """
        account = self._account(user)
        if account.left_s() <= 0 or account.waiting >= _MOST_WAITING:
            raise used_up()
        budget = Budget(cpu_s)

        def run() -> T:
            # Taken now: the requests before this one may have spent what was left when it came.
            taken = account.take(cpu_s)
            with budget.running(taken):
                try:
                    budget.check()  # the viewer may have left while this waited
                    return work(budget)
                finally:
                    account.spend(budget.used_s, taken)

        account.waiting += 1
        try:
            return await _until_left(request, budget, lambda: self._in_turn(account, run))
        finally:
            account.waiting -= 1

    async def _in_turn(self, account: Account, run: Callable[[], T]) -> T:
        async with account.threads:
            return await anyio.to_thread.run_sync(run, limiter=self._records)

    def _account(self, user: str) -> Account:
        found = self._accounts.pop(user, None) or Account()
        self._accounts[user] = found  # the last one used is the last to go
        if len(self._accounts) > _MOST_USERS:
            idle = next((name for name, one in self._accounts.items() if not one.waiting), user)
            self._accounts.pop(idle)
        return found


async def _until_left(request: Request, budget: Budget, work: Callable[[], Awaitable[T]]) -> T | None:
    """Returns what the work returns, or None once the viewer has left: work in a thread notices by its budget."""
    made: list[T] = []
    failed: list[Exception] = []
    async with anyio.create_task_group() as group:

        async def watch() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass
            budget.is_abandoned = True
            group.cancel_scope.cancel()  # work that waits for its turn; a thread at work is waited for

        async def do() -> None:
            try:
                made.append(await work())
            except Exception as error:
                failed.append(error)
            group.cancel_scope.cancel()

        group.start_soon(watch)
        group.start_soon(do)
    if budget.is_abandoned:
        return None
    if failed:
        raise failed[0]
    return made[0]
