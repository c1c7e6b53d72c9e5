"""The table of features beside other products: each "yes" of Odradek names a test that exists,
each claim about others a page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS

PAGE = DOCS / "specialists" / "tables-compared.md"
#: The first column is the feature, the second one is Odradek.
COLUMNS = 7
_YES = re.compile(r"^\[yes\]\(([^)]+\.py)\) `(test_\w+)`$")
_OTHER = re.compile(r"^(\[[^\]]+\]\[([\w-]+)\])?$")
_WITHOUT_TEST = ("no", "none: Apache 2.0")


def rows() -> list[list[str]]:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in found if row[1] != "Odradek"]


ROWS = rows()


def test_page_has_its_rows() -> None:
    assert len(ROWS) > 20 and all(len(row) == COLUMNS for row in ROWS)
    assert len({row[0] for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_claim_about_odradek_has_a_test(row: list[str]) -> None:
    if row[1] in _WITHOUT_TEST:
        return
    claim = _YES.match(row[1])
    assert claim is not None, row[1]
    file = (PAGE.parent / claim[1]).resolve()
    assert re.search(rf"^(async )?def {claim[2]}\(", Path(file).read_text(encoding="utf-8"), re.MULTILINE), claim[2]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_claim_about_another_product_has_its_documentation(row: list[str]) -> None:
    targets = dict(re.findall(r"^\[([\w-]+)\]: (https://\S+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    for cell in row[2:]:
        claim = _OTHER.match(cell)
        assert claim is not None and (not cell or claim[2] in targets), cell


def test_every_link_of_the_page_is_used() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"][{name}]" in text for name in re.findall(r"^\[([\w-]+)\]: ", text, re.MULTILINE))
