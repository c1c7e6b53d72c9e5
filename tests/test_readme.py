"""The README's blocks, pasted from first to last as a new user would."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.environments import TITLE, environment, expected_ways, requirements, ways
from tests.docs.pages import ROOT, Block, blocks
from tests.docs.shells import Shells

pytestmark = pytest.mark.usefixtures("processes")

README = ROOT / "README.md"
#: Two screens.
MOST_LINES = 80
#: The replacement of `make run`, which tests/test_make_run.py tests: here the broker is the checkout's.
MAKE_RUN = Block("sh", "first shell", "odradek start --port 9092")


def install() -> Block:
    (found,) = [block for block in blocks(README) if block.title == TITLE]
    return found


@pytest.fixture
def shells(tmp_path: Path) -> Iterator[Shells]:
    opened = Shells(tmp_path, environment(*requirements(install())))
    yield opened
    opened.stop()


def test_blocks_of_the_readme_run_in_order_and_print_what_they_wrote(shells: Shells) -> None:
    """`make test` runs this test."""
    pasted = [block for block in blocks(README) if block.language in ("sh", "python") and block.title != TITLE]
    assert [block.text.split("#")[0].strip() for block in pasted[:2]] == ["make run", "make test"]
    shells.run(MAKE_RUN)
    assert [shells.run(block) for block in pasted[2:]] == ["b'hello'\n"]
    assert ways(install()) == expected_ways(requirements(install()))
    folders = [f"{entry.name}/" for entry in shells.folder.iterdir() if entry.name.startswith("odradek-")]
    ignored = subprocess.run(["git", "check-ignore", "--no-index", *folders], cwd=ROOT, capture_output=True, text=True)
    assert folders == ["odradek-data/"] and ignored.stdout.split() == folders, "a clone would show it as a new file"


def test_the_readme_fits_two_screens_and_shows_what_the_commands_print() -> None:
    text = README.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MOST_LINES
    assert "odradek: serving on 127.0.0.1:9092 (data in odradek-data)" in text
    steps = (ROOT / "tests" / "run").read_text(encoding="utf-8")
    (shown,) = [block.text for block in blocks(README) if block.text.startswith("== style")]
    assert all(f"step {line[3:].split(';')[0]}" in steps.replace('"', "") for line in shown.splitlines())
