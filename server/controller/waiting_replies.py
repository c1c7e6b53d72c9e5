"""Replies of the controller that wait until everything their decision saw is published."""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.schema import Message
from .controller_request import Asked
from .undecided import not_controller

if TYPE_CHECKING:
    from ...protocol.schema import ResponseCallback

log = logging.getLogger("odradek.quorum")


class _Waiting(NamedTuple):
    """A reply that waits until everything below `offset` is published."""

    offset: int
    asked: Asked
    reply: ResponseCallback
    response: Message


class WaitingReplies:
    """The waiting replies in the order of their requests, which is the order of their offsets."""

    def __init__(self) -> None:
        self._waiting: deque[_Waiting] = deque()

    def add(self, offset: int, asked: Asked, reply: ResponseCallback, response: Message) -> None:
        self._waiting.append(_Waiting(offset, asked, reply, response))

    def published(self, end_offset: int) -> None:
        while self._waiting and self._waiting[0].offset <= end_offset:
            waiting = self._waiting.popleft()
            _respond(waiting.reply, waiting.response)

    def reject_all(self) -> None:
        """Fails all waiting requests: this node no longer decides, and does not know whether its decisions will be
        committed.
        """
        while self._waiting:
            waiting = self._waiting.popleft()
            _respond(waiting.reply, not_controller(*waiting.asked))


def _respond(reply: ResponseCallback, response: Message) -> None:
    try:
        reply(response)
    except Exception:
        log.exception("a reply of the controller could not be sent: %r", response)
