"""Installs tools, runs their tests and writes their rows: `python -m compat_tests.ecosystem [TOOL...]`, all by default."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from .. import report
from . import install
from .tools import BY_FOLDER, HERE


def main() -> int:
    chosen = sys.argv[1:] or list(BY_FOLDER)
    failed = install.main(chosen)
    failed = _run_tests([BY_FOLDER[name].home for name in chosen]) or failed
    report.write_tools()
    return _run_tests([HERE / "test_tools.py"]) or failed


def _run_tests(places: list[Path]) -> int:
    command = [sys.executable, "-m", "pytest", "-q", "--durations=0", "--durations-min=5", *map(str, places)]
    return subprocess.run(command, cwd=report.ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
