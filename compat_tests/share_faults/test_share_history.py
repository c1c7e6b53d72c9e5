"""Histories with something wrong in them, each of which the checker must see."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compat_tests.share_faults.history import BUFFERED, Quiet, anomalies, read

LIMIT = 5
NEVER = Quiet(1_000, 0.0)
#: Not poison, and poison.
PLAIN, POISON = 1, 40


def given(began: float, count: int, value: int = PLAIN) -> list[object]:
    return ["given", began, began + 0.1, [[0, 0, count, value]]]


def says(time: float, count: int, what: str) -> list[object]:
    return ["says", time, [[0, 0, count, what]]]


def told(time: float, error: str | None = None) -> list[object]:
    return ["told", time, 0, error]


def found(
    tmp_path: Path,
    *members: list[list[object]],
    value: int = PLAIN,
    leader_changes: int = 0,
    quiet: Quiet = NEVER,
) -> list[str]:
    """The kinds of anomalies of one record, of which each member has such a history."""
    files = []
    for number, lines in enumerate(members):
        files.append(tmp_path / f"m{number}.jsonl")
        files[-1].write_text("".join(json.dumps(line) + "\n" for line in lines))
    return [one.partition(":")[0] for one in anomalies(read(files), [value], LIMIT, {0: leader_changes}, quiet)]


def told_of(files: list[Path]) -> list[str]:
    return [one.partition(":")[0] for one in anomalies(read(files), [PLAIN], LIMIT, {0: 0}, NEVER)]


CAME = ["came", 0.0]
ACCEPTED = [given(1, 1), says(2, 1, "accept"), told(3)]


def test_a_record_that_is_released_and_then_accepted_is_well(tmp_path: Path) -> None:
    released = [CAME, given(1, 1), says(2, 1, "release"), told(3)]
    assert found(tmp_path, released, [CAME, given(4, 2), says(5, 2, "accept"), told(6)]) == []


def test_an_answer_that_never_came_may_be_either(tmp_path: Path) -> None:
    assert found(tmp_path, [CAME, given(1, 1), says(2, 1, "accept")]) == []
    again = [CAME, given(9, 2), says(10, 2, "accept"), told(11)]
    assert found(tmp_path, [CAME, given(1, 1), says(2, 1, "accept"), told(3, "refused")], again) == []


def test_a_second_acknowledgement_is_not_confirmed_while_the_share_partition_is_open_there(tmp_path: Path) -> None:
    second = [CAME, given(1.5, 2), says(4, 2, "accept"), told(5)]
    poison = ["given", 9.0, 9.1, [[0, 0, LIMIT, POISON]]]
    before = [["came", 6.0], poison]
    files = []
    for number, lines in enumerate(([CAME, *ACCEPTED], second)):
        files.append(tmp_path / f"m{number}.jsonl")
        files[-1].write_text("".join(json.dumps(line) + "\n" for line in lines).replace("[[0, 0, ", "[[0, 1, "))
    assert told_of(files) == [], "all up to it may be done with, and then Kafka takes whatever is said"
    files.append(tmp_path / "late.jsonl")
    files[-1].write_text("".join(json.dumps(line) + "\n" for line in before))
    assert told_of(files) == ["done twice"]


def test_what_was_confirmed_late_may_have_been_taken_early(tmp_path: Path) -> None:
    """Its first answer was lost, and the client said it again."""
    released = [CAME, given(1, 1), says(2, 1, "release"), told(20)]
    accepted = [CAME, given(5, 2), says(6, 2, "accept"), told(7)]
    assert found(tmp_path, released, accepted) == []


def test_a_record_that_is_done_with_is_not_given_out(tmp_path: Path) -> None:
    late = [["came", 4.0], given(5, 2), says(6, 2, "accept"), told(7, "refused")]
    assert found(tmp_path, [CAME, *ACCEPTED], late) == ["given when done"]


def test_what_may_have_been_in_a_buffer_is_not_held_against_the_broker(tmp_path: Path) -> None:
    late = [CAME, given(5, 2), says(6, 2, "accept"), told(7, "refused")]
    assert found(tmp_path, [CAME, *ACCEPTED], late) == []
    # After so many polls there is nothing left of what was fetched before.
    polls = [["given", 4.0 + number, 4.1 + number, []] for number in range(BUFFERED)]
    assert found(tmp_path, [CAME, *ACCEPTED], [CAME, *polls, given(20, 2)]) == ["given when done"]


def test_a_release_that_was_confirmed_is_counted(tmp_path: Path) -> None:
    released = [CAME, given(1, 2), says(2, 2, "release"), told(3)]
    late = [["came", 4.0], given(5, 2), says(6, 2, "accept"), told(7)]
    assert found(tmp_path, released, late, leader_changes=1) == ["counted back"]


@pytest.mark.parametrize(("leader_changes", "expected"), [(0, ["counted twice"]), (1, [])])
def test_a_count_comes_again_only_with_another_leader(leader_changes: int, expected: list[str], tmp_path: Path) -> None:
    ended = [given(9, 2), says(10, 2, "accept"), told(11)]
    history = [CAME, given(1, 1), given(5, 1), *ended]
    assert found(tmp_path, history, leader_changes=leader_changes) == expected


def test_while_nothing_goes_wrong_each_delivery_counts_one_more(tmp_path: Path) -> None:
    leap = [CAME, given(1, 1), says(2, 1, "release"), told(3), given(4, 3), says(5, 3, "accept"), told(6)]
    assert found(tmp_path, leap, quiet=Quiet(PLAIN, 10.0)) == ["counted by leaps"]
    assert found(tmp_path, leap, quiet=Quiet(PLAIN, 4.0)) == []
    assert found(tmp_path, leap, quiet=Quiet(PLAIN + 1, 10.0)) == []


def test_nothing_is_given_more_often_than_it_may_be(tmp_path: Path) -> None:
    assert found(tmp_path, [CAME, given(1, LIMIT + 1), says(2, LIMIT + 1, "accept")]) == ["given too often"]


def test_a_record_that_nobody_ended_is_lost(tmp_path: Path) -> None:
    assert found(tmp_path, [CAME, given(1, 1), says(2, 1, "release"), told(3)]) == ["lost"]
    assert found(tmp_path, [CAME]) == ["lost"]


def test_poison_is_given_as_often_as_it_may_be(tmp_path: Path) -> None:
    assert found(tmp_path, [CAME, given(1, 2, POISON), says(2, 2, "release"), told(3)], value=POISON) == ["given up"]
    often = [
        line for n in range(1, 6) for line in (given(3 * n, n, POISON), says(3 * n + 1, n, "release"), told(3 * n + 2))
    ]
    assert found(tmp_path, [CAME, *often], value=POISON) == []


def test_half_a_line_of_one_that_was_killed_is_left_aside(tmp_path: Path) -> None:
    file = tmp_path / "m.jsonl"
    file.write_text("\n".join(map(json.dumps, [CAME, *ACCEPTED])) + '\n["given", 9')
    assert anomalies(read([file]), [PLAIN], LIMIT, {0: 0}, NEVER) == []
