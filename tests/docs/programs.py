"""`python -m tests.docs.programs --write PAGE ...`: notes that the programs of pages ran, with these blocks and this code.

The file `programs.tsv` has a digest for each page. `make test` runs the programs of pages whose digest differs, and `make
nightly` those of all pages; after it, the program writes the new digests. The code of a page: the modules of the commands
and the packages that its blocks name, the packages that its install block installs, and what runs the blocks.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tests.docs.pages import ROOT, blocks, pages

FILE = Path(__file__).with_name("programs.tsv")
#: Pages by the test that runs their programs. The one of `tests/docs` has the name of the page in its parameter.
PAGES_OF_TESTS = {
    "compat_tests/cluster/test_migration_page.py::test_blocks_of_the_page_move_a_cluster_and_a_node_back": "migration.md",
    "compat_tests/tiers/test_page.py::test_blocks_of_the_page_store_segments_in_a_folder": "tiered-storage.md",
    "compat_tests/tiers/test_page.py::test_lines_of_the_page_store_segments_in_a_bucket": "tiered-storage.md",
    "spark_examples/tests/test_guide.py::test_blocks_of_the_guide_run_in_order": "spark.md",
}
_TEST_OF_A_PAGE = re.compile(r"tests/docs/test_blocks\.py::test_blocks_of_a_page_run_in_order\[(.+)\]")
#: The code that runs the blocks.
_HARNESS = ("tests/docs/shells.py", "tests/docs/environments.py")
_COMMAND = re.compile(r"\bodradek ([a-z]+)(?: ([a-z-]+))?")
_IMPORTED = re.compile(r"(?:import|from) odradek(?:\.(\w+))?")
_EXTRA = re.compile(r"\[([a-z,-]+)\]")
#: Packages that do the work of a command's own.
_BENEATH = {"query": ("columns", "archive")}


def page_of(test: str) -> str | None:
    """Returns the name of the page whose programs a test runs, or None for another test."""
    found = _TEST_OF_A_PAGE.fullmatch(test)
    return found[1] if found else PAGES_OF_TESTS.get(test)


def pages_with_programs() -> list[str]:
    """Returns the names of all pages with programs."""
    named = re.findall(r"^(\S+)\t", FILE.read_text(encoding="utf-8"), re.MULTILINE) if FILE.exists() else []
    return sorted({*named, *PAGES_OF_TESTS.values()})


def digest(page: str) -> str:
    """Returns the digest of the blocks of a page, of their code and of their requirements."""
    named = [found for found in pages() if found.name == page and "development" not in found.parts]
    programs = blocks(named[0])
    made = hashlib.sha256("\n".join(f"{one.language} {one.title}\n{one.text}" for one in programs).encode())
    text = "\n".join(one.text for one in programs if one.language in ("sh", "python"))
    made.update("\n".join(_requirements(text)).encode())
    for file in sorted(set(_code(text))):
        made.update(f"\n{file.relative_to(ROOT)}\n".encode() + file.read_bytes())
    return made.hexdigest()[:16]


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
    for package in _IMPORTED.findall(text):
        yield from _files(ROOT / (package or "testing"))


def _modules_of_command(first: str, second: str) -> Iterator[Path]:
    from odradek.cli.client.commands import command_of

    found = command_of([word for word in (first, second) if word])
    if found is None:
        yield from _files(ROOT / "cli" / f"{first}_command")
        return
    module = found[1].module.partition(":")[0]
    folder, parts = (ROOT, module[1:].split(".")) if module.startswith(".") else (ROOT / "cli", module.split("."))
    for name in (parts[0], *_BENEATH.get(parts[0], ())):
        yield from _files(folder / name)


def _files(path: Path) -> Iterator[Path]:
    """Returns the modules of a package, or the module with that name."""
    if path.is_dir():
        yield from path.rglob("*.py")
    elif path.with_suffix(".py").is_file():
        yield path.with_suffix(".py")


def written() -> dict[str, str]:
    """Returns the digests of the file."""
    if not FILE.exists():
        return {}
    return dict(line.split("\t") for line in FILE.read_text(encoding="utf-8").splitlines())


def is_changed(page: str) -> bool:
    """Whether a page or its code differs from what ran last."""
    return written().get(page) != digest(page)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.docs.programs", description=__doc__)
    parser.add_argument("--write", nargs="*", metavar="PAGE", help="these pages ran; without a name, all of the file")
    options = parser.parse_args()
    if options.write is None:
        print(*(page for page in pages_with_programs() if is_changed(page)), sep="\n")
        return 0
    known = written()
    known |= {page: digest(page) for page in options.write or pages_with_programs()}
    FILE.write_text("".join(f"{page}\t{value}\n" for page, value in sorted(known.items())), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
