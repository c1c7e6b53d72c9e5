"""Switch, fail-over and reversal with crashes at each effect: by seed, and with injected bugs that are found."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from odradek.replication.mirror.change import FAIL_OVER, REVERSE, SWITCH, Effect

from tests.harness.examples import examples
from tests.replication.mirror.mirror_simulator import Simulation

#: All run in `make nightly`.
SEEDS = 1000
STEPS = 250


def test_switch_fail_over_and_reversal_keep_every_record_under_crashes() -> None:
    for seed in range(examples(SEEDS)):
        try:
            Simulation(seed).run(STEPS)
        except AssertionError as broken:
            raise AssertionError(f"seed {seed}: {broken}") from broken


def test_every_command_ends_in_some_seeds() -> None:
    ended = set()
    for seed in range(100):
        simulation = Simulation(seed)
        for _ in range(STEPS):
            before = simulation.command
            simulation.step()
            if (
                before is not None
                and before[1] == len(simulation.changes[before[0]]) - 1
                and simulation.command is None
            ):
                ended.add(before[0])
    assert ended == {"switch", "fail-over", "reverse"}


def without(effects: Sequence[Effect], effect: Effect) -> tuple[Effect, ...]:
    return tuple(one for one in effects if one is not effect)


def swapped(effects: Sequence[Effect], first: Effect, second: Effect) -> tuple[Effect, ...]:
    exchange = {first: second, second: first}
    return tuple(exchange.get(one, one) for one in effects)


@pytest.mark.parametrize(
    ("name", "effects"),
    [
        ("switch", without(SWITCH, Effect.CLOSE_SOURCE)),
        ("switch", without(SWITCH, Effect.AWAIT_EQUAL)),
        ("switch", without(SWITCH, Effect.COMPARE_LAST)),
        ("switch", SWITCH[: SWITCH.index(Effect.AWAIT_EQUAL) + 1] + SWITCH[SWITCH.index(Effect.COPY_GROUPS) :]),
        ("switch", swapped(SWITCH, Effect.CLOSE_SOURCE, Effect.OPEN_HERE)),
        ("switch", swapped(SWITCH, Effect.CLOSE_SOURCE, Effect.AWAIT_EQUAL)),
        ("reverse", without(REVERSE, Effect.CLOSE_FORMER)),
    ],
)
def test_injected_bug_of_an_order_is_found(name: str, effects: Sequence[Effect]) -> None:
    changes: dict[str, Sequence[Effect]] = {"switch": SWITCH, "fail-over": FAIL_OVER, "reverse": REVERSE, name: effects}
    assert finds(lambda seed: Simulation(seed, changes))


def test_follower_that_compares_nothing_is_found() -> None:
    assert finds(lambda seed: Simulation(seed, compares=False))


def test_cut_that_keeps_nothing_is_found() -> None:
    assert finds(lambda seed: Simulation(seed, keeps=False))


def finds(simulation: Callable[[int], Simulation]) -> bool:
    for seed in range(300):
        try:
            simulation(seed).run(STEPS)
        except AssertionError:  # of an invariant, or of the machine itself
            return True
    return False
