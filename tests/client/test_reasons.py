"""Errors of libraries become words for people: no bytes, no names of classes, no numbers of the system."""

from __future__ import annotations

import ast
import json
import re
import urllib.error

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.archive.ownership import stored_owner
from odradek.archive.store import ArchiveError, Covered
from odradek.client.reasons import reason_of
from odradek.client.user_errors import Misused
from odradek.console.cluster.masks import Masks, compiled

from tests.harness.sources import files, text_of

#: Packages whose messages people read.
_PACKAGES = ("admin", "archive", "cli", "client", "columns", "console")
_PROGRAMMERS = re.compile(r"\bb['\"]|\bbytearray\(|Error\(|\[Errno|<urlopen")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError(b"missing ]: ["), "missing ]: ["),
        (KeyError("topic"), "topic is missing"),
        (KeyError(b"topic"), "topic is missing"),
        (PermissionError(13, "Permission denied", "/etc/x"), "Permission denied"),
        (urllib.error.URLError(ConnectionRefusedError(111, "Connection refused")), "Connection refused"),
        (urllib.error.URLError("no host given"), "<urlopen error no host given>"),
        (ValueError(), "ValueError"),
        (ValueError(b"\xff"), "\ufffd"),
        (ValueError("a", 1), "('a', 1)"),
    ],
)
def test_words_of_an_error(error: Exception, words: str) -> None:
    assert reason_of(error) == words


@given(st.text(st.sampled_from("[](){}*+?\\|^$ab0-9,2:"), min_size=1, max_size=8))
def test_error_of_a_bad_expression_has_no_bytes(text: str) -> None:
    for make in (lambda: compiled(text, "bad: "), lambda: Masks([f"pattern:{text}"])):
        try:
            make()
        except Misused as error:
            assert not _PROGRAMMERS.search(str(error)), str(error)


@pytest.mark.parametrize(
    "text", ["", "[]", "7", "null", "{}", '{"topic": 1}', '{"topic": "a", "topic_id": "", "offsets": 3}']
)
def test_damaged_properties_of_tables_are_explained_in_words(text: str) -> None:
    for read in (stored_owner, Covered.from_text):
        with pytest.raises(ArchiveError) as caught:
            read(text)
        assert not _PROGRAMMERS.search(str(caught.value)), str(caught.value)


def shown_as_code(text: str) -> list[str]:
    """Errors that a message of a raised exception shows as Python writes them."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Raise) and node.exc is not None:
            for part in ast.walk(node.exc):
                if isinstance(part, ast.FormattedValue) and part.conversion == ord("r"):
                    shown = ast.unparse(part.value)
                    if shown in ("error", "exc", "caught"):
                        found.append(f"{node.lineno}: {shown}")
    return found


@pytest.mark.parametrize("package", _PACKAGES)
def test_no_message_shows_an_error_as_code(package: str) -> None:
    sources = [name for name in files("*.py") if name.startswith(f"{package}/")]
    assert sources
    assert {name: shown for name in sources if (shown := shown_as_code(text_of(name)))} == {}


def test_errors_as_code_are_found() -> None:
    assert shown_as_code('raise ValueError(f"it is damaged: {error!r}")') == ["1: error"]
    assert shown_as_code(json.dumps("{error!r}")) == []
