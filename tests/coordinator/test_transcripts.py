"""The classic group protocol, request by request: the replies and the exact records."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.coordinator.transcript import Transcript

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=[path.stem for path in TRANSCRIPTS])
def test_group_shard_matches_transcript(path: Path) -> None:
    expected = path.read_text()
    happened = Transcript().run(expected)
    if os.environ.get("ODRADEK_REWRITE"):
        path.write_text(happened)
    assert happened == path.read_text()


def test_transcripts_exist() -> None:
    assert len(TRANSCRIPTS) >= 10
