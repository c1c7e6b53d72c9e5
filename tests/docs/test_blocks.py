"""The blocks of the pages run as a reader would paste them (tests/docs/shells.py), each page from first to last.

A page has an environment with only what its block "install" installs (tests/docs/environments.py).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.environments import TITLE, environment, expected_ways, install_block, requirements, ways
from tests.docs.pages import ROOT, Block, blocks, pages
from tests.docs.shells import KAFKA_SCRIPTS, KAFKA_TOOLS, Shells

pytestmark = pytest.mark.usefixtures("processes")

#: Pages with tests of their own: the Spark guide, the way from Apache Kafka, frameworks with their own environments, and
#: the README.
ELSEWHERE = {
    "docs/migration.md": "compat_tests/cluster/test_migration_page.py",
    "docs/spark.md": "spark_examples/tests/test_guide.py",
    "docs/tiered-storage.md": "compat_tests/tiers/test_page.py",
    "docs/testing-frameworks.md": "tests/testing/test_frameworks.py",
    "README.md": "tests/test_readme.py",
}
PASTED = ("sh", "python")
#: Blocks of other languages, and those that need other servers; with the tests that run them.
TRIED_BY = {
    ("docs/specialists/console-single-sign-on.md", "properties"): "tests/console/test_single_sign_on.py",
    ("docs/operations.md", "ini"): "tests/docs/test_deployment.py",
    ("docs/operations.md", "properties"): "tests/docs/test_deployment.py",
    ("docs/operations.md", "dockerfile"): "tests/docs/test_deployment.py",
    ("docs/specialists/security-kerberos.md", "properties"): "compat_tests/security/test_kerberos.py",
    ("docs/specialists/security-kerberos.md", "python"): "compat_tests/security/test_kerberos.py",
    ("docs/tiered-storage.md", "properties"): "compat_tests/tiers/test_page.py",
    ("docs/testing.md", "yaml"): "tests/docs/test_deployment.py",
}
#: Pages about logins that the commands of Odradek do not have.
WITHOUT_COUNTERPART = ("docs/specialists/security-oauthbearer.md", "docs/specialists/security-delegation-tokens.md")
#: Output of commands, and drawings.
NOT_PASTED = ("text", "mermaid")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def pasted(page: Path) -> list[Block]:
    """Returns the blocks to run, in order, without `make test` and its parts, of which one runs this test."""
    languages = [language for language in PASTED if (name_of(page), language) not in TRIED_BY]
    found = [block for block in blocks(page) if block.language in languages and block.title != TITLE]
    return [block for block in found if not block.text.startswith(("make check", "make test"))]


def pages_to_paste_from() -> list[Path]:
    return [page for page in pages() if name_of(page) not in ELSEWHERE and pasted(page)]


@pytest.mark.parametrize("page", pages_to_paste_from(), ids=lambda page: page.name)
def test_blocks_of_a_page_run_in_order(page: Path, tmp_path: Path) -> None:
    install = install_block(page)
    assert install is not None, "the first block of a page installs what its blocks need"
    shells = Shells(tmp_path, environment(*requirements(install)))
    try:
        for block in pasted(page):
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


def pages_with_an_install_block() -> list[Path]:
    return [page for page in pages() if install_block(page) is not None]


@pytest.mark.parametrize("page", pages_with_an_install_block(), ids=lambda page: page.name)
def test_install_block_has_the_three_ways(page: Path) -> None:
    """In a checkout, from a built wheel, and by name: the first as it stands, the others behind the sign of a comment."""
    install = install_block(page)
    assert install is not None and ways(install) == expected_ways(requirements(install))


def test_kafkas_scripts_are_in_blocks_of_their_own_beside_odradeks_commands() -> None:
    """The site shows the two blocks as tabs (docs/links.py)."""
    wrong = []
    for page in pages():
        if name_of(page) in ELSEWHERE:
            continue
        found = blocks(page)
        for number, block in enumerate(found):
            if block.language != "sh" or not any(tool in block.text for tool in KAFKA_TOOLS):
                continue
            is_beside = (number > 0 and "odradek " in found[number - 1].text) or name_of(page) in WITHOUT_COUNTERPART
            if block.title != KAFKA_SCRIPTS or not is_beside:
                wrong.append(f"{name_of(page)}: {block.text.splitlines()[0]}")
    assert wrong == []
