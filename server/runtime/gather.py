"""Questions to several shards, and one answer when all of them have answered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..coordinators.coordinator_driver import CoordinatorDriver


def gather(questions: Sequence[Callable[[Callable[[Any], None]], None]], done: Callable[[list[Any]], None]) -> None:
    """Asks each question with a function for its answer; `done` gets the answers in the order of the questions."""
    answers: list[Any] = [None] * len(questions)
    missing = len(questions)

    def answered(number: int, answer: Any) -> None:
        nonlocal missing
        answers[number] = answer
        missing -= 1
        if not missing:
            done(answers)

    if not questions:
        done([])
    for number, ask in enumerate(questions):
        ask(partial(answered, number))


def by_partition(groups: CoordinatorDriver, group_ids: Iterable[str]) -> list[list[str]]:
    """The ids, those of one partition together: what one shard can be asked for at once."""
    found: dict[int, list[str]] = {}
    for group_id in group_ids:
        found.setdefault(groups.partition_for(group_id), []).append(group_id)
    return list(found.values())
