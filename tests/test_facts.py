"""Facts about files are found once for a file's bytes and the code that finds them."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from tests.harness.facts import KeptFacts, digest_of
from tests.harness.sources import text_of

NAMES = ("README.md", "version.py")


class Finder:
    """A run of a process: the number of lines of files, and the files that were read for it."""

    def __init__(self, folder: Path) -> None:
        self.asked: list[str] = []

        def lines_of(name: str) -> int:
            self.asked.append(name)
            return text_of(name).count("\n")

        self.facts = KeptFacts(lines_of, folder)
        self.found = [self.facts(name) for name in NAMES]
        self.facts.save()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    first = Finder(tmp_path)
    assert first.asked == list(NAMES)
    assert first.found == [text_of(name).count("\n") for name in NAMES]
    (path,) = tmp_path.iterdir()
    return path


def test_later_process_reads_no_unchanged_file(file: Path) -> None:
    later = Finder(file.parent)
    assert later.asked == []
    assert later.found == [text_of(name).count("\n") for name in NAMES]


def test_changed_file_is_read_again(file: Path) -> None:
    code, facts = pickle.loads(file.read_bytes())
    assert facts["version.py"] == (digest_of("version.py"), text_of("version.py").count("\n"))
    file.write_bytes(pickle.dumps((code, {**facts, "version.py": (digest_of("README.md"), -1)})))
    later = Finder(file.parent)
    assert later.asked == ["version.py"]
    assert later.found == [text_of(name).count("\n") for name in NAMES]
    assert Finder(file.parent).asked == []


def test_changed_code_finds_all_facts_anew(file: Path) -> None:
    code, facts = pickle.loads(file.read_bytes())
    file.write_bytes(pickle.dumps((bytes(len(code)), dict.fromkeys(facts, (bytes(32), -1)))))
    assert Finder(file.parent).asked == list(NAMES)


@pytest.mark.parametrize("size", [0, 1, 40])
def test_incomplete_file_of_facts_is_replaced(file: Path, size: int) -> None:
    file.write_bytes(file.read_bytes()[:size])
    assert Finder(file.parent).asked == list(NAMES)
    assert Finder(file.parent).asked == []
