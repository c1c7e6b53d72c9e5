"""Pictures of every page of the console in the docs: each route has two, all are small, and the page shows each.

`python -m tests.docs.test_console_pages` writes the page.
"""

from __future__ import annotations

from odradek.console.application import PAGES, RECORD_PAGES

from compat_tests.console.harness.page_pictures import OTHERS, SCALES, name_of
from tests.docs.pages import DOCS

PAGE, PICTURES = DOCS / "development" / "console-pages.md", DOCS / "images" / "console"
_MOST_BYTES = 2_000_000
_HEAD = """# Every page of the console

Pictures of `compat_tests/console/test_layout.py` at 1,600 and 390 pixels, made smaller. The data is awkward on purpose:
names of 220 characters, 200 partitions, values of 10 MB, control characters, other scripts.
[Testing](testing.md) has the command
that writes them.
"""


def routes() -> list[str]:
    return [*OTHERS, *PAGES, *RECORD_PAGES]


def text() -> str:
    shown = []
    for route in routes():
        title = route if route.startswith("/") else f"The page of {route}"
        pictures = " ".join(
            f"![{title}, {width} pixels](../images/console/{name_of(route, width)})" for width in SCALES
        )
        shown.append(f"\n## `{title}`\n\n{pictures}\n" if route.startswith("/") else f"\n## {title}\n\n{pictures}\n")
    return _HEAD + "".join(shown)


def test_every_route_has_its_pictures_and_no_other_is_there() -> None:
    assert {one.name for one in PICTURES.iterdir()} == {name_of(route, width) for route in routes() for width in SCALES}


def test_pictures_are_small() -> None:
    assert sum(one.stat().st_size for one in PICTURES.iterdir()) < _MOST_BYTES


def test_page_shows_every_picture() -> None:
    assert PAGE.read_text(encoding="utf-8") == text()


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
