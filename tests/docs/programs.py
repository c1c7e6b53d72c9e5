"""`python -m tests.docs.programs --ran JOURNALS`: notes that the programs of pages ran, with these blocks and this code.

The file `programs.tsv` has a digest for each page. `make test` runs the programs of pages whose digest differs, and `make
nightly` those of all pages; both write the digests of the pages whose programs passed. The code of a page is what it shows:
the modules of the commands that its blocks name, the modules that define the names which it imports, the packages that its
install block installs, and what runs the blocks. The modules below these have tests of their own. Comments and docstrings
change no program.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from tests.docs.pages import ROOT, blocks, pages

FILE = Path(__file__).with_name("programs.tsv")
#: Pages by the test that runs their programs, a pattern of their names. The test of `tests/docs/test_blocks.py` has the name
#: of its page in its parameter.
PAGES_OF_TESTS = {
    "compat_tests/cluster/test_migration_page.py::test_blocks_of_the_page_move_a_cluster_and_a_node_back": "migration.md",
    "compat_tests/tiers/test_page.py::test_blocks_of_the_page_store_segments_in_a_folder": "tiered-storage.md",
    "compat_tests/tiers/test_page.py::test_lines_of_the_page_store_segments_in_a_bucket": "tiered-storage.md",
    "spark_examples/tests/test_guide.py::test_blocks_of_the_guide_run_in_order": "spark.md",
    "tests/docs/test_blocks_in_parallel.py::test_blocks_of_the_pages_on_testing_run_under_xdist": "testing*.md",
    "tests/testing/test_frameworks.py::test_recipes_run": "testing-frameworks.md",
}
_TEST_OF_A_PAGE = re.compile(r"tests/docs/test_blocks\.py::test_blocks_of_a_page_run_in_order\[(.+)\]")
#: The code that runs the blocks.
_HARNESS = ("tests/docs/shells.py", "tests/docs/environments.py")
_COMMAND = re.compile(r"\bodradek ([a-z]+)(?: ([a-z-]+))?")
#: An import of names from the package or one of its modules, then the use of a name of the package itself.
_IMPORTED = re.compile(r"\bfrom odradek((?:\.\w+)*) import ([\w, ]+)")
_ATTRIBUTE = re.compile(r"\bodradek\.(\w+)")
#: The fixtures of the test kit, which a page need not import.
_FIXTURE = re.compile(r"\bodradek_\w+")
_PLUGIN = "testing/pytest_plugin.py"
_EXTRA = re.compile(r"\[([a-z,-]+)\]")


def pages_of(test: str) -> list[str]:
    """Returns the names of the pages whose programs a test runs, none for another test."""
    if found := _TEST_OF_A_PAGE.fullmatch(test):
        return [found[1]]
    pattern = PAGES_OF_TESTS.get(test.partition("[")[0])
    return sorted(page.name for page in _pages() if fnmatchcase(page.name, pattern)) if pattern else []


def pages_with_programs() -> list[str]:
    """Returns the names of all pages with programs."""
    of_tests = {page for test in PAGES_OF_TESTS for page in pages_of(test)}
    return sorted({*written(), *of_tests})


@cache
def _pages() -> tuple[Path, ...]:
    return tuple(page for page in pages() if "development" not in page.parts)


def path_of(page: str) -> Path:
    """Returns the file of a page, whose name is that of its file."""
    return next(found for found in _pages() if found.name == page)


def digest(page: str) -> str:
    """Returns the digest of the blocks of a page, of their code and of their requirements."""
    programs = blocks(path_of(page))
    made = hashlib.sha256("\n".join(f"{one.language} {one.title}\n{one.text}" for one in programs).encode())
    text = "\n".join(one.text for one in programs if one.language in ("sh", "python"))
    made.update("\n".join(_requirements(text)).encode())
    for file in sorted(set(_code(text))):
        made.update(f"\n{file.relative_to(ROOT)}\n{_without_comments(file)}".encode())
    return made.hexdigest()[:16]


@cache
def _without_comments(file: Path) -> str:
    """Returns the source of a module without its docstrings and lines of comment."""
    text = file.read_text(encoding="utf-8")
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                lines[first.lineno - 1 : first.end_lineno] = [""] * ((first.end_lineno or 0) - first.lineno + 1)
    return "\n".join(line for line in lines if line.strip() and not line.lstrip().startswith("#"))


def _requirements(text: str) -> Iterator[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    yield from project["dependencies"]
    extras = project["optional-dependencies"]
    for named in _EXTRA.findall(text):
        for extra in named.split(","):
            yield from extras.get(extra, ())


def _code(text: str) -> Iterator[Path]:
    yield from (ROOT / name for name in _HARNESS)
    for first, second in _COMMAND.findall(text):
        yield from _modules_of_command(first, second)
    for module, names in _IMPORTED.findall(text):
        yield from _modules_of_imported(module, names)
    for name in _ATTRIBUTE.findall(text):
        yield from _modules_of_name(ROOT / "__init__.py", name)
    if _FIXTURE.search(text):
        yield ROOT / _PLUGIN


def _modules_of_command(first: str, second: str) -> Iterator[Path]:
    from odradek.cli.client.commands import command_of

    found = command_of([word for word in (first, second) if word])
    if found is None:
        file = ROOT / "cli" / f"{first}_command.py"
        yield from [file] if file.is_file() else ()
        return
    module = found[1].module.partition(":")[0]
    yield _package([*module[1:].split(".")] if module.startswith(".") else ["cli", *module.split(".")])


def _modules_of_imported(module: str, names: str) -> Iterator[Path]:
    file = _package(module.split(".")[1:])
    for name in re.findall(r"\w+", names):
        yield from _modules_of_name(file, name)


def _package(names: list[str]) -> Path:
    """Returns the file of a module of the package."""
    path = ROOT.joinpath(*names)
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _modules_of_name(file: Path, name: str) -> Iterator[Path]:
    """Yields the module that defines a name, from one that has it; none if no module of the package has it."""
    while file.is_file():
        beyond = [imported for imported, imported_name in _imports(file) if imported_name == name]
        if not beyond:
            if file.name != "__init__.py":
                yield file
            return
        file = beyond[0]


@cache
def _imports(file: Path) -> tuple[tuple[Path, str], ...]:
    """Returns the modules of the package that a module imports relatively, each with a name from there."""
    found = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            folder = file.parents[node.level - 1]
            for alias in node.names:
                names = [*folder.relative_to(ROOT).parts, *(node.module.split(".") if node.module else ())]
                module = _package([*names, alias.name])
                found.append((module if module.is_file() else _package(names), alias.name))
    return tuple(found)


def written() -> dict[str, str]:
    """Returns the digests of the file."""
    if not FILE.exists():
        return {}
    return dict(line.split("\t") for line in FILE.read_text(encoding="utf-8").splitlines())


def is_changed(page: str) -> bool:
    """Whether a page or its code differs from what ran last."""
    return written().get(page) != digest(page)


def pages_that_passed(journals: Path) -> set[str]:
    """Returns the pages all of whose tests ran and passed in a run, by its journals (tests/plugins/run_journal.py)."""
    outcomes: dict[str, set[str]] = defaultdict(set)
    passed: dict[str, set[str]] = defaultdict(set)
    for file in journals.rglob("*.jsonl"):
        for line in file.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            for page in pages_of(entry.get("test", "")):
                outcomes[page].add(entry["kind"])
                passed[page] |= {entry["test"].partition("[")[0]} if entry["kind"] == "passed" else set()
    # A page may have several tests; one that did not run leaves the digest as it is.
    wanted = {page: {test for test in PAGES_OF_TESTS if page in pages_of(test)} for page in outcomes}
    return {
        page
        for page, seen in outcomes.items()
        if passed[page] and seen <= {"started", "passed"} and wanted[page] <= passed[page]
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.docs.programs", description=__doc__)
    parser.add_argument(
        "--ran", type=Path, metavar="JOURNALS", help="writes the digests of the pages that passed in a run"
    )
    options = parser.parse_args()
    if options.ran is None:
        print(*(page for page in pages_with_programs() if is_changed(page)), sep="\n")
        return 0
    known = written()
    known |= {page: digest(page) for page in pages_that_passed(options.ran)}
    FILE.write_text("".join(f"{page}\t{value}\n" for page, value in sorted(known.items())), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
