"""Runs compaction jobs: small ones on a thread, large ones in a process of their own.

The work is all CPU, and would hold up every request in this process. The process exists only while it works. It is a
fresh interpreter that imports the storage and nothing of the embedding program: `multiprocessing` would run that
program's main module again, and fork a process with threads or keep a second one.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..runtime.memory import LARGE_BYTES, release_after

if TYPE_CHECKING:
    from ...storage.compaction.compaction import CleaningJob, CleaningResult
    from ..runtime.thread_pools import ThreadPool

#: Below this, the start of a process (some 0.1 s of CPU) costs more than it saves.
SMALL_JOB_BYTES = 2 << 20
#: A batch of some kilobytes may have a million records, and a thread that opens them takes the interpreter's lock.
SMALL_JOB_RECORDS = 50_000

_PROCESS_MODULE = f"{__package__}.compaction_process"


async def run_job(job: CleaningJob, total_bytes: int, disk: ThreadPool) -> CleaningResult:
    """Raises what `CleaningJob.run` does. Cancelling it ends the process that works on it."""
    offsets = job.end_offset - min((one.base_offset for one in job.segments), default=job.end_offset)
    if total_bytes > SMALL_JOB_BYTES or offsets > SMALL_JOB_RECORDS:
        return await run_in_process(job)
    try:
        return await disk.run(job.run)
    finally:
        # A few kilobytes of its batches may have held megabytes.
        release_after(LARGE_BYTES)


async def run_in_process(job: CleaningJob) -> CleaningResult:
    # "" is the working directory of this process. `-P` keeps it from the front, where its files could hide modules.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path)}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", _PROCESS_MODULE),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=environment,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write(pickle.dumps(job))
        # Standard input stays open: the process ends when this one, and with it the pipe, is gone.
        answer = await process.stdout.read()
        await process.wait()
    except BaseException:
        process.kill()
        await process.wait()
        raise
    finally:
        process.stdin.close()
    if process.returncode:
        raise RuntimeError(f"the compaction process ended with exit status {process.returncode}")
    outcome: CleaningResult | Exception = pickle.loads(answer)
    if isinstance(outcome, Exception):
        raise outcome
    return outcome
