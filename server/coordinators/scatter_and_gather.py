"""Scatter and gather: one request to several shards, and one response."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ...protocol.schema import Message

if TYPE_CHECKING:
    from ...protocol.schema import ResponseCallback


def gather(questions: Sequence[Callable[[ResponseCallback], None]], done: Callable[[list[Any]], None]) -> None:
    """Sends each request with a callback for its response. `done` gets the responses in the order of the requests."""
    responses: list[Message | None] = [None] * len(questions)
    missing = len(questions)

    def answered(number: int, response: Message) -> None:
        nonlocal missing
        responses[number] = response
        missing -= 1
        if not missing:
            done(responses)

    if not questions:
        done([])
    for number, ask in enumerate(questions):
        ask(partial(answered, number))
