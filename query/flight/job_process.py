"""A process with one job: its limits, which the kernel holds, and its answer.

A function of DuckDB may take any memory and any time and cannot be interrupted, so the limits are those of a process. It
ends with the job, with its time, and when the server no longer wants the answer.
"""

from __future__ import annotations

import os
import pickle
import resource
import select
import signal
import socket
import threading
from pathlib import Path
from typing import NoReturn

import pyarrow as pa

from ...client.error_kinds import ErrorKind
from ...client.user_errors import UserError
from .job_answers import answer
from .jobs import DATA, END, FAILED, FRAME, MOST_JOB_BYTES, Job, failure_body

_STATUS = Path("/proc/self/status")


def run_job(channel: socket.socket) -> NoReturn:
    """Reads a job from the channel, answers it there, and ends the process."""
    try:
        job = _received(channel)
        _limit(job)
        threading.Thread(target=_end_with, args=(channel,), daemon=True).start()
        try:
            for message in answer(job):
                _send(channel, DATA, message)
            _send(channel, END, b"")
        except UserError as error:
            _send(channel, FAILED, failure_body(error.kind, str(error)))
        except MemoryError:
            _send(channel, FAILED, failure_body(ErrorKind.FAILED, job.limits.memory_words))
    finally:
        os._exit(0)  # threads of libraries may hold locks


def _received(channel: socket.socket) -> Job:
    _, length = FRAME.unpack(_exactly(channel, FRAME.size))
    if length > MOST_JOB_BYTES:
        raise ValueError("the job is too large")
    job = pickle.loads(_exactly(channel, length))
    assert isinstance(job, Job)
    return job


def _exactly(channel: socket.socket, length: int) -> bytes:
    received = bytearray()
    while len(received) < length:
        part = channel.recv(length - len(received))
        if not part:
            raise EOFError
        received += part
    return bytes(received)


def _send(channel: socket.socket, tag: bytes, body: bytes | pa.Buffer) -> None:
    view = memoryview(body)
    channel.sendall(FRAME.pack(tag, view.nbytes))
    channel.sendall(view)


def _limit(job: Job) -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, job.limits.time_s)
    limit = _data_bytes() + job.limits.memory_bytes
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _data_bytes() -> int:
    """The private writable memory that the process has, which RLIMIT_DATA counts."""
    lines = _STATUS.read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmData:"))


def _end_with(channel: socket.socket) -> None:
    """Ends the process when the server closes its end."""
    poll = select.poll()
    poll.register(channel.fileno(), select.POLLRDHUP)
    poll.poll()
    os._exit(1)
