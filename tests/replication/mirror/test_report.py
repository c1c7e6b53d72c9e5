"""Reports of links: the texts that their groups commit, within the limit of a commit's text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.replication.mirror import report
from odradek.replication.mirror.report import LinkReport, parse_report

from tests.harness.examples import examples

#: `offset.metadata.max.bytes`.
MOST_BYTES = 4096

reasons = st.dictionaries(st.text(max_size=60), st.text(max_size=400), max_size=60)


@settings(max_examples=examples(200))
@given(st.text(max_size=300), reasons, reasons, reasons)
def test_text_has_what_there_is_room_for_and_counts_the_rest(
    error: str, refused: dict[str, str], skipped: dict[str, str], access: dict[str, str]
) -> None:
    text = LinkReport(error, refused, skipped, access, more=2).text()
    assert len(text.encode()) <= MOST_BYTES
    read = parse_report(text)
    shown = len(read.refused) + len(read.skipped) + len(read.access)
    assert shown + read.more == len(refused) + len(skipped) + len(access) + 2
    for found, every in ((read.refused, refused), (read.skipped, skipped), (read.access, access)):
        assert found == {name: every[name][:200] for name in sorted(every)[: len(found)]}


def test_each_kind_has_room_beside_a_long_one() -> None:
    many = {f"orders-{number:05}": "it cannot be made" for number in range(10_000)}
    read = parse_report(LinkReport("", many, {"app": "it has members here"}, {"acls": "denied"}).text())
    assert read.skipped and read.access and read.refused["orders-00000"] and read.more > 9_000


def test_text_of_many_reasons_is_written_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round has the event loop write it each second."""
    written = [0]
    dumps = json.dumps

    def counted(*values: object, **options: object) -> str:
        text = dumps(*values, **options)  # type: ignore[arg-type]
        written[0] += len(text)
        return text

    monkeypatch.setattr(report.json, "dumps", counted)
    LinkReport("", {f"orders-{number:05}": "x" * 150 for number in range(10_000)}).text()
    assert written[0] < 4 * MOST_BYTES
