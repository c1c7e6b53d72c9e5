"""Runs commands of `odradek` in this process: another one imports Arrow, Iceberg and DuckDB again, for 1 to 2 s of CPU.

Tests of signals, of kills, of bytes on standard output and of what native libraries write start processes.
"""

from __future__ import annotations

import signal
from dataclasses import replace

import pytest

from compat_tests.cli.commands import Done, odradek_command


def command_here(*words: str, status: int = 0) -> Done:
    """Runs `odradek WORDS`, which ends with `status`. Then the signals that a command handles have their handlers again."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        done = odradek_command(*words)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert done.status == status, done.err
    return done


def query_here(printed: pytest.CaptureFixture[str], *words: str, status: int = 0) -> Done:
    """Runs a command whose result DuckDB writes to the file of standard output itself: the fixture `capfd` has it."""
    printed.readouterr()
    done = command_here(*words, status=status)
    return replace(done, out=done.out + printed.readouterr().out)
