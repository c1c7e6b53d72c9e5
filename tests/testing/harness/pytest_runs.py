"""Runs of pytest in a folder of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def pytest_of(folder: Path, text: str, *arguments: str) -> str:
    (folder / "test_suite.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240, check=False)
    return done.stdout + done.stderr
