"""The ledger is read as it was written, in pieces that every broker takes; anything else is no ledger."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.sink.decision import Verdict, decided, judged
from odradek.sink.ledger import (
    MOST_SUPERSEDED,
    Attempt,
    DamagedLedger,
    Ledger,
    decoded,
    group_of,
    ledger_id,
    piece_count,
    run_of,
)
from odradek.spark.options import InvalidOptions
from odradek.spark.sink_options import parse_sink

#: The default of `offset.metadata.max.bytes`.
MOST_BROKER_CHARS = 4096
attempts = st.builds(
    Attempt,
    st.integers(0, (1 << 31) - 1),
    st.integers(0, 9),
    st.integers(0, (1 << 63) - 1),
    st.integers(0, (1 << 15) - 1),
)
ledgers = st.builds(
    Ledger,
    st.integers(0, 1 << 40),
    st.text("abc-0", max_size=36),
    st.text("abc0", max_size=16),
    st.booleans(),
    st.lists(attempts, max_size=30).map(tuple),
    st.lists(st.text("ab", max_size=16), max_size=MOST_SUPERSEDED).map(tuple),
)
#: Names of ledgers of which one may be the beginning of another, or look like a run, a task or the ledger's own id.
names = st.lists(st.sampled_from(["a", "b", "0", "1", "ledger", ".", "-"]), min_size=1, max_size=8).map("".join)
runs = st.sampled_from(["", "a", "0", "ledger", "-"])


@given(names, names, runs, attempts)
def test_transactional_id_belongs_to_one_ledger_and_run(name: str, other: str, run: str, attempt: Attempt) -> None:
    transactional_id = attempt.transactional_id(name, run)
    assert run_of(transactional_id, name) == run
    assert run_of(transactional_id, other) == (run if other == name else None)
    assert run_of(ledger_id(other), name) is None


@given(st.lists(st.tuples(names, st.integers(0, 12)), unique=True, max_size=12))
def test_each_piece_of_each_ledger_has_a_group_of_its_own(pieces: list[tuple[str, int]]) -> None:
    assert len({group_of(name, piece) for name, piece in pieces}) == len(pieces)


@pytest.mark.parametrize("name", ["orders:1", ":", "orders\n"])
def test_name_of_a_ledger_that_could_be_the_group_of_a_piece_is_refused(name: str) -> None:
    with pytest.raises(InvalidOptions, match="Option 'ledger' takes"):
        parse_sink({"kafka.bootstrap.servers": "127.0.0.1:9092", "ledger": name})


@given(ledgers)
def test_ledger_is_read_as_it_was_written(ledger: Ledger) -> None:
    pieces = ledger.encoded()
    assert piece_count(pieces[0]) == len(pieces)
    assert decoded(ledger.batch, pieces) == ledger


def test_batch_of_a_ledger_is_in_its_text_where_a_mirror_has_no_such_offset() -> None:
    ledger = Ledger(99, "query", "run", True)
    assert decoded(3, ledger.encoded()) == ledger


def test_pieces_of_many_attempts_are_short_enough_for_brokers() -> None:
    rng = random.Random(1)
    many = tuple(Attempt(task, 0, rng.randrange(1 << 40), rng.randrange(1000)) for task in range(3000))
    ledger = Ledger(5, "query", "run", False, many)
    pieces = ledger.encoded()
    assert 1 < len(pieces) < 20 and max(map(len, pieces)) <= MOST_BROKER_CHARS
    assert decoded(5, pieces) == ledger
    other = Ledger(6, "query", "run", True, many).encoded()
    for damaged in (pieces[1:], pieces[:-1], [*pieces[:-1], other[-1]], [other[0], *pieces[1:]], pieces[::-1]):
        with pytest.raises(DamagedLedger):
            decoded(5, damaged)


@given(ledgers, st.data())
def test_changed_text_is_no_ledger(ledger: Ledger, data: st.DataObject) -> None:
    text = ledger.encoded()[0]
    at = data.draw(st.integers(0, len(text) - 1))
    changed = text[:at] + chr(ord(text[at]) ^ 1) + text[at + 1 :]
    with pytest.raises(DamagedLedger):
        pieces = [changed]
        if piece_count(changed) == 1:
            decoded(ledger.batch, pieces)
        raise DamagedLedger("another number of pieces")


@pytest.mark.parametrize("text", ["", "x", "0/1", "0/1 ", "0/0 00000000 {}", "1/1 00000000 {}", "0/99999 x y", "é/1"])
def test_text_of_another_program_is_no_ledger(text: str) -> None:
    with pytest.raises(DamagedLedger):
        piece_count(text)
        decoded(1, [text])


def test_run_may_decide_the_batch_after_the_last_and_no_other_twice() -> None:
    ledger = Ledger(4, "q", "r", True, (), ("old",))
    assert judged(ledger, "q", "r", 5) is Verdict.DECIDES
    assert judged(ledger, "q", "r2", 9) is Verdict.DECIDES
    assert judged(ledger, "q", "r2", 4) is Verdict.IS_REPEATED
    assert judged(ledger, "q", "r", 3) is judged(ledger, "q", "r2", 0) is Verdict.IS_OUTDATED
    assert judged(ledger, "q", "old", 5) is Verdict.IS_SUPERSEDED
    assert judged(ledger, "other query", "r3", 0) is Verdict.DECIDES
    assert judged(Ledger(), "q", "r", 0) is Verdict.DECIDES


def test_runs_before_and_beside_the_deciding_one_are_superseded() -> None:
    ledger = decided(Ledger(4, "q", "r", True, (), ("old",)), "q", "r2", 5, [], ["r3", "r2"])
    assert ledger.superseded == ("old", "r", "r3")
    for number in range(100):
        ledger = decided(ledger, "q", f"run{number}", 6 + number, [], [])
    assert len(ledger.superseded) == MOST_SUPERSEDED and ledger.superseded[-1] == "run98"
