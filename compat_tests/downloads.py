"""Commands that download: a registry that is briefly unavailable fails no test run."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from compat_tests.needed_tools import needed

_TRIES = 3
_NPM_DEADLINE_S = 280


def download(command: Sequence[str], *, again: Sequence[str] = (), **how: Any) -> subprocess.CompletedProcess[str]:
    """Runs a command until it succeeds, three times at most, and returns the last result. `again` are further arguments from
    the second time on; `how` are arguments of `subprocess.run`.
    """
    done = subprocess.run([*command], capture_output=True, text=True, **how)
    for _ in range(_TRIES - 1):
        if done.returncode == 0:
            break
        done = subprocess.run([*command, *again], capture_output=True, text=True, **how)
    return done


def install_npm(pinned: Path, home: Path) -> Path:
    """Installs the packages that the lock file in `pinned` names, unless `home` has them. Returns `home`/node_modules."""
    needed("npm")
    lock, complete = (pinned / "package-lock.json").read_bytes(), home / ".complete"
    if not complete.exists() or complete.read_bytes() != lock:
        home.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(pinned / name, home / name)
        command = ["npm", "ci", "--silent", "--no-audit", "--no-fund"]
        done = download(command, cwd=home, timeout=_NPM_DEADLINE_S)
        assert done.returncode == 0, done.stdout + done.stderr
        complete.write_bytes(lock)
    return home / "node_modules"
