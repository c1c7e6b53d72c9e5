"""`odradek start`: a broker in the foreground, until SIGTERM or SIGINT."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import errno
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from ..server.runtime.memory import GC_PAUSES, LongCollections
from .broker_properties import properties_of
from .console_process import check_installed, check_listeners, console_beside
from .data_locations import remember
from .logs import FORMATS, log_to_standard_error, logger_level
from .options import FAILED, MISUSED, UsageError, add_configuration, complain, host, port, process_count, warn
from .stop_signals import ignore_stop_signals, stop_on_signals
from .warmup import preload

if TYPE_CHECKING:
    from ..server.broker import BrokerServer
    from ..server.config.listeners import CannotListen

#: A stop that takes longer is ended: a broker of 10,000 partitions closes them within seconds. The next start recovers.
MOST_STOP_S = 120.0
#: Threads may end their work for so long when everything else is closed.
MOST_THREADS_STOP_S = 5.0
_POLL_S = 0.2
_WITHOUT_KERNEL = (
    "the compiled kernel is missing, so produced records cost 2 to 3 times the CPU: install a C compiler with the headers "
    "of Python, then `pip install --force-reinstall --no-deps --no-cache-dir odradek`"
)
EPILOG = """\
examples:
  odradek start
  odradek start --port 0 --data-dir /tmp/kafka
  odradek start --host 0.0.0.0 --override advertised.listeners=PLAINTEXT://broker.example:9092
  odradek start --log-level info --log-level odradek.quorum=debug --log-format json
  odradek start server.properties --override auto.create.topics.enable=false
  odradek start server.properties --processes auto

Properties have Apache Kafka's names and meanings. An empty data directory is formatted on the first start.
SIGTERM and SIGINT (Ctrl-C) stop the broker cleanly.
"""


def add_to(commands: Any) -> None:
    command = commands.add_parser(
        "start",
        help="start a broker",
        description="Starts a broker. Prints one line with its address when it serves.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_configuration(command)
    command.add_argument(
        "--port", type=port, metavar="N", help="listen on 127.0.0.1:N; 0 picks a free port (default: 9092)"
    )
    command.add_argument(
        "--console",
        type=port,
        metavar="PORT",
        help="also serve the web console on 127.0.0.1:PORT, in a separate process",
    )
    command.add_argument(
        "--host", type=host, metavar="H", help="listen on this address; 0.0.0.0: all addresses (default: 127.0.0.1)"
    )
    command.add_argument(
        "--processes",
        type=process_count,
        metavar="N|auto",
        help="run N brokers and their controller as one service, on this port and those after it; auto: one per processor",
    )
    command.add_argument(
        "--stop-with-stdin",
        action="store_true",
        help="also stop when standard input ends, as when the parent process does",
    )
    command.add_argument("-v", "--verbose", action="store_true", help="log what the broker does, to standard error")
    command.add_argument(
        "--log-level",
        action="append",
        type=logger_level,
        default=[],
        metavar="LEVEL|LOGGER=LEVEL",
        help="level of all loggers or of one: trace, debug, info, warn, error, fatal or off; may be repeated",
    )
    command.add_argument("--log-format", choices=FORMATS, default="text", help="format of log lines")
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    if options.processes is not None:
        return _run_processes(options)
    with contextlib.ExitStack() as starting:
        # Objects made during a start stay: a collection would only take time.
        starting.enter_context(GC_PAUSES.pause(freeze=True))
        return _run(options, starting)


def _run_processes(options: argparse.Namespace) -> int:
    from .processes import supervisor

    if options.console is not None:
        return complain("--console serves one broker; run `odradek console -b ADDRESSES` beside --processes", MISUSED)
    return supervisor.run(options)


def _run(options: argparse.Namespace, starting: contextlib.ExitStack) -> int:
    """`starting`: to be closed when the broker has started."""
    from ..metadata.configs import InvalidConfig
    from ..server.config.broker_config import BrokerConfig
    from ..server.config.listeners import CannotListen
    from ..server.network.descriptors import raise_limit
    from ..storage.files.open_files import advice

    log_to_standard_error(verbose=options.verbose, levels=options.log_level, form=options.log_format)
    try:
        raise_limit()
        config = BrokerConfig(properties_of(options), _warn_of_unknown if options.log_format == "text" else None)
        if options.console is not None:
            check_installed()
            check_listeners(config.listeners)
        return _run_loop(config, options, starting)
    except (UsageError, InvalidConfig) as error:
        return complain(error, MISUSED)
    except CannotListen as error:
        return complain(f"{error.strerror}; {_remedy(options, error)}", FAILED)
    except _failures() as error:
        return complain(f"{error}{advice(error)}" if isinstance(error, OSError) else error, FAILED)


def _warn_of_unknown(lines: list[str]) -> None:
    """Names properties without a meaning, whatever the level of the log."""
    for line in lines:
        warn(f"warning: {line}")


def _failures() -> tuple[type[Exception], ...]:
    """Exceptions that explain to a user why a broker does not start. Others are bugs, and show a traceback."""
    from ..protocol.records.errors import OldFormatInLog
    from ..server.controller.broker_lifecycle import RegistrationFailed
    from ..server.network.descriptors import TooFewDescriptors
    from ..server.runtime.halting import CAUSES
    from ..storage.files.directory_lock import DirectoryInUse
    from ..storage.files.identity import InvalidMetaProperties

    own = (OSError, DirectoryInUse, InvalidMetaProperties, OldFormatInLog, TooFewDescriptors, RegistrationFailed)
    return *own, *(cause.failure for cause in CAUSES)


def _remedy(options: argparse.Namespace, error: CannotListen) -> str:
    """The option or the key that decides about an address that cannot be had."""
    if error.errno not in (errno.EADDRINUSE, errno.EACCES):
        return f"name an address of this machine in {error.key.replace('.port', '.host')}"
    is_said = options.properties is not None or any(key == "listeners" for key, _ in options.override)
    if error.key == "listeners" and (options.port is not None or not is_said):
        return "choose another with --port N, or --port 0 for any free port"
    return f"change the port in {error.key}; 0 is any free port"


def _run_loop(config: Any, options: argparse.Namespace, starting: contextlib.ExitStack) -> int:
    try:
        import uvloop
    except ImportError:  # no uvloop for this platform: asyncio's own loop serves as well, slower
        return asyncio.run(_serve(config, options, starting))
    return int(uvloop.run(_serve(config, options, starting)))


async def _serve(config: Any, options: argparse.Namespace, starting: contextlib.ExitStack) -> int:
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
        ends: list[asyncio.Future[Any]] = [asyncio.ensure_future(stopping.wait()), broker.failed]
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
