"""Virtual environments with the packages of a page's install block, and nothing else.

The first block of a page has the title "install", and the three ways to install the same: in a checkout, from a built wheel,
and by name. The second is run, with the wheel of the checkout.
"""

from __future__ import annotations

import atexit
import functools
import os
import re
import shlex
import shutil
import sys
import tempfile
import venv
from pathlib import Path

from tests.docs.pages import Block, blocks
from tests.installing import install
from tests.wheels import built_wheel

TITLE = "install"
DEADLINE_S = 240


def install_block(page: Path) -> Block | None:
    first = next(iter([block for block in blocks(page) if block.language in ("sh", "python")]), None)
    return first if first is not None and first.title == TITLE else None


def ways(block: Block) -> list[str]:
    """Returns the commands of an install block, without the signs of a comment before them and the remarks behind."""
    return [re.sub(r"\s+#.*", "", line.removeprefix("# ")) for line in block.text.splitlines()]


def expected_ways(requirements: list[str]) -> list[str]:
    """Returns the commands of the three ways, for the first of which `.` is the package."""
    own, *others = requirements
    named = [own, own.replace(".", "odradek", 1), own.replace(".", "odradek", 1)]
    options = ("", "-f dist ", "")
    return [
        f"pip install {option}{' '.join(map(shlex.quote, (one, *others)))}"
        for option, one in zip(options, named, strict=True)
    ]


def requirements(block: Block) -> list[str]:
    return shlex.split(ways(block)[0])[2:]


@functools.cache
def environment(*requirements: str) -> Path:
    """Makes an environment, once per process. Returns its folder of commands."""
    folder = Path(tempfile.mkdtemp()) / "environment"
    atexit.register(shutil.rmtree, folder.parent, ignore_errors=True)
    venv.create(folder, with_pip=False)
    own, *others = requirements
    named = [own.replace(".", "odradek", 1), *others]
    # Python compiles what the blocks import.
    links = ("--find-links", str(built_wheel().parent))
    install(folder / "bin" / "python", *links, *named, deadline_s=DEADLINE_S)
    return folder / "bin"


def search_path(commands: Path, *others: Path) -> str:
    """Returns a PATH with an environment's commands and the system's, without those of the tests' environment."""
    own = Path(sys.executable).parent
    system = [folder for folder in os.environ["PATH"].split(os.pathsep) if Path(folder) != own]
    return os.pathsep.join([str(commands), *map(str, others), *system])
