"""Sets in parts: they hold what a set holds, and are compared and cleared in steps."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st
from odradek.server.runtime.parted_set import PartedSet, equals_in_steps
from odradek.server.runtime.sliced_work import run_to_completion

NUMBERS = st.sets(st.integers(0, 300))


def parted(values: Iterable[int]) -> PartedSet[int]:
    made: PartedSet[int] = PartedSet()
    for value in values:
        assert made.add(value)
    return made


@given(NUMBERS, st.integers(0, 300))
def test_parted_set_has_the_values_of_a_set(values: set[int], value: int) -> None:
    made = parted(values)
    assert made == values and len(made) == len(values) and bool(made) == bool(values)
    assert (value in made) == (value in values)
    assert made.add(value) == (value not in values)
    assert set(made) == values | {value}


@given(NUMBERS, NUMBERS)
def test_comparison_in_steps_is_that_of_sets(one: set[int], other: set[int]) -> None:
    assert run_to_completion(equals_in_steps(parted(one), parted(other))) == (one == other)
    assert run_to_completion(equals_in_steps(parted(one), frozenset(other))) == (one == other)
    assert run_to_completion(equals_in_steps(parted(one), parted(list(one)[::-1])))


@given(NUMBERS)
def test_cleared_set_is_empty(values: set[int]) -> None:
    made = parted(values)
    run_to_completion(made.clear())
    assert not made and not len(made)
