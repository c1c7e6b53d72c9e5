"""Runs a command of `odradek` in this process; keeps its output and exit status."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from odradek.cli.main import main

from compat_tests.cli.caught_up import await_brokers

#: Subcommands whose changes reach other brokers later.
_CHANGES = {"create", "alter", "delete", "set", "trim"}
#: The last Produce version whose producers register partitions with the coordinator themselves.
PRODUCE_WITHOUT_VERIFICATION = 11
#: The exit status of a usage error.
_USAGE = 2
#: The exit status where no broker responds: there is none to wait for.
_UNREACHABLE = 4
_BOOTSTRAP_OPTIONS = ("--bootstrap-server", "-b")


@dataclass
class Done:
    """The output of a command, and its exit status."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


class _Input(io.TextIOWrapper):
    """Standard input with bytes, not a terminal."""


def odradek_command(*words: str, stdin: bytes | str = b"", bootstrap: str | None = None) -> Done:
    """Runs `odradek WORDS` in this process. After a change it returns once every broker has applied it.

    `bootstrap`: the addresses of the cluster, if the words do not name them.
    """
    done = _run(words, stdin)
    named = (words[at + 1] for at, word in enumerate(words[:-1]) if word in _BOOTSTRAP_OPTIONS)
    bootstrap = next(named, bootstrap)
    is_change = len(words) > 1 and (words[0] == "bench" or words[1] in _CHANGES) and "--dry-run" not in words
    if bootstrap and is_change and done.status not in (_USAGE, _UNREACHABLE):
        await_brokers(bootstrap)
    return done


def _run(words: tuple[str, ...], stdin: bytes | str) -> Done:
    data = stdin.encode() if isinstance(stdin, str) else stdin
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
    before = sys.stdin
    sys.stdin = _Input(io.BytesIO(data), "utf-8")
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                status = main(words)
            except SystemExit as end:
                status = int(end.code or 0)
            out.flush(), err.flush()
    finally:
        sys.stdin = before
    return Done(status, out.buffer.getvalue().decode(), err.buffer.getvalue().decode())  # type: ignore[attr-defined]


Run = Callable[..., Done]
