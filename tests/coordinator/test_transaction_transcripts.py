"""The transaction state machine, request by request: the replies, the exact records and the markers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from odradek.coordinator.transaction import VALID_PREVIOUS_STATES, TransactionStatus

from tests.coordinator.transaction_transcript import TransactionTranscript

TRANSCRIPTS = sorted((Path(__file__).parent / "transaction_transcripts").glob("*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=[path.stem for path in TRANSCRIPTS])
def test_transaction_shard_matches_transcript(path: Path) -> None:
    happened = TransactionTranscript().run(path.read_text())
    if os.environ.get("ODRADEK_REWRITE"):
        path.write_text(happened)
    assert happened == path.read_text()


def test_transaction_transcripts_exist() -> None:
    assert len(TRANSCRIPTS) >= 7


def test_every_written_state_has_valid_previous_states() -> None:
    assert set(VALID_PREVIOUS_STATES) == set(TransactionStatus) - {TransactionStatus.PREPARE_EPOCH_FENCE}


def test_states_have_names_of_tools() -> None:
    assert [state.shown for state in TransactionStatus] == [
        "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead",
        "PrepareEpochFence",
    ]  # fmt: skip
