"""Blocks of docs/testing-frameworks.md as test suites; `python -m tests.testing.frameworks FOLDER` runs the large ones.

Each large block gets an environment in the folder, which pip fills. test_frameworks.py runs the blocks with few packages,
and spark_examples/tests runs the block of PySpark.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

from tests.docs.pages import DOCS, ROOT, blocks

_PAGE = DOCS / "testing-frameworks.md"
#: Blocks that need only the packages of the tests.
SMALL = ("test_faststream.py", "test_fastapi.py", "test_django.py")
#: Blocks with their own environments, and the packages that pip installs there.
LARGE = {
    "test_quix.py": ["quixstreams>=3.20,<4"],
    "test_faust.py": ["faust-streaming>=0.11,<0.16"],
}
SPARK = ("conftest.py", "test_pyspark.py")


def text_of(title: str) -> str:
    """Returns the text of the block with this title."""
    (found,) = [block.text for block in blocks(_PAGE) if block.title == title]
    return found


def titles() -> list[str]:
    return [block.title for block in blocks(_PAGE) if block.language == "python"]


def run(python: str, folder: Path, names: list[str]) -> subprocess.CompletedProcess[str]:
    """Runs blocks as files of one suite, with the checkout's package."""
    for name in names:
        (folder / name).write_text(text_of(name), encoding="utf-8")
    package = folder / "package"
    package.mkdir(exist_ok=True)
    if not (package / "odradek").exists():
        (package / "odradek").symlink_to(ROOT)
    plugins = ["-p", "no:cacheprovider", "-p", "no:django"]
    if python != sys.executable:  # pytest finds the plugin only of an installed package
        plugins += ["-p", "odradek.testing.pytest_plugin"]
    command = [python, "-m", "pytest", "-q", "--rootdir", str(folder), *plugins, *names]
    environment = {**os.environ, "PYTHONPATH": str(package)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=280)


def main(folder: Path) -> int:
    with (ROOT / "pyproject.toml").open("rb") as file:
        base = tomllib.load(file)["project"]["dependencies"]
    failed = 0
    for name, packages in LARGE.items():
        place = folder / name.removesuffix(".py")
        venv.create(place / "venv", with_pip=True)
        python = str(place / "venv" / "bin" / "python")
        install = [python, "-m", "pip", "install", "-q", *base, *packages, "pytest", "pytest-asyncio"]
        subprocess.run(install, check=True, timeout=900)
        done = run(python, place, [name])
        print(name, done.stdout.strip().splitlines()[-1])
        if done.returncode:
            print(done.stdout, done.stderr)
            failed = 1
    return failed


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]).resolve()))
