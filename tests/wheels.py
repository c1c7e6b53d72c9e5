"""The wheel as `make dist` builds it."""

from __future__ import annotations

import atexit
import functools
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.release import copy_tracked, describe

#: Replaces the public address of a release.
ADDRESS = "https://example.org/odradek"


@functools.cache
def built_wheel() -> Path:
    """Builds the wheel of tracked files, once per process, into its own folder. Takes 4 s."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    copy_tracked(folder / "source")
    describe(folder / "source", ADDRESS)
    wheels = folder / "wheels"
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(wheels)]
    subprocess.run([*build, str(folder / "source")], check=True, capture_output=True)
    (made,) = wheels.glob("*.whl")
    return made
