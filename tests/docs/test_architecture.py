"""The architecture page agrees with the code: its files exist, no walk enters a package twice, its drawings are current."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from graphlib import TopologicalSorter

import grimp
import pytest

from tests.docs.pages import DOCS, ROOT

DEVELOPMENT = DOCS / "development"
PAGE = (DEVELOPMENT / "architecture.md").read_text(encoding="utf-8")
_PROGRAMS = re.compile(r"odradek\.(tests|compat_tests|benchmarks|docs|examples|spark_examples)\b")
_PATH = re.compile(r"`((?:[a-z_]+/)+[a-z_]+\.py)`")


def walks() -> dict[str, list[str]]:
    """Returns the files of each walk, in order."""
    part = PAGE[PAGE.index("## Seven ways") : PAGE.index("## A change of metadata")]
    return {title: _PATH.findall(text) for title, text in re.findall(r"### (.*?)\n(.*?)(?=\n### |\Z)", part, re.S)}


def package_of(path: str) -> str:
    """Returns the package of a path; subpackages of server/ and coordinator/ count separately."""
    parts = path.split("/")
    return "/".join(parts[:2]) if parts[0] in ("server", "coordinator") and len(parts) > 2 else parts[0]


def test_the_files_of_the_page_exist() -> None:
    named = [
        path
        for path in _PATH.findall(PAGE)
        if path.split("/")[0] in ("server", "coordinator", "replication", "storage")
    ]
    assert len(named) > 60
    assert [path for path in named if not (ROOT / path).is_file()] == []


@pytest.mark.parametrize("title", walks())
def test_a_walk_enters_no_package_twice(title: str) -> None:
    files = walks()[title]
    entered = [package_of(path) for path in files]
    order = [package for number, package in enumerate(entered) if number == 0 or entered[number - 1] != package]
    assert len(files) >= 2 and len(order) == len(set(order)), order


def test_the_walks_are_those_of_six_requests() -> None:
    assert [title.split(",")[0] for title in walks()] == [
        "Produce", "Fetch", "Follower's Fetch", "Follower's Fetch", "JoinGroup", "TxnOffsetCommit", "ShareFetch",
    ]  # fmt: skip


@pytest.mark.usefixtures("processes")
def test_the_drawings_are_those_of_the_code() -> None:
    """An import cycle among packages makes the program fail."""
    code = "import diagrams, json; print(json.dumps(diagrams.drawings()))"
    drawn = subprocess.run([sys.executable, "-c", code], cwd=DEVELOPMENT, capture_output=True, text=True, check=False)
    assert drawn.returncode == 0, drawn.stderr
    made = json.loads(drawn.stdout)
    stale = [name for name, text in made.items() if (DEVELOPMENT / name).read_text(encoding="utf-8") != text]
    assert stale == [], "run: python docs/development/diagrams.py"


def test_no_files_import_each_other_in_a_circle() -> None:
    """Imports within functions and for types count, too. A circle raises graphlib.CycleError."""
    modules = grimp.build_graph("odradek", include_external_packages=False, exclude_type_checking_imports=False)
    product = {name for name in modules.modules if not _PROGRAMS.match(name)}
    assert len(product) > 500
    TopologicalSorter({name: modules.find_modules_directly_imported_by(name) & product for name in product}).prepare()
