"""The foreground of `odradek start --processes`: starts the processes, starts again those that end, and stops all.

SIGTERM and SIGINT stop the brokers, then the controller. SIGHUP restarts the processes one after another, each when the one
before serves again and no partition that the service leads lacks a replica. A process that ends by itself is started again,
after a pause that grows while it keeps ending. The processes stop by themselves when this one is killed: their standard
input ends.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ..broker_properties import properties_of
from ..command_parser import UsageError
from ..log_levels import level_text
from ..messages import FAILED, MISUSED, complain, warn
from ..stop_signals import ignore_stop_signals, stop_on_signals
from .members import METRICS_HOST, METRICS_PORT, Member, Service, format_members, free_port, service_of

if TYPE_CHECKING:
    from .endpoint import ServiceEndpoint

START_TIMEOUT_S = 120.0
#: Above the limit that a broker has for its own stop.
STOP_TIMEOUT_S = 130.0
#: A process that was down for long has much to fetch.
WHOLE_TIMEOUT_S = 600.0
_POLL_S = 0.1
_FIRST_PAUSE_S = 0.5
_MOST_PAUSE_S = 30.0
#: A process that ran for so long is not one that keeps ending.
_STEADY_S = 60.0


def next_pause_s(pause_s: float, ran_s: float) -> float:
    """Returns the pause before a process that ended after `ran_s` is started again. `pause_s`: the pause before that run."""
    return _FIRST_PAUSE_S if ran_s > _STEADY_S else min(_MOST_PAUSE_S, 2 * pause_s)


class ServiceFailed(Exception):
    """A process ended before it served, or did not serve in time. Its own output has the reason."""


@dataclass
class Running:
    """A member's process, from one start to the next."""

    member: Member
    metrics_port: int | None = None
    process: subprocess.Popen[bytes] | None = None
    address: str = ""
    #: When it was started last.
    started_s: float = 0.0
    pause_s: float = _FIRST_PAUSE_S / 2
    starts_s: float = 0.0

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None


@dataclass
class Supervisor:
    service: Service
    #: Options of the log, for every process.
    log_options: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.running = [Running(member) for member in self.service.members]
        self._stops: list[bool] = []
        self._rolls: list[bool] = []
        self._endpoint: ServiceEndpoint | None = None

    # Signals.

    @property
    def is_stopping(self) -> bool:
        return bool(self._stops)

    def request_stop(self) -> None:
        self._stops.append(True)

    def request_roll(self) -> None:
        self._rolls.append(True)

    # The life of the service.

    def run(self) -> None:
        """Returns when a signal has stopped the service. Raises ServiceFailed, OSError."""
        try:
            self._open_endpoint()
            for one in self.running:
                self._start(one)
            if self._await_serving(self.running):
                print(self._serving_line(), flush=True)
                self._supervise()
        finally:
            self._stop()

    def _open_endpoint(self) -> None:
        if self.service.metrics is not None:
            from .endpoint import ServiceEndpoint

            host, port = self.service.metrics
            self._endpoint = ServiceEndpoint(host, port, self.metrics_ports)

    def metrics_ports(self) -> dict[int, int | None]:
        return {one.member.node_id: one.metrics_port if one.is_running else None for one in self.running}

    def _serving_line(self) -> str:
        brokers = [one.address for one in self.running if one.member.role == "broker"]
        words = f"odradek: {len(brokers)} brokers serving on {','.join(brokers)} (data in {self.service.root}"
        if self._endpoint is not None:
            words += f"; metrics and health on port {self._endpoint.port}"
        return f"{words})"

    def _supervise(self) -> None:
        while not self.is_stopping:
            self._revive()
            if self._rolls:
                self._rolls.clear()
                with contextlib.suppress(_Stopping):
                    self._roll()
            time.sleep(_POLL_S)

    def _revive(self, besides: Running | None = None) -> None:
        """Starts each process that has ended by itself, after its pause; not `besides`, which is being restarted."""
        now = time.monotonic()
        for one in self.running:
            if one is besides or one.is_running:
                continue
            if one.process is not None:
                one.pause_s = next_pause_s(one.pause_s, now - one.started_s)
                one.starts_s = now + one.pause_s
                status, one.process = one.process.returncode, None
                warn(f"{one.member.name} has ended with {status}; it is started again in {one.pause_s:g} s")
            elif now >= one.starts_s:
                self._start(one)
                warn(f"{one.member.name} is started again (process {one.process and one.process.pid})")

    # Processes.

    def _start(self, running: Running) -> None:
        file = self._properties_file(running.member)
        command = [sys.executable, "-m", __package__.partition(".")[0], "start", str(file), "--stop-with-stdin"]
        command += self.log_options
        if self.service.metrics is not None:
            running.metrics_port = free_port()
            command += [
                "--override",
                f"{METRICS_PORT}={running.metrics_port}",
                "--override",
                f"{METRICS_HOST}=127.0.0.1",
            ]
        running.started_s = time.monotonic()
        # A session of its own: Ctrl-C in a terminal reaches this process only, which stops the others in order.
        running.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, bufsize=0
        )

    def _properties_file(self, member: Member) -> Path:
        from ...client.properties_file import format_properties
        from ...server.access.authority import write_secret

        file = self.service.root / f"node-{member.node_id}.properties"
        write_secret(file, format_properties(dict(member.properties)))
        return file

    def _await_serving(self, started: Iterable[Running], meanwhile: Callable[[], None] = lambda: None) -> bool:
        """True when each has printed its line, False when the service is to stop before. Raises ServiceFailed.

        `meanwhile` is called again and again.
        """
        deadline_s = time.monotonic() + START_TIMEOUT_S
        with selectors.DefaultSelector() as selector:
            for one in started:
                assert one.process is not None and one.process.stdout is not None
                selector.register(one.process.stdout, selectors.EVENT_READ, one)
            while selector.get_map() and not self.is_stopping:
                if time.monotonic() > deadline_s:
                    raise ServiceFailed(f"not every process serves after {START_TIMEOUT_S:g} s")
                for key, _ in selector.select(_POLL_S):
                    selector.unregister(key.fileobj)
                    _read_line(key.data)
                meanwhile()
        return not self.is_stopping

    def _roll(self) -> None:
        """Restarts the processes, the controller last. Raises _Stopping."""
        for one in [*(one for one in self.running if one.member.role == "broker"), *self._controllers()]:
            self._await(self._is_whole, WHOLE_TIMEOUT_S, one, "partitions lack replicas")
            warn(f"restarting {one.member.name}")
            revive_others = functools.partial(self._revive, one)
            self._end([one], revive_others)
            self._start(one)
            try:
                if not self._await_serving([one], revive_others):
                    raise _Stopping
            except ServiceFailed as failed:
                warn(f"the restart stops here: {failed}")
                return
        self._await(self._is_whole, WHOLE_TIMEOUT_S, None, "partitions lack replicas")
        warn("every process was restarted")

    def _is_whole(self) -> bool:
        """Whether all processes are ready and lead no partition that lacks a replica; without metrics, whether all run."""
        if self.service.metrics is None:
            return all(one.is_running for one in self.running)
        from .endpoint import health, scraped, under_replicated

        ports = self.metrics_ports()
        return all(found["ready"] for found in health(ports).values()) and under_replicated(scraped(ports)) == 0

    def _await(self, holds: Callable[[], bool], timeout_s: float, next_one: Running | None, words: str) -> None:
        deadline_s = time.monotonic() + timeout_s
        while not holds():
            if self.is_stopping:
                raise _Stopping
            if time.monotonic() > deadline_s:
                before = f" before {next_one.member.name} is restarted" if next_one is not None else ""
                warn(f"the restart stops here{before}: {words} after {timeout_s:g} s")
                raise _Stopping
            self._revive()
            time.sleep(_POLL_S)

    def _controllers(self) -> list[Running]:
        return [one for one in self.running if one.member.role == "controller"]

    def _stop(self) -> None:
        """Brokers hand over to others through the controller, so it is the last."""
        in_order = self._end([one for one in self.running if one not in self._controllers()])
        in_order = self._end(self._controllers()) and in_order
        if self._endpoint is not None:
            self._endpoint.stop()
        if not in_order:
            raise ServiceFailed("not every process stopped in time")

    def _end(self, some: list[Running], meanwhile: Callable[[], None] = lambda: None) -> bool:
        """SIGTERM to these; whether all ended in time. Those that do not are killed. `meanwhile`: see `_await_serving`."""
        for one in some:
            if one.process is not None:
                with contextlib.suppress(ProcessLookupError):
                    one.process.send_signal(signal.SIGTERM)
        deadline_s = time.monotonic() + STOP_TIMEOUT_S
        in_order = True
        for one in some:
            if one.process is None:
                continue
            while not _ended(one.process, _POLL_S) and time.monotonic() < deadline_s:
                meanwhile()
            if one.is_running:
                one.process.kill()
                one.process.wait()
                in_order = False
            one.process = None
        return in_order


def _ended(process: subprocess.Popen[bytes], within_s: float) -> bool:
    try:
        process.wait(within_s)
    except subprocess.TimeoutExpired:
        return False
    return True


class _Stopping(Exception):
    """The service stops, or its restart cannot go on: what waits ends."""


def _read_line(running: Running) -> None:
    """Reads the line that a process prints when it serves. Raises ServiceFailed."""
    assert running.process is not None and running.process.stdout is not None
    line = running.process.stdout.read(4096).decode("utf-8", errors="replace")
    if not line:
        raise ServiceFailed(f"{running.member.name} ended with {running.process.wait()} before it served")
    running.address = line.partition(" serving on ")[2].partition(" (data in ")[0]


def run(options: argparse.Namespace) -> int:
    """Runs `odradek start --processes`."""
    from ...metadata.configs import InvalidConfig
    from ...storage.files.meta_properties import InvalidMetaProperties
    from ...storage.files.modes import make_folder

    try:
        service = service_of(properties_of(options), options.processes)
        make_folder(service.root)
        format_members(service, None)
        supervisor = Supervisor(service, _log_options(options))
        stop_on_signals(supervisor.request_stop)
        signal.signal(signal.SIGHUP, lambda number, frame: supervisor.request_roll())
        try:
            supervisor.run()
        finally:
            ignore_stop_signals()
    except (UsageError, InvalidConfig) as error:
        return complain(error, MISUSED)
    except (ServiceFailed, InvalidMetaProperties, OSError) as error:
        return complain(error, FAILED)
    return 0


def _log_options(options: argparse.Namespace) -> list[str]:
    given = ["--log-format", options.log_format]
    given += ["-v"] if options.verbose else []
    for level in options.log_level:
        given += ["--log-level", level_text(level)]
    return given
