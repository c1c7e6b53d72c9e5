"""Compaction jobs: a small one runs on a thread, a large one in a process of its own.

The work of a job is all CPU, and would hold up every request in this process. The process exists only while it
works. It is a fresh interpreter that imports the storage and nothing of the embedding program: `multiprocessing`
would run that program's main module again, and fork a process with threads or keep a second one.
"""

from __future__ import annotations

import asyncio
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import IO, TYPE_CHECKING

from ..runtime.interpreter import INTERPRETER, interpreter_environment
from ..runtime.memory import LARGE_BYTES, release_after

if TYPE_CHECKING:
    from ...storage.compaction.cleaning_job import CleaningJob, CleaningResult
    from ..runtime.thread_pools import ThreadPool

#: Below this, the start of a process (some 0.1 s of CPU) costs more than it saves.
SMALL_JOB_BYTES = 2 << 20
#: A batch of some kilobytes may have a million records, and a thread that opens them takes the interpreter's lock.
SMALL_JOB_RECORDS = 50_000

#: The interpreter's switch interval while a thread of this process cleans: each time that the loop has waited for an event,
#: it waits up to an interval for the interpreter's lock. The default is 5 ms.
SWITCH_INTERVAL_S = 0.0005

_PROCESS = f"from {__package__.removesuffix('.server.replicas')}.storage.compaction.process import main; main()"


class ShortSwitches:
    """Shortens the switch interval of this process for some work. May be used by several brokers of a process at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._before_s = 0.0

    @contextmanager
    def used(self) -> Iterator[None]:
        with self._lock:
            self._count += 1
            if self._count == 1:
                self._before_s = sys.getswitchinterval()
                sys.setswitchinterval(min(self._before_s, SWITCH_INTERVAL_S))
        try:
            yield
        finally:
            with self._lock:
                self._count -= 1
                if not self._count:
                    sys.setswitchinterval(self._before_s)


SHORT_SWITCHES = ShortSwitches()


async def run_job(job: CleaningJob, total_bytes: int, disk: ThreadPool) -> CleaningResult:
    """Raises what `CleaningJob.run` does. Cancelling it ends the process that works on it."""
    offsets = job.end_offset - min((one.base_offset for one in job.segments), default=job.end_offset)
    if total_bytes > SMALL_JOB_BYTES or offsets > SMALL_JOB_RECORDS:
        return await run_in_process(job, disk)
    try:
        with SHORT_SWITCHES.used():
            return await disk.run(job.run)
    finally:
        # A few kilobytes of its batches may have held megabytes.
        release_after(LARGE_BYTES)


async def run_in_process(job: CleaningJob, disk: ThreadPool) -> CleaningResult:
    starting = disk.start(_start_process, pickle.dumps(job))
    try:
        process = await asyncio.shield(starting)
    except asyncio.CancelledError:
        starting.add_done_callback(partial(_end_started, disk))
        raise
    try:
        response = await _read_to_end(process)
        await disk.run(process.wait)
    except BaseException:
        process.kill()
        await disk.run(process.wait)
        raise
    finally:
        _standard_input(process).close()
    if process.returncode:
        raise RuntimeError(f"the compaction process ended with exit status {process.returncode}")
    outcome: CleaningResult | Exception = pickle.loads(response)
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def _start_process(pickled_job: bytes) -> subprocess.Popen[bytes]:
    """Starts the process on this thread. The event loops' own ways fork, which holds the loop for 3 ms or more: the system
    copies the page tables of this process, and each page that is written later. `Popen` needs no copy, and takes 0.5 ms.
    """
    process = subprocess.Popen(
        [*INTERPRETER, "-c", _PROCESS],
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=interpreter_environment(),
    )
    # Standard input stays open: the process ends when this one, and with it the pipe, is gone.
    with suppress(BrokenPipeError):  # it has ended: its exit status is read later
        _write_all(_standard_input(process), pickled_job)
    return process


def _write_all(file: IO[bytes], data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[file.write(left) :]


def _standard_input(process: subprocess.Popen[bytes]) -> IO[bytes]:
    assert process.stdin is not None
    return process.stdin


async def _read_to_end(process: subprocess.Popen[bytes]) -> bytes:
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), process.stdout
    )
    try:
        return await reader.read()
    finally:
        transport.close()


def _end_started(disk: ThreadPool, starting: asyncio.Future[subprocess.Popen[bytes]]) -> None:
    if not starting.cancelled() and starting.exception() is None:
        process = starting.result()
        process.kill()
        _standard_input(process).close()
        assert process.stdout is not None
        process.stdout.close()
        disk.start(process.wait)  # a process that the disk holds up ends later
