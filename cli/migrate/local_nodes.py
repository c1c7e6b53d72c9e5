"""The change of the nodes of this machine: each is stopped, and started by the other program."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import typer

from ...admin.connection import Connection
from ...client.properties_file import read_properties
from ...client.user_errors import UserError
from ...storage.files.directory_lock import LOCK_FILE
from ...storage.files.lock_holder import lock_holder
from ..local_cluster.node_processes import end
from .findings import directories_of
from .steps import look, order
from .survey import ODRADEK, Survey

_READY_POLL_S = 0.5
_READY_WAIT_S = 600.0


def change_all(connection: Connection, files: Iterable[Path], program: str, apache_start: str | None) -> None:
    """Stops and starts each node that does not run `program`. Waits after each until the next one may go. Raises
    UserError.
    """
    by_id = {_node_id(file): file for file in files}
    found = _await_ready(connection, None, program)
    while steps := [node for node in order(found, program) if node.id in by_id]:
        node, file = steps[0], by_id[steps[0].id]
        began = time.monotonic()
        _stop(file)
        log = _start(file, program, apache_start)
        found = _await_ready(connection, node.id, program)
        if node.program is None:
            del by_id[node.id]  # no broker: nothing tells its program
        typer.echo(f"node {node.id} runs {program} after {time.monotonic() - began:.1f} s (its log: {log})")


def _node_id(file: Path) -> int:
    properties = read_properties(file)
    return int(properties.get("node.id") or properties.get("broker.id") or -1)


def _stop(file: Path) -> None:
    """Stops the process that has the node's first directory in use, if there is one."""
    pid = lock_holder(directories_of(file)[0] / LOCK_FILE)
    if pid is not None and not end([pid]):
        raise UserError(f"process {pid} of {file} has not ended after SIGTERM")


def _start(file: Path, program: str, apache_start: str | None) -> Path:
    """Starts a node in a session of its own. Returns the path of its log."""
    own = [sys.executable, "-m", __package__.partition(".")[0], "start"]
    command = own if program == ODRADEK else shlex.split(apache_start or "")
    log = file.with_suffix(".log").absolute()
    with log.open("ab") as out:
        subprocess.Popen(
            [*command, str(file)], stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
    return log


def _await_ready(connection: Connection, node_id: int | None, program: str) -> Survey:
    """Waits until the node serves with its program, and nothing keeps the next one from changing."""
    deadline = time.monotonic() + _READY_WAIT_S
    while True:
        found, why = look(connection)
        if found is not None and node_id is not None:
            node = found.nodes.get(node_id)
            if node is None or node.program not in (program, None):
                why.append(f"node {node_id} does not serve yet")
        if found is not None and not why:
            return found
        if time.monotonic() > deadline:
            raise UserError(f"{'; '.join(why)}: the next node must not change")
        time.sleep(_READY_POLL_S)
