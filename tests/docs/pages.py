"""Markdown pages of the repository: their links, headings and code blocks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
_FENCE = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")


class Block(NamedTuple):
    """A fenced block: its language, the title of its shell, and its text."""

    language: str
    title: str
    text: str


def pages() -> list[Path]:
    """Returns the hand-written pages; those below docs/reference are generated."""
    found = [page for page in DOCS.rglob("*.md") if "reference" not in page.relative_to(DOCS).parts]
    return sorted(found) + [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")]


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    titled = [(language, re.search(r'title="([^"]*)"', rest), code) for language, rest, code in _FENCE.findall(text)]
    return [Block(language, title[1] if title else "", code) for language, title, code in titled]


def links(page: Path) -> list[str]:
    """Returns the targets of links and pictures within the repository."""
    text = re.sub(r"`[^`\n]*`", "", _FENCE.sub("", page.read_text(encoding="utf-8")))
    found = [link or picture for link, picture in _LINK.findall(text)]
    return [target for target in found if not target.startswith(("http://", "https://", "mailto:"))]


def anchors(page: Path) -> set[str]:
    """Returns the anchors of a page's headings, as Markdown tools generate them."""
    headings = re.findall(r"^#+ (.*)$", _FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}
