"""What members owned when, and what of it the checker must see."""

from __future__ import annotations

import pytest

from compat_tests.group_faults.members import Ledger, Tenure

FIRST = Tenure("a", 0, 0.5, 2.0)


@pytest.mark.parametrize(
    ("second", "is_seen"),
    [
        (Tenure("b", 0, 2.0), False),
        (Tenure("b", 0, 1.9), True),
        (Tenure("b", 1, 1.5), False),
        (Tenure("a", 0, 1.5), False),
    ],
)
def test_no_two_members_own_a_partition(second: Tenure, is_seen: bool) -> None:
    assert bool(Ledger([FIRST, second]).conflicts()) is is_seen
    assert bool(Ledger([second, FIRST]).conflicts()) is is_seen


def test_who_never_gave_up_a_partition_owns_it() -> None:
    assert Ledger([Tenure("a", 0, 1.0), Tenure("b", 0, 5.0)]).conflicts()


def test_what_was_just_given_may_be_taken_back_before_its_member_hears_of_it() -> None:
    young = Tenure("a", 0, 1.5, 2.0)
    assert Ledger([young, Tenure("b", 0, 1.9)]).conflicts() == []
    assert Ledger([young, Tenure("b", 0, 1.7)]).conflicts()


def test_what_is_lost_was_over_before_its_member_heard_of_it() -> None:
    assert Ledger([Tenure("a", 0, 1.0, 2.0, was_lost=True), Tenure("b", 0, 1.5)]).conflicts() == []
