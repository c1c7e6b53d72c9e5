"""mypy over small programs that use the product."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def type_errors(folder: Path, **programs: str) -> dict[str, list[str]]:
    """Returns mypy's lines about each program, which is written to a file in `folder`; one run has all programs.

    mypy has the options of `tests/types`, whose cache it shares: with another option, each of them checks all modules again.
    """
    (folder / "odradek").symlink_to(ROOT)
    for name, program in programs.items():
        (folder / f"{name}.py").write_text(program)
    command = [sys.executable, "-m", "mypy", "--no-error-summary", *(f"{name}.py" for name in programs)]
    command += ["--cache-dir", str(ROOT / ".mypy_cache"), "--config-file", str(ROOT / "pyproject.toml")]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240, check=False)
    assert done.stderr == "" and done.returncode < 2, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    return {name: [line for line in lines if line.startswith(f"{name}.py:")] for name in programs}


def lines_with_errors(lines: list[str]) -> set[int]:
    """Returns the numbers of the lines of a program that mypy reports."""
    return {int(line.split(":")[1]) for line in lines if ": error: " in line}
