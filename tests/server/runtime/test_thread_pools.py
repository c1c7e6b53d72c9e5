"""The named thread pools: start and end of their threads, and their counters."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator

import pytest
from odradek.server.runtime import thread_pools
from odradek.server.runtime.thread_pools import MOST_THREADS, ThreadPool, ThreadPools

DEADLINE_S = 60


def threads_of(pool: ThreadPool) -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(f"odradek-{pool.name}_")]


@pytest.fixture
async def pool() -> AsyncIterator[ThreadPool]:
    pool = ThreadPool("tested", 2)
    yield pool
    await pool.stop()


async def test_a_pool_has_no_thread_before_its_first_task_and_none_after_its_stop(pool: ThreadPool) -> None:
    assert threads_of(pool) == []
    assert await pool.run(lambda: threading.current_thread().name) == "odradek-tested_0"
    await pool.stop()
    assert threads_of(pool) == []


async def test_counters_separate_running_waiting_and_completed_tasks(pool: ThreadPool) -> None:
    gate = threading.Event()
    tasks = [pool.submit(gate.wait, DEADLINE_S) for _ in range(5)]
    assert (pool.active, pool.queued, pool.completed) == (2, 3, 0)
    assert len(threads_of(pool)) == pool.size
    assert tasks[-1].cancel()
    assert (pool.active, pool.queued) == (2, 2)
    gate.set()
    await pool.stop()
    assert (pool.active, pool.queued, pool.completed) == (0, 0, 5)


async def test_a_stop_waits_for_running_tasks_and_leaves_the_loop_free(pool: ThreadPool) -> None:
    gate = threading.Event()
    ended: list[object] = []
    pool.run_then(lambda: gate.wait(DEADLINE_S), ended.append)
    stopping = asyncio.ensure_future(pool.stop())
    await asyncio.sleep(0)
    assert not stopping.done() and not ended
    gate.set()
    await asyncio.wait_for(stopping, DEADLINE_S)
    assert ended == [True]


async def test_a_task_added_by_the_end_of_another_is_done_before_the_stop(pool: ThreadPool) -> None:
    found: list[int] = []
    pool.run_then(lambda: 1, lambda first: pool.run_then(lambda: first + 1, found.append))
    await pool.stop()
    assert found == [2]


async def test_failures_reach_the_caller(pool: ThreadPool) -> None:
    failures: list[object] = []
    pool.run_then(lambda: 1 // 0, failures.append)
    with pytest.raises(ZeroDivisionError):
        await pool.run(lambda: 1 // 0)
    await pool.stop()
    assert [type(one) for one in failures] == [ZeroDivisionError]


def test_the_pools_of_a_node_are_bounded_and_have_names_of_their_own() -> None:
    pools = list(ThreadPools())
    assert sum(pool.size for pool in pools) == MOST_THREADS
    assert len({pool.name for pool in pools}) == len(pools)


async def test_pool_at_interpreter_exit_works_on_the_callers_thread_after_running_tasks(
    pool: ThreadPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, order = threading.Event(), list[str]()
    earlier = pool.submit(lambda: (gate.wait(DEADLINE_S), order.append("earlier")))
    monkeypatch.setattr("odradek.server.runtime.thread_pools.can_start_threads", lambda: False)
    threading.Timer(0.01, gate.set).start()
    assert await pool.run(threading.current_thread) is threading.current_thread()
    order.append("at exit")
    assert earlier.done() and order == ["earlier", "at exit"]
    with pytest.raises(ZeroDivisionError):
        await pool.run(lambda: 1 // 0)
    assert (pool.active, pool.queued, pool.completed) == (0, 0, 3)


def test_no_thread_is_started_once_the_exit_has_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """The main thread is alive while CPython 3.12 and later call the functions that are registered for the exit."""
    monkeypatch.setattr(thread_pools, "_exit", threading.Event())
    assert thread_pools.can_start_threads()
    thread_pools.begin_exit()
    assert threading.main_thread().is_alive() and not thread_pools.can_start_threads()
    pool = ThreadPool("tested", 1)
    assert pool.submit(threading.current_thread).result() is threading.current_thread()
    assert threads_of(pool) == []


async def test_exception_of_a_task_whose_caller_has_gone_is_not_logged_as_unretrieved(pool: ThreadPool) -> None:
    """A deposed leader gives up its upload, which fails later."""
    gate, logged = threading.Event(), list[dict[str, object]]()
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: logged.append(context))

    def fails() -> None:
        gate.wait(DEADLINE_S)
        raise OSError("the store fails")

    callers = [asyncio.create_task(pool.run(fails)) for _ in range(2)]
    await asyncio.sleep(0)
    callers[0].cancel()
    pool.submit(fails)
    ending = asyncio.create_task(pool.done())
    await asyncio.sleep(0)
    gate.set()
    await ending
    assert [type(one) for one in await asyncio.gather(*callers, return_exceptions=True)] == [
        asyncio.CancelledError,
        OSError,
    ]
    del callers, ending
    gc.collect()
    await asyncio.sleep(0)
    assert logged == []
