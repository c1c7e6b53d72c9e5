"""The blocks of the pages run as a reader would paste them (tests/docs/shells.py), each page from first to last."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import ROOT, Block, blocks, pages
from tests.docs.shells import KAFKA_TOOLS, Shells

pytestmark = pytest.mark.usefixtures("processes")

#: Pages with tests of their own: the Spark guide, the way from Apache Kafka, frameworks with their own environments, and
#: the README.
ELSEWHERE = {
    "docs/migration.md": "compat_tests/cluster/test_migration_page.py",
    "docs/spark.md": "spark_examples/tests/test_guide.py",
    "docs/testing-frameworks.md": "tests/testing/test_frameworks.py",
    "README.md": "tests/test_readme.py",
}
PASTED = ("sh", "python")
#: Blocks of other languages, and those that need other servers; with the tests that run them.
TRIED_BY = {
    ("docs/console.md", "properties"): "tests/console/test_single_sign_on.py",
    ("docs/operations.md", "ini"): "tests/docs/test_deployment.py",
    ("docs/operations.md", "properties"): "tests/docs/test_deployment.py",
    ("docs/operations.md", "dockerfile"): "tests/docs/test_deployment.py",
    ("docs/security-kerberos.md", "properties"): "compat_tests/security/test_kerberos.py",
    ("docs/security-kerberos.md", "python"): "compat_tests/security/test_kerberos.py",
    ("docs/testing.md", "yaml"): "tests/docs/test_deployment.py",
}
#: Output of commands, and drawings.
NOT_PASTED = ("text", "mermaid")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def pasted(page: Path) -> list[Block]:
    """Returns the blocks to run, in order, without `make test` and its parts, of which one runs this test."""
    languages = [language for language in PASTED if (name_of(page), language) not in TRIED_BY]
    found = [block for block in blocks(page) if block.language in languages]
    return [block for block in found if not block.text.startswith(("make check", "make test"))]


def pages_to_paste_from() -> list[Path]:
    return [page for page in pages() if name_of(page) not in ELSEWHERE and pasted(page)]


@pytest.mark.parametrize("page", pages_to_paste_from(), ids=lambda page: page.name)
def test_blocks_of_a_page_run_in_order(page: Path, tmp_path: Path) -> None:
    ran = pasted(page)
    shells = Shells(tmp_path, tools=any(name in block.text for block in ran for name in KAFKA_TOOLS))
    try:
        for block in ran:
            shells.run(block)
        if any(shells.folder.glob("test_*.py")):
            shells.run(Block("sh", "", "pytest -q -p no:cacheprovider --rootdir ."))
    finally:
        shells.stop()


def test_every_block_is_run_or_is_output() -> None:
    left = [
        f"{name_of(page)}: {block.language or 'no language'}: {block.text.splitlines()[0]}"
        for page in pages()
        for block in blocks(page)
        if block.language not in (*PASTED, *NOT_PASTED) and (name_of(page), block.language) not in TRIED_BY
    ]
    assert left == []
    assert [test for test in (*TRIED_BY.values(), *ELSEWHERE.values()) if not (ROOT / test).is_file()] == []
