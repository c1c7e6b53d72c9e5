"""Scatters requests to several shards and gathers their responses into one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any


def gather(questions: Sequence[Callable[[Callable[[Any], None]], None]], done: Callable[[list[Any]], None]) -> None:
    """Sends each request with a callback for its response. `done` gets the responses in the order of the requests."""
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
