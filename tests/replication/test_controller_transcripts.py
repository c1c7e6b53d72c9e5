"""Controller transcripts: the responses and the exact records, request by request."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.replication.controller_transcript import Transcript

TRANSCRIPTS = sorted((Path(__file__).parent / "controller_transcripts").glob("*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=[path.stem for path in TRANSCRIPTS])
def test_controller_matches_transcript(path: Path) -> None:
    expected = path.read_text()
    happened = Transcript().run(expected)
    if os.environ.get("ODRADEK_REWRITE"):
        path.write_text(happened)
    assert happened == path.read_text()


def test_controller_transcripts_exist() -> None:
    assert len(TRANSCRIPTS) >= 10
