"""CPython interpreters of this machine: `python3.N` and `python3.Nt` on PATH, and the versions that pyenv has installed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

#: Odradek runs on this version and later ones (`requires-python`).
OLDEST = (3, 11)
_COMMAND = re.compile(r"python3\.\d+t?")
_DEADLINE_S = 60
_DESCRIBE = """
import json, sys, sysconfig
print(json.dumps([sys.implementation.name, sys.version_info[:3], bool(sysconfig.get_config_var("Py_GIL_DISABLED"))]))
"""


@dataclass(frozen=True, order=True)
class Interpreter:
    """`version`: major, minor and micro."""

    version: tuple[int, int, int]
    is_free_threaded: bool
    executable: Path

    @property
    def name(self) -> str:
        """The minor version, such as 3.13, with a `t` for a free-threaded build."""
        return f"{self.version[0]}.{self.version[1]}{'t' if self.is_free_threaded else ''}"

    @property
    def full_name(self) -> str:
        return ".".join(map(str, self.version)) + ("t" if self.is_free_threaded else "")


def this_interpreter() -> Interpreter:
    is_free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    return Interpreter((*sys.version_info[:2], sys.version_info[2]), is_free_threaded, Path(sys.executable))


def search_folders(environment: dict[str, str]) -> list[Path]:
    """Returns the folders of PATH, then those of pyenv's versions."""
    on_path = [Path(folder) for folder in environment.get("PATH", os.defpath).split(os.pathsep) if folder]
    root = environment.get("PYENV_ROOT") or Path(environment.get("HOME", "/"), ".pyenv")
    return on_path + sorted(Path(root, "versions").glob("*/bin"))


def found_in(folders: Iterable[Path]) -> dict[str, Interpreter]:
    """Returns the interpreters by name, oldest first; of each minor version the newest micro version."""
    newest: dict[str, Interpreter] = {}
    for interpreter in sorted(_all_in(folders)):
        newest[interpreter.name] = interpreter
    return newest


def other_interpreters() -> dict[str, Interpreter]:
    """Returns all but the one that runs this program."""
    found = found_in(search_folders(dict(os.environ)))
    found.pop(this_interpreter().name, None)
    return found


def _all_in(folders: Iterable[Path]) -> Iterator[Interpreter]:
    asked: set[Path] = set()
    for folder in folders:
        for command in sorted(folder.glob("python3.*")):
            if not _COMMAND.fullmatch(command.name) or command.resolve() in asked:
                continue
            asked.add(command.resolve())
            interpreter = _described(command)
            if interpreter is not None:
                yield interpreter


def _described(command: Path) -> Interpreter | None:
    """Returns None for what is no CPython, too old, or does not run: pyenv's shims of versions that are not active."""
    try:
        ask = [command, "-I", "-c", _DESCRIBE]
        done = subprocess.run(ask, capture_output=True, text=True, timeout=_DEADLINE_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    implementation, (major, minor, micro), is_free_threaded = json.loads(done.stdout)
    if implementation != "cpython" or (major, minor) < OLDEST:
        return None
    return Interpreter((major, minor, micro), is_free_threaded, command)
