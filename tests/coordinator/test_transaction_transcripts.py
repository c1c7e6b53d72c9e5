"""The transaction state machine, request by request: the replies, the exact records and the markers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from odradek.coordinator.transactions.transaction import VALID_PREVIOUS_STATES, State

from tests.coordinator.transaction_transcript import TransactionTranscript

TRANSCRIPTS = sorted((Path(__file__).parent / "transaction_transcripts").glob("*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=[path.stem for path in TRANSCRIPTS])
def test_a_shard_of_transactions_answers_and_records_as_its_transcript_says(path: Path) -> None:
    happened = TransactionTranscript().run(path.read_text())
    if os.environ.get("ODRADEK_REWRITE"):
        path.write_text(happened)
    assert happened == path.read_text()


def test_there_are_transcripts_of_transactions() -> None:
    assert len(TRANSCRIPTS) >= 7


def test_every_state_that_is_written_says_where_it_is_reached_from() -> None:
    assert set(VALID_PREVIOUS_STATES) == set(State) - {State.PREPARE_EPOCH_FENCE}


def test_states_have_the_names_that_tools_show() -> None:
    assert [state.shown for state in State] == [
        "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead",
        "PrepareEpochFence",
    ]  # fmt: skip
