"""The documentation is consistent: links have targets, generated pages list everything, the site builds."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, anchors, blocks, links, pages
from tests.docs.words import MOST_WORDS_OF_THE_PATH, count, users_path

GENERATE = [sys.executable, "docs/generate.py"]


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_lead_to_files_and_headings(page: Path) -> None:
    broken = []
    for target in links(page):
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        if "reference/" in path:
            continue  # generated: the site's test follows these
        if not found.exists() or (anchor and found.suffix == ".md" and anchor not in anchors(found)):
            broken.append(target)
    assert not broken


@pytest.mark.usefixtures("processes")
def test_generated_pages_hold_every_key_command_and_public_name(tmp_path: Path) -> None:
    import odradek
    from odradek.metadata.configs.resources import BROKER, CLIENT_METRICS, GROUP, OWN, TOPIC

    subprocess.run([*GENERATE, "--into", str(tmp_path)], cwd=ROOT, check=True)
    keys = (tmp_path / "configuration.md").read_text(encoding="utf-8")
    tables = (BROKER, TOPIC, GROUP, CLIENT_METRICS, OWN)
    missing = [
        key.name for table in tables for key in table.values() if not key.internal and f"`{key.name}`" not in keys
    ]
    assert not missing
    commands = (tmp_path / "command-line.md").read_text(encoding="utf-8")
    assert {"odradek start", "odradek format", "odradek cluster status"} <= set(re.findall(r"## `(.*?)`", commands))
    names = (tmp_path / "python.md").read_text(encoding="utf-8")
    assert [name for name in odradek.__all__ if not name.startswith("_") and f"odradek.{name}`" not in names] == []


def test_page_on_tls_lists_every_cipher_suite() -> None:
    from odradek.server.access.cipher_suites import TLS_1_2, TLS_1_3

    lists = [
        set(block.text.split())
        for block in blocks(DOCS / "specialists" / "security-tls-keys.md")
        if block.language == "text"
    ]
    assert {*TLS_1_2, *TLS_1_3} in lists


@pytest.mark.usefixtures("processes")
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    subprocess.run(GENERATE, cwd=ROOT, check=True)
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    loaded = re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(https?://[^"]+)"', page)
    assert not loaded, "a page loads something from another host"
    page = (tmp_path / "site" / "quotas.html").read_text(encoding="utf-8")
    assert re.findall(r'<label for="[^"]*">([^<]*)</label>', page)[-2:] == ["odradek", "Kafka's scripts"], "two tabs"


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    written = [str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if "reference" not in page.parts]
    assert [page for page in written if page not in navigation] == []


def test_the_users_path_has_few_words() -> None:
    """Texts that few users need go to docs/specialists or docs/development. `python -m tests.docs.words` counts."""
    assert sum(map(count, users_path())) <= MOST_WORDS_OF_THE_PATH


def test_pages_for_specialists_begin_with_five_lines_of_summary() -> None:
    found = [page for page in (DOCS / "specialists").rglob("*.md") if not page.stem.endswith("-notes")]
    assert len(found) > 5
    bad = [str(page.relative_to(DOCS)) for page in found if len(summary(page)) != 5]
    assert bad == [], "a title, an empty line, and a list with five items of one line each"


def summary(page: Path) -> list[str]:
    """Returns the items of the list below the title, or nothing if another text follows the title."""
    _, first, *_ = page.read_text(encoding="utf-8").split("\n\n")
    lines = first.splitlines()
    return lines if all(re.fullmatch(r"- .{10,150}", line) for line in lines) else []
