"""Ownership over time, and the violations that the checker must find."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from compat_tests.group_faults.ledger import CROSSED_S, HEARTBEAT_S, REPORTED_S, SESSION_S, Freeze, Ledger, Life

#: Earliest expiry of the session after a freeze: its last heartbeat may be this much older.
SOONEST = SESSION_S - HEARTBEAT_S


def life(name: str, folder: Path, *notes: Iterable[object], is_consumer: bool = False, **more: Any) -> Life:
    file = folder / f"{name}.jsonl"
    file.write_text("".join(json.dumps(note) + "\n" for note in notes))
    return Life(name, file, is_consumer, **more)


def problems(*lives: Life) -> list[str]:
    ledger = Ledger(list(lives))
    ledger.read()
    return ledger.problems()


@pytest.mark.parametrize(("partition", "begin", "is_seen"), [(0, 2.0, False), (0, 1.9, True), (1, 1.5, False)])
def test_no_two_members_own_a_partition(partition: int, begin: float, is_seen: bool, tmp_path: Path) -> None:
    first = life("a", tmp_path, ["has", 0.5, [0]], ["gives", 2.0, [0]])
    second = life("b", tmp_path, ["has", begin, [partition]])
    assert bool(problems(first, second)) is is_seen
    assert bool(problems(second, first)) is is_seen


def test_member_owns_a_partition_until_it_revokes_it(tmp_path: Path) -> None:
    assert problems(life("a", tmp_path, ["has", 1.0, [0]]), life("b", tmp_path, ["has", 500.0, [0]]))


def test_killed_member_owns_nothing(tmp_path: Path) -> None:
    dead = life("a", tmp_path, ["has", 1.0, [0]], killed_at=5.0)
    assert problems(dead, life("b", tmp_path, ["has", 5.1, [0]])) == []
    assert problems(dead, life("b", tmp_path, ["has", 4.9, [0]]))
    assert Ledger([dead]).owners() == {}


@pytest.mark.parametrize(("after", "is_seen"), [(SOONEST + 0.1, False), (SOONEST - 0.1, True)])
def test_paused_member_owns_its_partitions_for_its_session(after: float, is_seen: bool, tmp_path: Path) -> None:
    frozen = life("a", tmp_path, ["has", 1.0, [0]], ["loses", 19.0, [0]], freezes=[Freeze(10.0, 18.5)])
    assert bool(problems(frozen, life("b", tmp_path, ["has", 10.0 + after, [0]]))) is is_seen


def test_paused_member_learns_that_it_lost_its_partitions(tmp_path: Path) -> None:
    other = life("b", tmp_path, ["has", 17.0, [0]])
    untold = life("a", tmp_path, ["has", 1.0, [0]], freezes=[Freeze(10.0, 18.5)])
    assert problems(untold, other)
    late = life("a", tmp_path, ["has", 1.0, [0]], ["loses", 19.0 + REPORTED_S, [0]], freezes=[Freeze(10.0, 18.5)])
    assert problems(late, other)
    gives = life("a", tmp_path, ["has", 1.0, [0]], ["gives", 19.0, [0]], freezes=[Freeze(10.0, 18.5)])
    assert problems(gives, other)


def test_running_member_loses_no_partition_to_another(tmp_path: Path) -> None:
    lost = [["has", 1.0, [0]], ["loses", 19.0, [0]]]
    other = life("b", tmp_path, ["has", 17.0, [0]])
    assert problems(life("a", tmp_path, *lost), other)
    assert problems(life("a", tmp_path, *lost, freezes=[Freeze(10.0, 12.0)]), other), "not for as long as a session"


def test_partition_has_no_owner_between_session_and_assignment(tmp_path: Path) -> None:
    """The response to its last heartbeat was waiting when the member resumed; the next response reports its expiry."""
    late = [["has", 18.6, [0]], ["loses", 18.9, [0]]]
    other = life("b", tmp_path, ["has", 17.0, [0]])
    assert problems(life("a", tmp_path, *late, freezes=[Freeze(10.0, 18.5)]), other) == []
    assert problems(life("a", tmp_path, *late), other)


@pytest.mark.parametrize(
    ("is_consumer", "lasts", "is_seen"), [(True, 0.9, False), (True, 1.1, True), (False, 0.9, True)]
)
def test_a_member_of_the_new_protocol_is_taken_at_its_word(
    is_consumer: bool, lasts: float, is_seen: bool, tmp_path: Path
) -> None:
    end = 1.5 + lasts * CROSSED_S
    notes = (["has", 1.5, [0]], ["gives", end, [0]])
    young = life("a", tmp_path, *notes, is_consumer=is_consumer)
    ledger = Ledger([young, life("b", tmp_path, ["has", end - 0.2, [0]])])
    ledger.read()
    assert bool(ledger.problems()) is is_seen
    assert ledger.crossed == (not is_seen)


def test_commit_for_a_partition_of_another_member_is_found(tmp_path: Path) -> None:
    owner = life("b", tmp_path, ["has", 17.0, [0]])

    def zombie(*commit: object) -> Life:
        notes = (["has", 1.0, [0]], ["commits", *commit], ["loses", 19.0, [0]])
        return life("a", tmp_path, *notes, freezes=[Freeze(10.0, 18.5)])

    assert problems(zombie(18.6, 18.7, [0], None), owner)
    assert problems(zombie(18.6, 18.7, [0], "UNKNOWN_MEMBER_ID"), owner) == []
    assert problems(zombie(9.0, 18.7, [0], None), owner) == [], "it was on its way when nobody else had it"
    assert problems(zombie(18.6, 18.7, [1], None), owner) == []


def test_half_a_line_is_read_when_it_is_whole(tmp_path: Path) -> None:
    one = life("a", tmp_path, ["has", 1.0, [0]])
    with one.file.open("a") as file:
        file.write('["handled", 2.0')
    one.read()
    with one.file.open("a") as file:
        file.write(", 7]\n")
    one.read()
    assert (one.owned()[0].partition, one.handled) == (0, {7})
