"""The README's blocks, pasted from first to last as a new user would."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, Block, blocks
from tests.docs.shells import Shells

pytestmark = pytest.mark.usefixtures("processes")

README = ROOT / "README.md"
#: The replacement of `make run`, which tests/test_make_run.py tests: here the broker is the checkout's.
MAKE_RUN = Block("sh", "first shell", "odradek start --port 9092")


def pasted() -> list[Block]:
    """Returns the blocks in order, except PySpark's: spark_examples/tests/test_guide.py runs it in a Spark session."""
    found = [MAKE_RUN if block.text.startswith("make run") else block for block in blocks(README)]
    return [block for block in found if "pyspark" not in block.text]


@pytest.fixture
def shells(tmp_path: Path) -> Iterator[Shells]:
    opened = Shells(tmp_path)
    yield opened
    opened.stop()


def test_blocks_of_the_readme_run_in_order_and_print_what_they_wrote(shells: Shells) -> None:
    printed = {block.text.splitlines()[0]: shells.run(block) for block in pasted()}
    tour = printed["# kafka-python"].splitlines()
    assert [line.rsplit(" ", 1)[1] for line in tour] == [f"{number}'" for number in range(10)]
    assert printed["# aiokafka"] == "b'hello from a coroutine'\n"
    folders = [f"{entry.name}/" for entry in shells.folder.iterdir() if entry.name.startswith("odradek-")]
    ignored = subprocess.run(["git", "check-ignore", "--no-index", *folders], cwd=ROOT, capture_output=True, text=True)
    assert len(folders) == 2 and ignored.stdout.split() == folders, "a clone would show them as new files"
    assert "# in your own tests" in printed and "under-replicated 0" in printed["odradek cluster status"]
