"""The compaction process: its priority, its errors, and its end with the broker."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from odradek.server.replicas.compaction_process import SWITCH_INTERVAL_S, ShortSwitches, run_in_process
from odradek.server.runtime.thread_pools import ThreadPool
from odradek.storage.compaction.process import NICENESS
from odradek.storage.files.failures import LogDirectoryFailure

from tests.server.harness.compaction import EndlessJob, JobOnFullDisk, LargeJob
from tests.server.harness.data_path import wait_until

pytestmark = pytest.mark.usefixtures("processes")

ROOT = Path(__file__).parents[3]

BROKER = """
import asyncio, sys
from pathlib import Path
from odradek.server.replicas.compaction_process import run_in_process
from odradek.server.runtime.thread_pools import ThreadPool
from tests.server.harness.compaction import EndlessJob
asyncio.run(run_in_process(EndlessJob(Path(sys.argv[1])), ThreadPool("disk", 1)))
"""

#: A program without `if __name__ == "__main__"`: only one process may run it.
PROGRAM = """
import os, sys
from pathlib import Path
with Path(sys.argv[1]).open("a") as runs:
    runs.write("run ")
import asyncio
from odradek.server.replicas.compaction_process import run_in_process
from odradek.server.runtime.thread_pools import ThreadPool
from tests.server.harness.compaction import JobOnFullDisk
try:
    asyncio.run(run_in_process(JobOnFullDisk(), ThreadPool("disk", 1)))
except Exception as failure:
    print(type(failure).__name__)
"""


@pytest.fixture
async def disk() -> AsyncIterator[ThreadPool]:
    pool = ThreadPool("disk", 1)
    yield pool
    await pool.stop()


def is_running(pid: int) -> bool:
    """Returns False for zombies, too: there may be no process here that reaps orphans."""
    found = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return bool(found.stdout.strip()) and not found.stdout.startswith("Z")


def started(path: Path) -> tuple[int, int]:
    wait_until(path.exists)
    pid, niceness = map(int, path.read_text().split())
    return pid, niceness


def test_the_process_ends_with_a_broker_that_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "job"
    with subprocess.Popen([sys.executable, "-c", BROKER, str(path)], cwd=ROOT) as broker:
        pid, niceness = started(path)
        assert niceness == min(19, os.nice(0) + NICENESS), "it gives way to the broker"
        broker.kill()
    wait_until(lambda: not is_running(pid))


async def test_a_cancelled_job_ends_its_process(tmp_path: Path, disk: ThreadPool) -> None:
    path = tmp_path / "job"
    running = asyncio.ensure_future(run_in_process(EndlessJob(path), disk))  # type: ignore[arg-type]
    pid, _ = await asyncio.to_thread(started, path)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not is_running(pid)


async def test_job_that_is_cancelled_before_its_process_has_started_ends_it(
    tmp_path: Path, disk: ThreadPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    started_processes: list[subprocess.Popen[bytes]] = []
    may_start = threading.Event()

    class NotedPopen(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            assert may_start.wait(60)
            super().__init__(*arguments, **options)
            started_processes.append(self)

    monkeypatch.setattr(subprocess, "Popen", NotedPopen)
    running = asyncio.ensure_future(run_in_process(EndlessJob(tmp_path / "job"), disk))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    may_start.set()
    await disk.done()
    (process,) = started_processes
    assert process.returncode is not None and not is_running(process.pid)


async def test_job_and_result_may_be_larger_than_a_pipe(disk: ThreadPool) -> None:
    job = LargeJob(bytes(range(256)) * 4096)
    assert await run_in_process(job, disk) == job.data[::-1]  # type: ignore[arg-type, comparison-overlap]


async def test_process_that_fails_is_reported_by_its_exit_status(disk: ThreadPool) -> None:
    with pytest.raises(RuntimeError, match="exit status 1"):
        await run_in_process(None, disk)  # type: ignore[arg-type]


async def test_a_full_disk_reaches_the_broker_as_its_directory_s_failure(disk: ThreadPool) -> None:
    with pytest.raises(LogDirectoryFailure, match=r"/logs: compacting: .*No space left") as raised:
        await run_in_process(JobOnFullDisk(), disk)  # type: ignore[arg-type]
    assert raised.value.directory == "/logs"
    assert raised.value.is_full


def test_the_main_module_of_an_embedding_program_is_not_run_again(tmp_path: Path) -> None:
    program, runs = tmp_path / "program.py", tmp_path / "runs"
    program.write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [sys.executable, str(program), str(runs)], env=environment, capture_output=True, text=True, check=True
    )
    assert (ran.stdout, runs.read_text()) == ("LogDirectoryFailure\n", "run ")


def test_switches_are_short_until_the_last_work_ends() -> None:
    switches, before_s = ShortSwitches(), sys.getswitchinterval()
    first, second = switches.used(), switches.used()
    first.__enter__()
    second.__enter__()
    assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL_S)
    first.__exit__(None, None, None)
    assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL_S)
    second.__exit__(None, None, None)
    assert sys.getswitchinterval() == before_s
