"""Walks every state that a small world can reach, breadth first. A world is a few state machines of the product with the
network, crashes and timers around them.

A world names its choices, the events that may be next. Each choice is made on a copy of the world. States with the same
canonical form are explored once; of a form its 64-bit hash is kept. A violated invariant is reported with the choices
that lead to it, of which there are as few as possible.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Set
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, NamedTuple, Protocol, Self

#: An event that may be next: its kind and its subjects.
Choice = tuple[Any, ...]


class World(Protocol):
    def choices(self) -> Iterable[Choice]: ...

    def apply(self, choice: Choice) -> None:
        """Makes a choice and checks the invariants. Raises AssertionError; any exception is a violation."""

    def canonical(self) -> Hashable:
        """Returns a value that two states share only if they behave alike."""

    def copy(self) -> Self: ...


class Violation(AssertionError):
    """A violated invariant, and the choices that lead to it."""


class Report(NamedTuple):
    """`depth`: the most choices in a row. `is_whole`: whether no state was left out at the limit."""

    states: int
    transitions: int
    depth: int
    is_whole: bool

    def __str__(self) -> str:
        bound = "every state" if self.is_whole else "up to the limit"
        return f"{self.states:>7} states, {self.transitions:>8} transitions, depth {self.depth:>2} ({bound})"


@dataclass(slots=True)
class _Step:
    """A reached state: the choice that led to it, and the state before."""

    choice: Choice | None
    before: _Step | None
    depth: int

    def choices(self) -> list[Choice]:
        found: list[Choice] = []
        step: _Step | None = self
        while step is not None and step.choice is not None:
            found.append(step.choice)
            step = step.before
        return found[::-1]


def explore(start: World, most_states: int) -> Report:
    """Explores all states from `start`, or the `most_states` nearest ones. Raises Violation."""
    known = {hash(start.canonical())}
    waiting: deque[tuple[World, _Step]] = deque([(start, _Step(None, None, 0))])
    transitions = depth = 0
    is_whole = True
    while waiting:
        world, step = waiting.popleft()
        for choice in world.choices():
            after, then = world.copy(), _Step(choice, step, step.depth + 1)
            transitions += 1
            try:
                after.apply(choice)
            except Exception as broken:
                path = "\n  ".join(map(str, then.choices()))
                raise Violation(f"{type(broken).__name__}: {broken}, after\n  {path}") from broken
            form = hash(after.canonical())
            if form in known:
                continue
            if len(known) >= most_states:
                is_whole = False
                continue
            known.add(form)
            depth = max(depth, then.depth)
            waiting.append((after, then))
    return Report(len(known), transitions, depth, is_whole)


_ATOMS = (int, str, bytes, float, bool, type(None))
_FUNCTIONS = (FunctionType, BuiltinFunctionType, MethodType, type)


def frozen(value: Any, shared: Set[int] = frozenset(), above: tuple[int, ...] = ()) -> Hashable:
    """Returns a hashable form of a state machine, its order of keys and identities left out. `shared`: the ids of objects
    that all states have in common.
    """
    if isinstance(value, _ATOMS):
        return value
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, _FUNCTIONS):
        return value.__qualname__
    if id(value) in shared:
        return "shared"
    if id(value) in above:
        return "above"
    above = (*above, id(value))
    if isinstance(value, Mapping):
        return tuple(sorted(((frozen(k, shared, above), frozen(v, shared, above)) for k, v in value.items()), key=repr))
    if isinstance(value, Set):
        return tuple(sorted((frozen(one, shared, above) for one in value), key=repr))
    if isinstance(value, Iterable):
        return tuple(frozen(one, shared, above) for one in value)
    return (type(value).__name__, *(frozen(getattr(value, name, None), shared, above) for name in _names(value)))


def _names(value: Any) -> list[str]:
    if is_dataclass(value):
        return [field.name for field in fields(value)]
    slots = {name for cls in type(value).__mro__ for name in _as_tuple(getattr(cls, "__slots__", ()))}
    return sorted(slots | set(getattr(value, "__dict__", ())))


def _as_tuple(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)
