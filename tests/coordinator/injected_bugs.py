"""Injected bugs in a state machine, each of which its simulation must detect."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

Bug = Callable[[pytest.MonkeyPatch], None]
#: An injected bug must be detected within this number of seeds.
SEEDS = 20


class PatchEverywhere:
    """Replaces a function of a module in every module that has imported it by name."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch

    def setattr(self, target: Any, name: str, value: object) -> None:
        original = getattr(target, name)
        self._patch.setattr(target, name, value)
        if isinstance(target, ModuleType):
            for module in list(sys.modules.values()):
                if module.__name__.startswith("odradek.") and vars(module).get(name) is original:
                    self._patch.setattr(module, name, value)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._patch, name)


def each_of(*bugs: Bug) -> pytest.MarkDecorator:
    """Parametrizes a test over bugs, with their names as ids."""
    return pytest.mark.parametrize("bug", bugs, ids=[bug.__name__.strip("_") for bug in bugs])


def assert_caught(bug: Bug, patch: pytest.MonkeyPatch, execute: Callable[[int], object], seeds: int = SEEDS) -> None:
    """Asserts that the simulation detects the bug. `execute` runs the simulation with a seed."""
    bug(PatchEverywhere(patch))  # type: ignore[arg-type]
    with pytest.raises(AssertionError):
        for seed in range(seeds):
            execute(seed)
