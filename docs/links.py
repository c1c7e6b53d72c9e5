"""Links and tabs of Markdown pages that are read outside of the repository: in the package's description, on the site.

A link to a file of the repository becomes an absolute one where the project's public address is known (`home`), and the
file's name in the source distribution where it is not. mkdocs loads this file as a hook (`on_page_markdown`); the builds of
the package (`tests/release.py`) use `detached`.
"""

from __future__ import annotations

import os
import posixpath
import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
#: Fenced blocks and inline code hold no links; a picture begins with `!`.
_CODE_OR_LINK = re.compile(
    r"```.*?^```|`[^`\n]*`|(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)", re.S | re.M
)
_ELSEWHERE = ("http://", "https://", "mailto:", "#")


def home() -> str:
    """Returns the project's public address without a slash at its end, or "": `ODRADEK_HOME_URL`, else `[tool.odradek]`."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    set_in_file: str = settings["tool"]["odradek"]["home"]
    return os.environ.get("ODRADEK_HOME_URL", set_in_file).rstrip("/")


def detached(markdown: str, page: str, address: str, revision: str, stays: str | None = None) -> str:
    """Returns the page with no relative link to a file below the repository's root.

    `page` is the page's path in the repository, `revision` the tag or branch that absolute links name. Links to Markdown
    pages and files below the folder `stays` are kept.
    """

    def replaced(found: re.Match[str]) -> str:
        target = found["target"]
        if target is None or target.startswith(_ELSEWHERE):
            return found[0]
        path, _, anchor = target.partition("#")
        file = posixpath.normpath(posixpath.join(posixpath.dirname(page), path))
        if stays is not None and file.startswith(f"{stays}/"):
            return found[0]
        if not address:
            return f"`{file}`" if found["text"].strip("`") in (file, file + "/") else f"{found['text']} (`{file}`)"
        kind = "raw" if found["picture"] else "tree" if (ROOT / file).is_dir() else "blob"
        suffix = f"#{anchor}" if anchor else ""
        return f"{found['picture']}[{found['text']}]({address}/{kind}/{revision}/{file}{suffix})"

    return _CODE_OR_LINK.sub(replaced, markdown)


#: A block of commands, and the block beside it for those who have Apache Kafka's scripts.
_BESIDE = re.compile(
    r"^(```sh\n(?:(?!```).*\n)*```)\n\n```sh title=\"(Kafka's scripts)\"\n((?:(?!```).*\n)*```)$", re.M
)


def with_tabs(markdown: str) -> str:
    """Returns the page with two tabs for each such pair of blocks. A viewer of plain Markdown shows one below the other."""

    def tabs(found: re.Match[str]) -> str:
        return (
            f'=== "odradek"\n\n{_indented(found[1])}\n\n=== "{found[2]}"\n\n{_indented("```sh" + chr(10) + found[3])}'
        )

    return _BESIDE.sub(tabs, markdown)


def _indented(block: str) -> str:
    return "\n".join(f"    {line}" for line in block.splitlines())


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """mkdocs: pages link to each other; links to other files of the repository go to the public address."""
    markdown = with_tabs(markdown)
    return detached(markdown, f"docs/{page.file.src_uri}", home(), "HEAD", stays="docs")
