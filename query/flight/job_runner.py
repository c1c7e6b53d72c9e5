"""Jobs of a server: it begins them at the host of their processes, reads their frames, and ends them by closing a socket."""

from __future__ import annotations

import contextlib
import pickle
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

from ...client.error_kinds import ErrorKind
from ...client.user_errors import Misused, UserError
from .job_host import BEGIN
from .jobs import DATA, END, FRAME, MOST_FRAME_BYTES, MOST_JOB_BYTES, Job, failure_of

#: The host imports libraries first.
_HOST_BEGIN_S = 120.0
#: The host ends with its socket.
_HOST_END_S = 5.0


class JobDied(UserError):
    """The process of a job ended without an answer: the kernel held one of its limits."""


class RunningJob:
    """A job in its process. `end` may be called by any thread, at any time, and again."""

    def __init__(self, job: Job, channel: socket.socket) -> None:
        self._limits = job.limits
        self._channel = channel
        self._began = time.monotonic()

    def end(self) -> None:
        with contextlib.suppress(OSError):  # the other end has closed
            self._channel.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.end()
        self._channel.close()

    def messages(self) -> Iterator[bytes]:
        """Messages of Arrow's IPC format, the schema first. Raises UserError, JobDied."""
        while True:
            tag, length = FRAME.unpack(self._exactly(FRAME.size))
            if length > MOST_FRAME_BYTES:
                raise JobDied("the process of the query sent what is no answer")
            body = self._exactly(length)
            if tag == END:
                return
            if tag != DATA:
                kind, text = failure_of(body)
                raise UserError(text, kind)
            yield body

    def _exactly(self, length: int) -> bytes:
        received = bytearray(length)
        view, at = memoryview(received), 0
        while at < length:
            try:
                count = self._channel.recv_into(view[at:])
            except OSError:
                count = 0
            if not count:
                raise self._death()
            at += count
        return bytes(received)

    def _death(self) -> JobDied:
        if time.monotonic() - self._began >= self._limits.time_s:
            return JobDied(self._limits.time_words)
        return JobDied(f"the process of the query ended; most likely {self._limits.memory_words}")


class JobRunner:
    """Begins jobs. The host of their processes is begun again when it has died."""

    def __init__(self) -> None:
        """Raises UserError where the host does not begin."""
        self._lock = threading.Lock()
        self._host: subprocess.Popen[bytes] | None = None
        self._requests: socket.socket | None = None
        try:
            self._begin_host()
        except OSError as error:
            raise UserError(f"no process for queries can be begun: {error}") from None

    def begin(self, job: Job) -> RunningJob:
        """Raises UserError for a job that is too large."""
        body = pickle.dumps(job)
        if len(body) > MOST_JOB_BYTES:
            raise Misused(f"a statement and its parameters take {MOST_JOB_BYTES >> 20} MiB at most")
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._hand_over(theirs)
            ours.sendall(FRAME.pack(DATA, len(body)) + body)
        except OSError as error:
            ours.close()
            raise UserError(f"no process for the query can be begun: {error}", ErrorKind.UNREACHABLE) from None
        return RunningJob(job, ours)

    def _hand_over(self, channel: socket.socket) -> None:
        with self._lock:
            for _ in range(2):
                if self._requests is None:
                    self._begin_host()
                assert self._requests is not None
                try:
                    socket.send_fds(self._requests, [BEGIN], [channel.fileno()])
                    return
                except OSError:
                    self._end_host()
        raise ConnectionError("the host of queries ended")

    def _begin_host(self) -> None:
        self._requests, theirs = socket.socketpair()
        with theirs:
            descriptor = theirs.fileno()
            command = [sys.executable, "-m", "odradek.query.flight.job_host", str(descriptor)]
            self._host = subprocess.Popen(command, pass_fds=[descriptor], stdin=subprocess.DEVNULL)
        self._requests.settimeout(_HOST_BEGIN_S)
        if self._requests.recv(len(BEGIN)) != BEGIN:
            raise ConnectionError("the host of queries ended")

    def _end_host(self) -> None:
        if self._requests is not None:
            self._requests.close()
            self._requests = None
        if self._host is not None:
            try:
                self._host.wait(_HOST_END_S)
            except subprocess.TimeoutExpired:
                self._host.kill()
                self._host.wait()
            self._host = None

    def close(self) -> None:
        with self._lock:
            self._end_host()
