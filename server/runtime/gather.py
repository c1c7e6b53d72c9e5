"""Scatters requests to several shards and gathers their responses into one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...protocol.schema import Message, ResponseCallback


def gather(questions: Sequence[Callable[[ResponseCallback], None]], done: Callable[[list[Any]], None]) -> None:
    """Sends each request with a callback for its response. `done` gets the responses in the order of the requests."""
    answers: list[Message | None] = [None] * len(questions)
    missing = len(questions)

    def answered(number: int, response: Message) -> None:
        nonlocal missing
        answers[number] = response
        missing -= 1
        if not missing:
            done(answers)

    if not questions:
        done([])
    for number, ask in enumerate(questions):
        ask(partial(answered, number))
