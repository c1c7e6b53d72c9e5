"""The observer of an inner call, such as a portion of a request, whose response is a part of another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .call import Observer

if TYPE_CHECKING:
    from ...protocol.schema import Message
    from .call import Call


class Relay(Observer):
    """Takes the response of a call in place of the client. `outer`: the call that the connection has, and that fails or
    holds the connection in its place.
    """

    __slots__ = ("_outer",)

    def __init__(self, outer: Call) -> None:
        self._outer = outer

    def taken(self, call: Call, response: Message | None) -> None:
        """Takes the response, None where the protocol gives none."""
        raise NotImplementedError

    def replying(self, call: Call, response: Message | None) -> bool:
        call.pieces = []
        self.taken(call, response)
        return False

    def failing(self, call: Call) -> bool:
        call.has_failed = True
        self._outer.fail()
        return False

    def holding(self, call: Call) -> bool:
        self._outer.hold_connection()
        return False
