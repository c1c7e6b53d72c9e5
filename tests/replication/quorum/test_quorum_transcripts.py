"""Quorum transcripts: all messages and effects as text, on a network and disks without faults.

`> voters 1 2 3` starts them; `> late 1` is the election or fetch timeout of node 1; `> deliver` delivers all messages
in flight; `> cut 1` and `> mend` disconnect and reconnect; `> again 1` restarts it on its log; `> append 1`; `> resign
1`; `> gone 1 2` reports to 1 that the process of 2 has died, `> wait 20` advances the clock by 20 ms. `> static 1 2 3`
are voters of the configuration, `> upgrade 1` makes 1 raise kraft.version, `> who` shows the voters. `> moved 1`
restarts it at another address, `> where` shows the addresses of voters. `ODRADEK_REWRITE=1` writes the actual results.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.replication.quorum.harness.transcript import Transcript

TRANSCRIPTS = sorted((Path(__file__).parent / "quorum_transcripts").glob("*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=[path.stem for path in TRANSCRIPTS])
def test_quorum_matches_transcript(path: Path) -> None:
    expected = path.read_text()
    happened = Transcript().run(expected)
    if os.environ.get("ODRADEK_REWRITE"):
        path.write_text(happened)
    assert happened == path.read_text()


def test_quorum_transcripts_exist() -> None:
    assert len(TRANSCRIPTS) >= 3
