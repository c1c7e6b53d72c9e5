"""Counts the words of the documentation: `python -m tests.docs.words`.

The user's path is the README and the pages of docs/ itself: getting started, guides by task, reference. Pages in folders
(docs/specialists, docs/development) are off the path, and so are the generated tables of docs/reference. Words are
separated by white space, those of code blocks and tables included, as `wc -w` counts them.
"""

from __future__ import annotations

from pathlib import Path

from tests.docs.pages import DOCS, ROOT

MOST_WORDS_OF_THE_PATH = 25_000


def users_path() -> list[Path]:
    return [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]


def count(page: Path) -> int:
    return len(page.read_text(encoding="utf-8").split())


def main() -> None:
    for folder in ("specialists", "development", "reference"):
        found = sorted((DOCS / folder).rglob("*.md"))
        print(f"{sum(map(count, found)):6} docs/{folder}/ ({len(found)} pages, not on the user's path)")
    for page in users_path():
        print(f"{count(page):6} {page.relative_to(ROOT)}")
    print(f"{sum(map(count, users_path())):6} on the user's path, at most {MOST_WORDS_OF_THE_PATH}")


if __name__ == "__main__":
    main()
