"""Injected bugs in a state machine, each of which its simulation must detect."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Bug = Callable[[pytest.MonkeyPatch], None]
#: An injected bug must be detected within this number of seeds.
SEEDS = 20


def each_of(*bugs: Bug) -> pytest.MarkDecorator:
    """Parametrizes a test over bugs, with their names as ids."""
    return pytest.mark.parametrize("bug", bugs, ids=[bug.__name__.strip("_") for bug in bugs])


def assert_caught(bug: Bug, patch: pytest.MonkeyPatch, execute: Callable[[int], object], seeds: int = SEEDS) -> None:
    """Asserts that the simulation detects the bug. `execute` runs the simulation with a seed."""
    bug(patch)
    with pytest.raises(AssertionError):
        for seed in range(seeds):
            execute(seed)
