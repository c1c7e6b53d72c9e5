"""The site has the mark of the console and of the README, a home page of its own, and blocks that wrap."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MARK = "images/mark.svg"


def test_mark_is_that_of_the_console() -> None:
    mark = (ROOT / "docs" / MARK).read_bytes()
    assert mark == (ROOT / "console" / "static" / "icon.svg").read_bytes()
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert f"logo: {MARK}" in settings and f"favicon: {MARK}" in settings
    assert f"docs/{MARK}" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert MARK in (ROOT / "docs" / "theme" / "main.html").read_text(encoding="utf-8")


def test_home_page_has_what_a_reader_sees_first() -> None:
    page = (ROOT / "docs" / "theme" / "main.html").read_text(encoding="utf-8")
    for part in (
        "A Kafka-compatible broker in Python",
        "<strong>For</strong>",
        "make run",
        "make test",
        "beside-kafka.png",
    ):
        assert part in page


def test_wide_blocks_wrap() -> None:
    style = (ROOT / "docs" / "theme" / "site.css").read_text(encoding="utf-8")
    assert ".md-typeset pre > code { white-space: pre-wrap; overflow-wrap: anywhere; }" in style
