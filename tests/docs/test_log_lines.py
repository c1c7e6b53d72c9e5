"""The log lines on the pages on security are those that the broker writes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from tests.docs.pages import DOCS, blocks
from tests.harness.facts import kept_facts
from tests.harness.sources import files, nodes_of

PACKAGES = ("server/access", "server/network", "client")
#: Words of the system's libraries, names of exceptions and values of the examples, which are in no source.
NOT_IN_SOURCES = re.compile(
    r"certificate has expired|Unspecified GSS failure\..*|ValueError|'GSSAPI'|PLAIN|https://issuer\.acme\.com/token"
)
#: The place of a value in a text of the sources.
VALUE = "\0"
_LINE = re.compile(r"(?:closing (?:a connection from|the connection of) \S+ on \w+|no connection to \S+): (.*)")


@cache
def written() -> re.Pattern[str]:
    """Returns a pattern of all parts of texts in the sources; colons separate parts."""
    parts = {part for text in texts() for part in re.split(r": |:$", text)}
    with_words = sorted(part for part in parts if len(part.replace(VALUE, "")) > 3)
    return re.compile("|".join(re.escape(part).replace(re.escape(VALUE), ".+") for part in with_words))


def texts() -> Iterator[str]:
    for path in files(*(f"{package}/*.py" for package in PACKAGES)):
        yield from texts_of(path)


@kept_facts
def texts_of(file: str) -> list[str]:
    found = []
    for node in nodes_of(file):
        if isinstance(node, ast.JoinedStr):
            found.append("".join(str(one.value) if isinstance(one, ast.Constant) else VALUE for one in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(node.value)
    return found


LOG_LINES = [
    (page.name, found[1])
    for page in sorted(DOCS.rglob("security*.md"))
    for block in blocks(page)
    if block.language == "text"
    for line in block.text.splitlines()
    if (found := _LINE.fullmatch(line))
]


@pytest.mark.parametrize(("page", "reason"), LOG_LINES)
def test_reason_in_a_log_line_is_in_the_sources(page: str, reason: str) -> None:
    parts = [part for part in reason.split(": ") if not NOT_IN_SOURCES.fullmatch(part)]
    assert parts and [part for part in parts if not written().fullmatch(part)] == [], page


def test_every_page_of_a_mechanism_has_log_lines() -> None:
    pages = {
        f"security-{name}.md" for name in ("tls", "plain", "scram", "oauthbearer", "kerberos", "delegation-tokens")
    }
    assert pages <= {page for page, _ in LOG_LINES}
