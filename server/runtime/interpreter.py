"""Interpreters of Python that a broker starts: fresh ones, with this one's search path and nothing of its program."""

from __future__ import annotations

import os
import sys
from pathlib import Path

#: The command of an interpreter, to be followed by `-m MODULE` or `-c CODE`. `-P` keeps the working directory from the
#: front of the search path, where its files could hide modules.
INTERPRETER = (sys.executable, "-P")


def interpreter_environment() -> dict[str, str]:
    """The environment of such a process. "" in the search path is the working directory of this one."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path)}
