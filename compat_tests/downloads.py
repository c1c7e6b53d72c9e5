"""Commands that download: a registry that is briefly unavailable fails no test run."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import Any

_TRIES = 3


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
