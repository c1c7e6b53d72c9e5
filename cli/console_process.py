"""The console of `odradek start --console PORT`, as a process of its own: viewers cost the broker no time."""

from __future__ import annotations

import contextlib
import importlib.util
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from .command_parser import UsageError

if TYPE_CHECKING:
    from ..server.config.listeners import Listeners

_CONSOLE_STOP_S = 10


def check_installed() -> None:
    """Raises UsageError without the console's packages."""
    if any(importlib.util.find_spec(name) is None for name in ("starlette", "uvicorn", "typer", "confluent_kafka")):
        from ..extras import install_command  # it imports much

        raise UsageError(f"--console needs packages that are not installed: {install_command('console')}")


def check_listeners(listeners: Listeners) -> None:
    """Raises UsageError without a listener that the console can reach without credentials."""
    if all(one.protocol != "PLAINTEXT" for one in listeners.brokers):
        raise UsageError(
            "--console needs a PLAINTEXT listener; run `odradek console --command-config FILE` beside the broker, "
            "with the security options of a client"
        )


@contextlib.contextmanager
def console_beside(addresses: Sequence[str], port: int | None) -> Iterator[None]:
    """Runs the console of `addresses` until the end; nothing with `port` None."""
    if port is None:
        yield
        return
    command = [sys.executable, "-m", "odradek", "console", "-b", ",".join(addresses), "--port", str(port)]
    process = subprocess.Popen(command)
    try:
        yield
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_CONSOLE_STOP_S)
        process.kill()
