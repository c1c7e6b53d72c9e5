"""A node's threads, in named and bounded pools: work for the CPU never queues behind a slow disk, nor the reverse.

A pool is an executor, `await pools.disk.run(function, ...)`, or `pools.disk.run_then(function, done)` where no coroutine
waits. It starts a thread when there is work and no idle thread, up to its size.

When the interpreter exits, CPython 3.12 and later start no more threads. Pools then do the work on the thread that submits
it: an embedded broker that stops at exit still flushes its logs.
"""

from __future__ import annotations

import asyncio
import functools
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, ParamSpec, TypeVar, TypeVarTuple, Unpack

from ... import buggify

#: Batches are decompressed and checked here. These threads share the cores with the loop.
CPU_THREADS = 2
#: Each thread waits for one file at a time: fsync, cold pages, checkpoints. As many as asyncio's own executor has.
DISK_THREADS = min(32, (os.cpu_count() or 1) + 4)
#: The background verification reads one piece at a time, and its verifiers rely on the order of one thread.
SCRUB_THREADS = 1
#: The metadata log has one flush in progress.
METADATA_THREADS = 1

#: A caller that awaits the result through a task of its own adds the next task of the pool some turns later.
_TURNS_TO_ADD_TASKS = 3

P = ParamSpec("P")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


#: Set when functions that the interpreter calls at its exit have begun: the main thread is alive then.
_exit = threading.Event()
#: The threads of a node at most.
MOST_THREADS = CPU_THREADS + DISK_THREADS + METADATA_THREADS + SCRUB_THREADS


def begin_exit() -> None:
    """Notes that the interpreter exits. The first function that is registered for its exit calls it."""
    _exit.set()


def can_start_threads() -> bool:
    """Returns whether the interpreter does not exit yet."""
    return threading.main_thread().is_alive() and not _exit.is_set()


class ThreadPool(ThreadPoolExecutor):
    """An executor that counts its tasks."""

    def __init__(self, name: str, size: int) -> None:
        super().__init__(size, thread_name_prefix=f"odradek-{name}")
        self.name = name
        #: The greatest number of threads.
        self.size = size
        #: The number of tasks that have ended.
        self.completed = 0
        self._counting = threading.Lock()
        self._unfinished: set[Future[Any]] = set()
        #: Results that the loop has not got yet. A cancelled one may still have its thread at work.
        self._awaited: set[asyncio.Future[Any]] = set()

    @property
    def active(self) -> int:
        """The number of tasks that a thread works on."""
        return min(self.size, len(self._unfinished))

    @property
    def queued(self) -> int:
        """The number of tasks that wait for a thread."""
        return max(0, len(self._unfinished) - self.size)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        if not can_start_threads():
            return self._run_here(functools.partial(fn, *args, **kwargs))
        future = super().submit(fn, *args, **kwargs)
        self._unfinished.add(future)
        future.add_done_callback(self._ended)
        return future

    def _run_here(self, function: Callable[[], T]) -> Future[T]:
        """Runs `function` on the caller's thread, after the tasks that threads have: some rely on their order."""
        wait(tuple(self._unfinished))
        future: Future[T] = Future()
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)
        self.completed += 1
        return future

    def start(self, function: Callable[[Unpack[Ts]], T], *args: *Ts) -> asyncio.Future[T]:
        """Runs `function` on a thread. Returns the future of its result, for the loop."""
        loop = asyncio.get_running_loop()
        late_s = 0.0 if buggify.active is None else buggify.active.delay_s(buggify.LATE_DISK_WORK)
        future: asyncio.Future[T] = (
            loop.create_task(self._run_late(late_s, function, *args))
            if late_s
            else loop.run_in_executor(self, function, *args)
        )
        self._awaited.add(future)
        future.add_done_callback(self._awaited.discard)
        return future

    async def _run_late(self, seconds: float, function: Callable[[Unpack[Ts]], T], *args: *Ts) -> T:
        await asyncio.sleep(seconds)
        return await asyncio.get_running_loop().run_in_executor(self, function, *args)

    async def run(self, function: Callable[[Unpack[Ts]], T], *args: *Ts) -> T:
        """Runs `function` on a thread. Returns its result, or raises its exception. A cancelled caller does not end it."""
        return await self.start(function, *args)

    def run_then(self, function: Callable[[], T], done: Callable[[T | BaseException], object]) -> None:
        """Runs `function` on a thread. `done` gets its result, or its exception, on the loop."""
        self.start(function).add_done_callback(lambda ended: done(ended.exception() or ended.result()))

    def resize(self, size: int) -> None:
        """Changes the greatest number of threads. Idle threads beyond it stay."""
        self.size = self._max_workers = size

    async def stop(self) -> None:
        """Ends the threads when they have done their tasks. The loop goes on meanwhile."""
        await self.done()
        self.shutdown()

    async def done(self) -> None:
        """Waits until all tasks are done."""
        while self._awaited or self._unfinished:
            ended = [asyncio.wrap_future(future) for future in tuple(self._unfinished)]
            for one in ended:
                one.add_done_callback(_take_exception)
            await asyncio.wait([*self._awaited, *ended])
            # Callers take the results, and may add tasks.
            for _ in range(_TURNS_TO_ADD_TASKS):
                await asyncio.sleep(0)

    def _ended(self, future: Future[Any]) -> None:
        with self._counting:  # several threads end tasks at once
            self._unfinished.discard(future)
            self.completed += 1


def _take_exception(ended: asyncio.Future[Any]) -> None:
    """Takes the exception of a task that a caller may have given up: the loop would log it as not retrieved."""
    if not ended.cancelled():
        ended.exception()


class ThreadPools:
    """The pools of one node."""

    def __init__(self, cpu: int = CPU_THREADS, disk: int = DISK_THREADS) -> None:
        #: Work that computes: batches to decompress and check, texts of metrics.
        self.cpu = ThreadPool("cpu", cpu)
        #: Work that waits for a disk.
        self.disk = ThreadPool("disk", disk)
        #: Flushes of the metadata log: they wait for no other flush.
        self.metadata = ThreadPool("metadata", METADATA_THREADS)
        #: The background verification of logs.
        self.scrub = ThreadPool("scrub", SCRUB_THREADS)

    def __iter__(self) -> Iterator[ThreadPool]:
        return iter((self.cpu, self.disk, self.metadata, self.scrub))

    async def stop(self) -> None:
        """Ends all threads. To be called when nothing adds tasks any more."""
        for pool in self:
            await pool.stop()
