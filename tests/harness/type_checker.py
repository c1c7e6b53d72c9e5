"""mypy over a small program that uses the product."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def type_errors(program: str, folder: Path) -> list[str]:
    """Returns mypy's lines about a program, which is written to a file in `folder`."""
    (folder / "odradek").symlink_to(ROOT)
    (folder / "user.py").write_text(program)
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--no-error-summary", "user.py"]
    command += ["--cache-dir", str(ROOT / ".mypy_cache"), "--config-file", str(ROOT / "pyproject.toml")]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240, check=False)
    assert done.stderr == ""
    return done.stdout.splitlines()
