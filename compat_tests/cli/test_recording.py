"""The recording on docs/specialists/command-line-tour.md: its commands run, print what the page shows, and make its picture.

`ODRADEK_SCREENSHOTS=docs/images` writes picture and recording to the guide's directory.
"""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from pathlib import Path

import pytest

from compat_tests.cli.recorded_svg import svg
from compat_tests.cli.recording import COLUMNS, STEPS, Recording, recorded
from compat_tests.cli.tour import PAGE

CAST, PICTURE = "command-line-tour.cast", "command-line-tour.svg"
IMAGES = PAGE.parents[1] / "images"
MOST_BYTES = 150_000


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return recorded(tmp_path_factory.mktemp("empty"))


def commands_of_the_page() -> list[str]:
    section = PAGE.read_text(encoding="utf-8").partition("## From an empty folder")[2].partition("\n## ")[0]
    return re.findall(r"^\$ (.*)$", section, re.MULTILINE)


def lines_of(picture: str) -> list[str]:
    """Returns the lines of text in a picture."""
    found: defaultdict[float, str] = defaultdict(str)
    for text in ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text"):
        found[float(text.attrib["y"])] += (text.text or "").replace("\xa0", " ")
    return [line for y in sorted(found) if (line := found[y].rstrip())]


def check_picture(picture: str) -> None:
    assert len(picture.encode()) < MOST_BYTES
    lines = lines_of(picture)
    assert [line.removeprefix("$ ") for line in lines if line.startswith("$ ")] == commands_of_the_page()
    assert set(re.findall(r"https?://[^\"]*", picture)) == {"http://www.w3.org/2000/svg"}


def expected_steps(recording: Recording) -> list[tuple[int, str]]:
    """Returns status and line of each step. Doctor reports a disk that is almost full."""
    steps = [(0, line) for _, line in STEPS]
    doctor = [command for command, _ in STEPS].index("odradek doctor")
    if "of the disk is free" in recording.outputs[doctor]:
        steps[doctor] = (1, "")
    return steps


def test_commands_of_the_page_succeed_and_print_its_lines(recording: Recording) -> None:
    assert recording.commands == commands_of_the_page()
    steps = expected_steps(recording)
    assert recording.statuses == [status for status, _ in steps], recording.outputs[-5:]
    lacking = [
        (command, line)
        for (command, _), (_, line), output in zip(STEPS, steps, recording.outputs, strict=True)
        if line and line not in output.splitlines()
    ]
    assert lacking == []
    assert all(one in recording.shown for one in ("LEADER", "CONTROLLER", "LAG"))


def test_recording_becomes_a_picture_and_a_file_for_asciinema(recording: Recording, tmp_path: Path) -> None:
    folder = Path(os.environ.get("ODRADEK_SCREENSHOTS", tmp_path))
    (folder / CAST).write_text(recording.cast, encoding="utf-8")
    (folder / PICTURE).write_text(svg(recording), encoding="utf-8")
    check_picture((folder / PICTURE).read_text(encoding="utf-8"))
    times = [at for at, _, _ in recording.events]
    assert times == sorted(times) and recording.cast.startswith(f'{{"version": 2, "width": {COLUMNS}')


def test_picture_of_the_guide_has_the_commands_of_the_page() -> None:
    """A change of the steps needs a new recording: `ODRADEK_SCREENSHOTS=docs/images`."""
    committed = Recording.read((IMAGES / CAST).read_text(encoding="utf-8"))
    assert committed.commands == commands_of_the_page()
    picture = (IMAGES / PICTURE).read_text(encoding="utf-8")
    check_picture(picture)
    shown = [line.split() for line in f"$ {''.join(committed.outputs)}".splitlines()]
    # Texts in the picture have places, so it lacks the blanks between them.
    assert ["".join(line.split()) for line in lines_of(picture)] == [
        "".join(words) for words in shown if words not in ([], ["$"])
    ]
