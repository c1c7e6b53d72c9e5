"""`python -m tests.install_times [PART ...]`: time, CPU time and size of the installations of a clean clone and home.

The parts are `run`, `check`, `check-broker` and `test`, each with those before it. Prints the table of
docs/development/testing.md.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.release import copy_tracked

#: The target of the Makefile that installs each part.
TARGETS = {"run": ".broker", "check": ".check", "check-broker": ".check-broker", "test": ".installed"}


def size_mb(folder: Path) -> int:
    files = (os.lstat(Path(place) / name) for place, _, names in os.walk(folder) for name in names)
    return round(sum(file.st_blocks * 512 for file in files) / 1e6)


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(clone: Path, home: Path, part: str) -> str:
    """Installs a part. Returns its row."""
    began, began_cpu = time.monotonic(), cpu_s()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    environment |= {"HOME": str(home), "PIP_CACHE_DIR": str(home / "pip")}
    command = ["make", "--silent", f".venv/{TARGETS[part]}"]
    subprocess.run(command, cwd=clone, env=environment, check=True, stdout=sys.stderr)
    lasted, used = time.monotonic() - began, cpu_s() - began_cpu
    return f"| `make {part}` | {lasted:.0f} s | {used:.0f} s | {size_mb(clone / '.venv')} MB |"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.install_times", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(TARGETS)}; default: all")
    options = parser.parse_args()
    # argparse compares an empty list with `choices`, too.
    if unknown := [part for part in options.parts if part not in TARGETS]:
        parser.error(f"there is no part {', '.join(unknown)}: {', '.join(TARGETS)}")
    with tempfile.TemporaryDirectory() as folder:
        clone, home = Path(folder, "clone"), Path(folder, "home")
        home.mkdir()
        copy_tracked(clone)
        print("| installation | time | CPU | `.venv` after it |\n|---|---|---|---|")
        for part in options.parts or TARGETS:
            print(measure(clone, home, part), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
