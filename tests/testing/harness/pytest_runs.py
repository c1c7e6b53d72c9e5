"""Runs of pytest in a folder of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

#: Plugins of other packages, by their entry points: with Hypothesis and Trio they take half of the CPU of a start.
_OTHERS = ("anyio", "hypothesispytest")


def pytest_of(folder: Path, text: str, *arguments: str) -> str:
    (folder / "test_suite.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    others = [word for name in _OTHERS for word in ("-p", f"no:{name}")]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *others, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240, check=False)
    return done.stdout + done.stderr
