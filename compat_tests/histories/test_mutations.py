"""Generated histories of a correct Kafka have no anomaly; one random change puts one in, which is found by its name."""

from __future__ import annotations

import itertools
from random import Random

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from compat_tests.histories.linearizability import is_linearizable, step
from compat_tests.histories.model import ModelClients
from compat_tests.histories.mutations import MUTATIONS, History
from compat_tests.histories.operation import INFO, OK, READ, RISE, WRITE, Operation
from compat_tests.histories.registers import judged_by_porcupine, porcupine
from compat_tests.histories.verdict import judge
from tests.harness.examples import examples

_EXAMPLES = settings(deadline=None, max_examples=examples(40), suppress_health_check=[*HealthCheck])
_SEEDS = st.integers(0, 1 << 32)


def made(seed: int) -> tuple[History, Random]:
    rng = Random(seed)
    return ModelClients(rng, clients=rng.randint(2, 5), keys=rng.randint(1, 3)).run(rng.randint(4, 15)), rng


@_EXAMPLES
@given(_SEEDS)
def test_history_of_a_correct_kafka_has_no_violation(seed: int) -> None:
    verdict = judge(made(seed)[0])
    assert not verdict.violations, verdict


@pytest.mark.parametrize("anomaly", MUTATIONS)
@_EXAMPLES
@given(seed=_SEEDS)
def test_one_random_change_is_found_by_its_name(anomaly: str, seed: int) -> None:
    history, rng = made(seed)
    try:
        changed = MUTATIONS[anomaly](history, rng)
    except StopIteration:
        changed = None
    assume(changed is not None)
    assert changed is not None
    verdict = judge(changed)
    assert anomaly in verdict.found, verdict


def test_histories_of_the_model_have_what_the_checks_look_at() -> None:
    history = [operation for seed in range(20) for operation in made(seed)[0]]
    outcomes = {(operation.f, operation.type) for operation in history}
    assert {
        ("txn", "ok"),
        ("txn", "fail"),
        ("txn", "info"),
        ("send", "ok"),
        ("send", "info"),
        ("poll", "ok"),
    } <= outcomes
    assert sum(len(operation.polls) for operation in history) > 1000


@st.composite
def register_histories(draw: st.DrawFn) -> list[Operation]:
    count = draw(st.integers(1, 6))
    kinds = draw(st.sampled_from([(READ, WRITE), (RISE,)]))
    found = []
    for process in range(count):
        begin, length = draw(st.integers(0, 12)), draw(st.integers(0, 6))
        f = draw(st.sampled_from(kinds))
        value = draw(st.integers(1, 3) if f != READ else st.one_of(st.none(), st.integers(1, 3)))
        outcome = draw(st.sampled_from([OK, OK, OK, INFO])) if f == WRITE else OK
        found.append(Operation(process, f, outcome, begin, begin + length, value, register="r"))
    return found


def is_explained(operations: list[Operation]) -> bool:
    """Tries each order of each selection of the operations with an unknown outcome."""
    certain = [one for one in operations if one.type == OK]
    unknown = [one for one in operations if one.type != OK]
    for count in range(len(unknown) + 1):
        for chosen in itertools.combinations(unknown, count):
            for order in itertools.permutations([*certain, *chosen]):
                is_timely = all(
                    not (later.type == OK and later.completed < former.invoked)
                    for former, later in itertools.combinations(order, 2)
                )
                if is_timely and _fits(order):
                    return True
    return False


def _fits(order: tuple[Operation, ...]) -> bool:
    state = None
    for operation in order:
        is_fitting, state = step(state, operation)
        if not is_fitting:
            return False
    return True


@_EXAMPLES
@given(register_histories())
def test_search_decides_as_all_orders_do(operations: list[Operation]) -> None:
    assert is_linearizable(operations) == is_explained(operations)


@settings(deadline=None, max_examples=1, database=None)
@given(st.lists(register_histories(), min_size=examples(40), max_size=examples(60)))
def test_porcupine_decides_as_the_search_does(histories: list[list[Operation]]) -> None:
    program = porcupine()
    if program is None:
        pytest.skip("no Go")
    registers = {f"r{number}": operations for number, operations in enumerate(histories)}
    wrong = [name for name, operations in registers.items() if not is_linearizable(operations)]
    assert sorted(judged_by_porcupine(program, registers)) == sorted(wrong)
