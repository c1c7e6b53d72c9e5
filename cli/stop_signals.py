"""SIGTERM and SIGINT, which stop a command that runs in the foreground."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def stop_on_signals(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> None:
    """Has the loop call `stop` for each such signal."""
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, stop)


def ignore_stop_signals(loop: asyncio.AbstractEventLoop) -> None:
    """Ignores such signals until the process has ended.

    A loop that closes gives the signals their default action back. A second SIGTERM, of an impatient operator or of a
    second `odradek cluster stop`, would then kill a broker that has stopped cleanly, and its exit status would be a failure.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    for number in STOP_SIGNALS:
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)
