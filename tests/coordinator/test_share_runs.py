"""The runs of a share partition against a model that has one state per record."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.coordinator.share_runs import NO_DEADLINE, NO_MEMBER, AcquiredRange, RecordState, Run, Runs


@dataclass(frozen=True)
class Model:
    state: RecordState
    count: int


def models_of(runs: Runs) -> dict[int, Model]:
    return {offset: Model(run.state, run.delivery_count) for run in runs for offset in range(run.first, run.last + 1)}


def assert_contiguous(runs: Runs) -> None:
    at = runs.start
    for run in runs:
        assert run.first == at <= run.last and len(run) == run.last - run.first + 1
        at = run.last + 1
    assert runs.end == at and len(runs) == len(list(runs))


STATES = st.sampled_from([RecordState.AVAILABLE, RecordState.ACQUIRED, RecordState.ACKNOWLEDGED, RecordState.ARCHIVED])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 5), STATES, st.integers(0, 2), st.booleans()),
        st.tuples(st.just("change"), st.integers(0, 25), st.integers(0, 6), STATES),
        st.tuples(st.just("drop"), st.integers(0, 12)),
        st.tuples(st.just("join")),
    ),
    max_size=12,
)


@given(steps=STEPS, start=st.sampled_from([0, 7]), first=st.integers(0, 30), length=st.integers(0, 6))
def test_runs_are_contiguous_and_have_the_state_of_each_record(
    steps: list[tuple[object, ...]], start: int, first: int, length: int
) -> None:
    runs, model = Runs(start), dict[int, Model]()
    for step in steps:
        match step:
            case "append", int(size), RecordState() as state, int(count), bool(acquired):
                begin = runs.end
                held = AcquiredRange(begin, begin + size - 1) if acquired else None
                runs.append(Run(begin, begin + size - 1, state, count, acquired_range=held))
                for offset in range(begin, begin + size):
                    model[offset] = Model(state, count)
            case "change", int(low), int(more), RecordState() as state:
                touched = [offset for offset in range(low, low + more + 1) if offset in model]
                found = runs.between(low, low + more)
                assert [offset for run in found for offset in range(run.first, run.last + 1)] == touched
                for run in found:
                    run.become(state)
                for offset in touched:
                    model[offset] = replace(model[offset], state=state)
            case "drop", int(below):
                offset = min(runs.start + below, runs.end)
                expected = sorted(one for one in model if one < offset)
                dropped = runs.drop_below(offset)
                assert [one for run in dropped for one in range(run.first, run.last + 1)] == expected
                model = {one: value for one, value in model.items() if one >= offset}
            case _:
                runs.join_alike()
        assert_contiguous(runs)
        assert models_of(runs) == model
    overlapping = runs.overlapping(first, first + length)
    assert overlapping == [run for run in runs if run.first <= first + length and run.last >= first]
    holder = next((run.acquired_range for run in runs if run.first <= first <= run.last), None)
    assert runs.end_of_range(first) == (holder.last if holder is not None else first)


def test_cut_of_an_acquired_range_is_noted_and_a_cut_at_its_ends_is_none() -> None:
    runs, held = Runs(), AcquiredRange(0, 9)
    runs.append(Run(0, 9, RecordState.ACQUIRED, 1, "m", 50, acquired_range=held))
    assert len(held) == 10 and len(runs.between(0, 9)) == 1 and not held.is_cut
    assert runs.between(10, 12) == [] and not held.is_cut
    (inner,) = runs.between(3, 3)
    assert held.is_cut and not inner.is_whole and len(runs) == 3
    assert [(run.first, run.last, run.member_id, run.deadline_ms, run.delivery_count) for run in runs] == [
        (0, 2, "m", 50, 1), (3, 3, "m", 50, 1), (4, 9, "m", 50, 1),
    ]  # fmt: skip
    assert all(run.acquired_range is held for run in runs) and runs.end_of_range(3) == 9


def run(first: int, last: int, **fields: object) -> Run:
    made = Run(first, last, RecordState.AVAILABLE, 1, "m", 5)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


@pytest.mark.parametrize(
    "fields",
    [
        {"state": RecordState.ACQUIRED},
        {"delivery_count": 2},
        {"member_id": "n"},
        {"deadline_ms": 6},
        {"before": (RecordState.ACQUIRED, 1, "m", 5)},
        {"acquired_range": AcquiredRange(5, 9)},
    ],
)
@pytest.mark.parametrize("is_first", [False, True])
def test_runs_in_different_states_are_not_joined(fields: dict[str, object], is_first: bool) -> None:
    runs = Runs()
    runs.append(run(0, 4, **(fields if is_first else {})))
    runs.append(run(5, 9, **({} if is_first else fields)))
    runs.join_alike()
    assert [(one.first, one.last) for one in runs] == [(0, 4), (5, 9)]


@pytest.mark.parametrize(
    ("state", "is_cut", "is_joined"),
    [
        (RecordState.ARCHIVED, False, True),
        (RecordState.ACKNOWLEDGED, False, True),
        (RecordState.ARCHIVED, True, False),
        (RecordState.ARCHIVING, False, False),
        (RecordState.AVAILABLE, False, False),
    ],
)
def test_final_runs_of_two_acquired_ranges_are_joined(state: RecordState, is_cut: bool, is_joined: bool) -> None:
    runs, first, second = Runs(), AcquiredRange(0, 4), AcquiredRange(5, 9)
    second.is_cut = is_cut
    runs.append(run(0, 4, state=state, acquired_range=first))
    runs.append(run(5, 9, state=state, acquired_range=second))
    runs.join_alike()
    assert len(runs) == (1 if is_joined else 2)


def test_change_that_is_not_written_is_rolled_back_whole() -> None:
    one = run(0, 4, state=RecordState.ACQUIRED)
    one.begin(RecordState.ARCHIVED)
    assert (one.state, one.member_id, one.deadline_ms) == (RecordState.ARCHIVED, NO_MEMBER, NO_DEADLINE)
    assert one.is_terminal and not one.is_final and not one.is_available
    one.delivery_count = 9
    one.roll_back()
    assert (one.state, one.member_id, one.deadline_ms, one.delivery_count) == (RecordState.ACQUIRED, "m", 5, 1)
    assert one.before is None and not one.is_terminal
    one.become(RecordState.AVAILABLE)
    assert one.is_available
    one.begin(RecordState.AVAILABLE)
    assert not one.is_available, "a change is pending"
    one.before = None
    one.become(RecordState.ACKNOWLEDGED)
    assert one.is_final
