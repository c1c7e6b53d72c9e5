"""SIGTERM and SIGINT, which stop a command that runs in the foreground."""

from __future__ import annotations

import signal
from collections.abc import Callable

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def stop_on_signals(stop: Callable[[], object]) -> None:
    """Has each such signal call `stop`, on the main thread between two steps of the loop or of other code.

    These are handlers of the process, not of the loop: a loop that closes gives its signals their default action back. A
    second SIGTERM, of an impatient operator or of a second `odradek cluster stop`, would then kill a broker that has stopped
    cleanly, and its exit status would be a failure.
    """
    for number in STOP_SIGNALS:
        signal.signal(number, lambda got, frame: stop())


def ignore_stop_signals() -> None:
    """Ignores such signals from now on.

    At the end of a process Python gives handled signals their default action back, but not ignored ones.
    """
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
