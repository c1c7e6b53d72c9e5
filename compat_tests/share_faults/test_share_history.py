"""Histories with a violation each, which the checker must find."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from compat_tests.share_faults import dead_letter_records
from compat_tests.share_faults.dead_letter_records import EXCEEDED, REJECTED, DeadLetterRecord
from compat_tests.share_faults.history import BUFFERED, Circumstances, Quiet, anomalies, read
from compat_tests.share_faults.leaders import Leaders, Sample

LIMIT, LOCK_S = 5, 4.0
NEVER = Quiet(1_000, 0.0)
#: A record that is not poison, and a poison record.
PLAIN, POISON = 1, 40


def given(began: float, count: int, value: int = PLAIN) -> list[object]:
    return ["given", began, began + 0.1, [[0, 0, count, value]]]


def says(time: float, count: int, what: str) -> list[object]:
    return ["says", time, [[0, 0, count, what]]]


def reported(time: float, error: str | None = None) -> list[object]:
    return ["told", time, 0, error]


def steady(*epochs: int) -> Leaders:
    """Returns samples with these leader epochs, one each second; by default of one steady leader."""
    leaders = Leaders()
    leaders.samples = [Sample(second, second, {0: epoch}) for second, epoch in enumerate(epochs or [0] * 100)]
    return leaders


def files_of(tmp_path: Path, members: Iterable[list[list[object]]]) -> list[Path]:
    """Writes a file for each member's history."""
    files = []
    for number, lines in enumerate(members):
        files.append(tmp_path / f"m{number}.jsonl")
        files[-1].write_text("".join(json.dumps(line) + "\n" for line in lines))
    return files


def around(*, leader_changes: int = 0, quiet: Quiet = NEVER, leaders: Leaders | None = None) -> Circumstances:
    return Circumstances(LIMIT, {0: leader_changes}, quiet, LOCK_S, leaders or steady())


def kinds(found: Iterable[str]) -> list[str]:
    return [one.partition(":")[0] for one in found]


def found(tmp_path: Path, *members: list[list[object]], value: int = PLAIN, **circumstances: Any) -> list[str]:
    """Returns the kinds of violations of one record."""
    return reported_of(files_of(tmp_path, members), value, **circumstances)


def reported_of(files: list[Path], value: int = PLAIN, **circumstances: Any) -> list[str]:
    return kinds(anomalies(read(files), [value], around(**circumstances)))


CAME = ["came", 0.0]
ACCEPTED = [given(1, 1), says(2, 1, "accept"), reported(3)]


def test_a_record_that_is_released_and_then_accepted_is_well(tmp_path: Path) -> None:
    released = [CAME, given(1, 1), says(2, 1, "release"), reported(3)]
    assert found(tmp_path, released, [CAME, given(4, 2), says(5, 2, "accept"), reported(6)]) == []


def test_a_response_that_never_came_may_be_either(tmp_path: Path) -> None:
    assert found(tmp_path, [CAME, given(1, 1), says(2, 1, "accept")]) == []
    again = [CAME, given(9, 2), says(10, 2, "accept"), reported(11)]
    assert found(tmp_path, [CAME, given(1, 1), says(2, 1, "accept"), reported(3, "refused")], again) == []


def test_a_second_acknowledgement_is_not_confirmed_while_the_share_partition_is_open_there(tmp_path: Path) -> None:
    second = [CAME, given(1.5, 2), says(4, 2, "accept"), reported(5)]
    poison = ["given", 9.0, 9.1, [[0, 0, LIMIT, POISON]]]
    before = [["came", 6.0], poison]
    files = files_of(tmp_path, ([CAME, *ACCEPTED], second))
    for file in files:
        file.write_text(file.read_text().replace("[[0, 0, ", "[[0, 1, "))
    assert reported_of(files) == [], "all up to it may be done with, and then Kafka takes whatever is said"
    files.append(tmp_path / "late.jsonl")
    files[-1].write_text("".join(json.dumps(line) + "\n" for line in before))
    assert reported_of(files) == ["done twice"]


def test_late_confirmation_may_be_of_an_early_effect(tmp_path: Path) -> None:
    """The first response was lost, and the client sent the request again."""
    released = [CAME, given(1, 1), says(2, 1, "release"), reported(20)]
    accepted = [CAME, given(5, 2), says(6, 2, "accept"), reported(7)]
    assert found(tmp_path, released, accepted) == []


def test_a_record_that_is_done_with_is_not_given_out(tmp_path: Path) -> None:
    late = [["came", 4.0], given(5, 2), says(6, 2, "accept"), reported(7, "refused")]
    assert found(tmp_path, [CAME, *ACCEPTED], late) == ["given when done"]


def test_buffered_deliveries_are_no_violation(tmp_path: Path) -> None:
    late = [CAME, given(5, 2), says(6, 2, "accept"), reported(7, "refused")]
    assert found(tmp_path, [CAME, *ACCEPTED], late) == []
    # After so many polls the client's buffer has no records that it fetched before.
    polls = [["given", 4.0 + number, 4.1 + number, []] for number in range(BUFFERED)]
    assert found(tmp_path, [CAME, *ACCEPTED], [CAME, *polls, given(20, 2)]) == ["given when done"]


def test_a_release_that_was_confirmed_is_counted(tmp_path: Path) -> None:
    released = [CAME, given(1, 2), says(2, 2, "release"), reported(3)]
    late = [["came", 4.0], given(5, 2), says(6, 2, "accept"), reported(7)]
    assert found(tmp_path, released, late, leader_changes=1) == ["counted back"]


@pytest.mark.parametrize(("leader_changes", "expected"), [(0, ["counted twice"]), (1, [])])
def test_a_count_comes_again_only_with_another_leader(leader_changes: int, expected: list[str], tmp_path: Path) -> None:
    ended = [given(9, 2), says(10, 2, "accept"), reported(11)]
    history = [CAME, given(1, 1), given(5, 1), *ended]
    assert found(tmp_path, history, leader_changes=leader_changes) == expected


def test_while_nothing_goes_wrong_each_delivery_counts_one_more(tmp_path: Path) -> None:
    leap = [CAME, given(1, 1), says(2, 1, "release"), reported(3), given(4, 3), says(5, 3, "accept"), reported(6)]
    assert found(tmp_path, leap, quiet=Quiet(PLAIN, 10.0)) == ["counted by leaps"]
    assert found(tmp_path, leap, quiet=Quiet(PLAIN, 4.0)) == []
    assert found(tmp_path, leap, quiet=Quiet(PLAIN + 1, 10.0)) == []


def test_nothing_is_given_more_often_than_it_may_be(tmp_path: Path) -> None:
    assert found(tmp_path, [CAME, given(1, LIMIT + 1), says(2, LIMIT + 1, "accept")]) == ["given too often"]


def test_record_without_a_final_state_is_lost(tmp_path: Path) -> None:
    assert found(tmp_path, [CAME, given(1, 1), says(2, 1, "release"), reported(3)]) == ["lost"]
    assert found(tmp_path, [CAME]) == ["lost"]


def test_poison_is_given_as_often_as_it_may_be(tmp_path: Path) -> None:
    assert found(tmp_path, [CAME, given(1, 2, POISON), says(2, 2, "release"), reported(3)], value=POISON) == [
        "given up"
    ]
    often = [
        line
        for n in range(1, 6)
        for line in (given(3 * n, n, POISON), says(3 * n + 1, n, "release"), reported(3 * n + 2))
    ]
    assert found(tmp_path, [CAME, *often], value=POISON) == []


def test_half_a_line_of_one_that_was_killed_is_left_aside(tmp_path: Path) -> None:
    file = tmp_path / "m.jsonl"
    file.write_text("\n".join(map(json.dumps, [CAME, *ACCEPTED])) + '\n["given", 9')
    assert reported_of([file]) == []


# Renewed locks (KIP-1222).

NOT_YOURS = "InvalidRecordStateException"
RENEWED = [CAME, given(1, 1), says(2, 1, "renew"), reported(3), ["again", 4.0, [[0, 0, 1, PLAIN]]]]
KEPT = [*RENEWED, says(20, 1, "accept"), reported(21)]
OTHER = [["came", 4.0], given(5, 2), says(5.5, 2, "accept"), reported(5.8, NOT_YOURS)]


def test_a_record_whose_lock_is_renewed_and_that_is_then_accepted_is_well(tmp_path: Path) -> None:
    assert found(tmp_path, KEPT) == []


def test_held_record_goes_to_no_other_member(tmp_path: Path) -> None:
    assert found(tmp_path, KEPT, OTHER) == ["given while held"]


def test_a_lock_ends_with_its_time_its_leader_or_its_member(tmp_path: Path) -> None:
    late = [["came", 4.0], given(6.5, 2)]
    assert found(tmp_path, KEPT, late) == []
    assert found(tmp_path, KEPT, OTHER, leaders=steady(*[0] * 4, *[1] * 96)) == []
    assert found(tmp_path, KEPT, OTHER, leaders=steady(0, 0, 0)) == [], "it is not known who led in the end"
    gone = [*RENEWED, says(4.5, 1, "release")]
    assert found(tmp_path, gone, [*OTHER, says(6, 2, "accept"), reported(7)]) == []
    assert found(tmp_path, RENEWED, [*OTHER, says(6, 2, "accept"), reported(7)]) == [], "it may have died"


@pytest.mark.parametrize(
    ("error", "at", "expected"),
    [(NOT_YOURS, 5.0, ["refused though held"]), (NOT_YOURS, 6.5, []), ("TimeoutException", 5.0, [])],
)
def test_holder_of_a_record_may_accept_or_reject_it(error: str, at: float, expected: list[str], tmp_path: Path) -> None:
    rejected = [*RENEWED, says(4.5, 1, "accept"), reported(at, error)]
    assert found(tmp_path, rejected) == expected


def test_finished_record_is_not_renewed(tmp_path: Path) -> None:
    poison = [["came", 6.0], ["given", 9.0, 9.1, [[0, 0, LIMIT, POISON]]]]
    renewed = [CAME, given(1.5, 2), says(4, 2, "renew"), reported(5)]
    files = files_of(tmp_path, ([CAME, *ACCEPTED], renewed, poison))
    for file in files[:2]:
        file.write_text(file.read_text().replace("[[0, 0, ", "[[0, 1, "))
    assert reported_of(files) == ["done twice"]


# Transactions.


def test_aborted_record_goes_to_no_member(tmp_path: Path) -> None:
    aborted = [["came", 0.0], ["given", 1.0, 1.1, [[0, 0, 1, -1]]], says(2, 1, "accept"), reported(3)]
    accepted = [["given", 4.0, 4.1, [[0, 1, 1, PLAIN]]], ["says", 5.0, [[0, 1, 1, "accept"]]], reported(6)]
    assert found(tmp_path, [*aborted, *accepted]) == ["not committed"]


def test_a_record_is_in_one_place(tmp_path: Path) -> None:
    again = [["given", 4.0, 4.1, [[0, 1, 1, PLAIN]]], ["says", 5.0, [[0, 1, 1, "accept"]]], reported(6)]
    assert found(tmp_path, [CAME, *ACCEPTED, *again]) == ["not committed"] * 2


# Dead-letter records (KIP-1191).

REJECTS = [CAME, given(1, 1), says(2, 1, "reject"), reported(3)]
DEAD_LETTER = DeadLetterRecord((0, 0), PLAIN, REJECTED)


def dead_lettered(
    tmp_path: Path, lines: list[list[object]], *found: DeadLetterRecord, **circumstances: Any
) -> list[str]:
    history = read(files_of(tmp_path, [lines]))
    return kinds(dead_letter_records.anomalies(history, found, around(**circumstances)))


def test_rejected_or_overdelivered_record_is_in_the_queue(tmp_path: Path) -> None:
    assert dead_lettered(tmp_path, REJECTS, DEAD_LETTER) == []
    assert dead_lettered(tmp_path, REJECTS) == ["not buried"]
    used_up = [CAME, given(1, LIMIT), says(2, LIMIT, "release"), reported(3)]
    assert dead_lettered(tmp_path, used_up, DEAD_LETTER._replace(why=EXCEEDED)) == []
    assert dead_lettered(tmp_path, used_up) == ["not buried"]


def test_accepted_record_is_not_in_the_queue(tmp_path: Path) -> None:
    assert dead_lettered(tmp_path, [CAME, *ACCEPTED]) == []
    both = [CAME, given(1, 1), given(5, 2), says(6, 2, "accept"), reported(7), says(8, 1, "reject")]
    assert dead_lettered(tmp_path, both, DEAD_LETTER) == [], "below the start whatever is said is taken"
    later = [["came", 8.5], given(9, 2)]
    files = files_of(tmp_path, (both, later))
    assert kinds(dead_letter_records.anomalies(read(files), [DEAD_LETTER], around())) == ["buried and accepted"]


def test_nothing_is_buried_for_nothing(tmp_path: Path) -> None:
    assert dead_lettered(tmp_path, [CAME, given(1, 1), says(2, 1, "release"), reported(3)], DEAD_LETTER) == [
        "buried for nothing",
        "another's words",
    ]
    assert dead_lettered(tmp_path, REJECTS, DEAD_LETTER, DeadLetterRecord((0, 7), 7, REJECTED)) == [
        "buried for nothing"
    ]


def test_markers_of_transactions_are_no_records(tmp_path: Path) -> None:
    history = read(files_of(tmp_path, [REJECTS]))
    marker = DeadLetterRecord((0, 7), -1, EXCEEDED)
    assert dead_letter_records.anomalies(history, [DEAD_LETTER, marker], around(), {(0, 7)}) == []
    assert kinds(dead_letter_records.anomalies(history, [DEAD_LETTER, marker], around(), {(0, 8)})) == [
        "buried for nothing"
    ]
    rejected = marker._replace(why=REJECTED)
    assert kinds(dead_letter_records.anomalies(history, [DEAD_LETTER, rejected], around(), {(0, 7)})) == [
        "buried for nothing"
    ]


def test_dead_letter_record_belongs_to_its_record(tmp_path: Path) -> None:
    assert dead_lettered(tmp_path, REJECTS, DEAD_LETTER._replace(value=7)) == ["another's words"]
    assert dead_lettered(tmp_path, REJECTS, DEAD_LETTER._replace(why=EXCEEDED)) == ["another's words"]


def test_dead_letter_records_are_repeated_only_after_a_leader_change(tmp_path: Path) -> None:
    assert dead_lettered(tmp_path, REJECTS, DEAD_LETTER, DEAD_LETTER) == ["buried over and over"]
    assert dead_lettered(tmp_path, REJECTS, DEAD_LETTER, DEAD_LETTER, leader_changes=1) == []
