"""`odradek start`: a broker in the foreground, until SIGTERM or SIGINT."""

from __future__ import annotations

import argparse
import contextlib
import errno
from typing import TYPE_CHECKING

from .command_parser import UsageError
from .log_levels import logger_level
from .logs import FORMATS
from .messages import FAILED, MISUSED, complain, warn
from .options import add_configuration, host, port, process_count

if TYPE_CHECKING:
    from ..server.config.listeners import CannotListen
    from .command_parser import CommandParser

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


def add_to(commands: argparse._SubParsersAction[CommandParser]) -> None:
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
    from ..server.runtime.gc_policy import GC_PAUSES

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
    from ..storage.files.failures import advice
    from .broker_properties import properties_of
    from .console_process import check_installed, check_listeners
    from .foreground import run_until_stopped
    from .logs import log_to_standard_error

    log_to_standard_error(verbose=options.verbose, levels=options.log_level, form=options.log_format)
    try:
        raise_limit()
        config = BrokerConfig(properties_of(options), _warn_of_unknown if options.log_format == "text" else None)
        if options.console is not None:
            check_installed()
            check_listeners(config.listeners)
        return run_until_stopped(config, options, starting)
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
    from ..storage.files.meta_properties import InvalidMetaProperties

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
