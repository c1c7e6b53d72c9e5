"""Bugs that are planted in a machine, each of which its simulation must catch."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Bug = Callable[[pytest.MonkeyPatch], None]
#: Whatever is planted shows in one of so many.
SEEDS = 20


def each_of(*bugs: Bug) -> pytest.MarkDecorator:
    """A test of its own for each, under its name."""
    return pytest.mark.parametrize("bug", bugs, ids=[bug.__name__.strip("_") for bug in bugs])


def assert_caught(bug: Bug, patch: pytest.MonkeyPatch, play: Callable[[int], object], seeds: int = SEEDS) -> None:
    """`play` is what the simulation does with a seed."""
    bug(patch)
    with pytest.raises(AssertionError):
        for seed in range(seeds):
            play(seed)
