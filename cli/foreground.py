"""A broker in the foreground, from its start to its stop by a signal.

`run_until_stopped` runs the broker. `StopWatchdog` ends the process when its stop hangs.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NoReturn

from ..server.runtime.gc_policy import LongCollections
from .console_process import console_beside
from .data_locations import remember
from .messages import FAILED, complain, warn
from .preload import preload
from .stop_signals import ignore_stop_signals, stop_on_signals

if TYPE_CHECKING:
    from ..server.broker import BrokerServer
    from ..server.config.broker_config import BrokerConfig

#: A stop that takes longer is ended: a broker of 10,000 partitions closes them within seconds. The next start recovers.
MOST_STOP_S = 120.0
#: Threads may end their work for so long when everything else is closed.
MOST_THREADS_STOP_S = 5.0
_POLL_S = 0.2
_WITHOUT_KERNEL = (
    "the compiled kernel is missing, so produced records cost 2 to 3 times the CPU: install a C compiler with the headers "
    "of Python, then `pip install --force-reinstall --no-deps --no-cache-dir odradek`"
)


def run_until_stopped(config: BrokerConfig, options: argparse.Namespace, starting: contextlib.ExitStack) -> int:
    try:
        import uvloop
    except ImportError:  # no uvloop for this platform: asyncio's own loop serves as well, slower
        return asyncio.run(_serve(config, options, starting))
    return int(uvloop.run(_serve(config, options, starting)))


async def _serve(config: BrokerConfig, options: argparse.Namespace, starting: contextlib.ExitStack) -> int:
    from ..server.broker import BrokerServer

    stopping, watchdog = asyncio.Event(), StopWatchdog()
    loop = asyncio.get_running_loop()

    def stop() -> None:
        watchdog.begin()
        loop.call_soon_threadsafe(stopping.set)

    stop_on_signals(stop)
    if options.stop_with_stdin:
        loop.add_reader(sys.stdin.fileno(), _stop_at_end_of_input, loop, stop)
    try:
        broker = BrokerServer(config)
        watchdog.is_closed = lambda: broker.is_closed
        return await _serve_until(stopping, broker, options, starting)
    finally:
        ignore_stop_signals()


def _stop_at_end_of_input(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        loop.remove_reader(sys.stdin.fileno())
        stop()


async def _serve_until(
    stopping: asyncio.Event, broker: BrokerServer, options: argparse.Namespace, starting: contextlib.ExitStack
) -> int:
    from ..protocol.records.walk import IS_COMPILED

    if not await _is_started(broker, stopping):
        return 0
    starting.close()
    LongCollections().begin()
    try:
        if not IS_COMPILED:
            logging.getLogger("odradek.broker").warning(_WITHOUT_KERNEL)
        _remember_place(options, broker)
        print(serving_line(broker), flush=True)
        preloading = asyncio.ensure_future(preload(broker))
        ends: list[asyncio.Future[Literal[True]] | asyncio.Future[Exception]] = [
            asyncio.ensure_future(stopping.wait()),
            broker.failed,
        ]
        with console_beside(_plain_addresses(broker), options.console):
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if broker.failed.done():
            _halt(broker.failed.result())
        preloading.cancel()
    finally:
        await broker.stop()
    return 0


class StopWatchdog:
    """Ends the process when its stop hangs: in a thread that waits for a file for ever, or in the loop itself."""

    def __init__(self) -> None:
        self.is_closed: Callable[[], bool] = lambda: False
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Begins to watch, at the signal to stop."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="stop-watchdog", daemon=True)
            self._thread.start()

    def _watch(self) -> None:
        deadline_s = time.monotonic() + MOST_STOP_S
        while time.monotonic() < deadline_s:
            if self.is_closed():
                time.sleep(MOST_THREADS_STOP_S)
                self._end("threads are still at work; everything is closed", 0)
            time.sleep(_POLL_S)
        self._end(f"the stop has not ended after {MOST_STOP_S:.0f} s", FAILED)

    def _end(self, words: str, status: int) -> NoReturn:
        names = sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("odradek-"))
        complain(f"{words} ({', '.join(names)})", status)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _remember_place(options: argparse.Namespace, broker: BrokerServer) -> None:
    """For `odradek cluster`, which starts the node there again."""
    try:
        remember(options.properties, broker.config.log_dirs)
    except OSError as error:
        warn(f"`odradek cluster` cannot find the data of this node: {error}")


def _plain_addresses(broker: BrokerServer) -> list[str]:
    """The addresses that need no credentials."""
    plain = {one.name for one in broker.config.listeners.brokers if one.protocol == "PLAINTEXT"}
    return [one.address for one in broker.network.listeners.advertised_endpoints() if one.name in plain]


def _halt(failure: Exception) -> NoReturn:
    """Ends the process at once, as Apache Kafka does without a disk. Clients and the next leader see the connections end;
    no directory is marked as closed cleanly.
    """
    from ..server.runtime.halting import EXIT_CODE, cause_of

    complain(f"halting: the broker cannot continue: {failure}")
    logging.shutdown()
    sys.stderr.flush()
    cause = cause_of(failure)
    os._exit(cause.exit_code if cause is not None else EXIT_CODE)


async def _is_started(broker: BrokerServer, stopping: asyncio.Event) -> bool:
    """False when it was stopped before: a node of a cluster waits for the others."""
    starting, stopped = asyncio.ensure_future(broker.start()), asyncio.ensure_future(stopping.wait())
    await asyncio.wait([starting, stopped], return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await starting
        return False
    stopped.cancel()
    await starting
    return True


def serving_line(broker: BrokerServer) -> str:
    """The one line on standard output: programs read the address from it."""
    return f"odradek: serving on {','.join(broker.addresses)} (data in {','.join(broker.config.log_dirs)})"
