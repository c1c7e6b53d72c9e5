"""Observers of calls that any call may have: the time of a call, and several observers in order."""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING

from .call import Call, Observer

if TYPE_CHECKING:
    from ...protocol.schema import Message
    from .file_sender import Piece


class Observers(Observer):
    """Several observers of a call, in order. None of them takes its response."""

    __slots__ = ("_all", "meter")

    def __init__(self, *observers: Observer) -> None:
        self._all = observers
        self.meter = next((one.meter for one in observers if one.meter is not None), None)

    def parked(self, call: Call) -> None:
        for one in self._all:
            one.parked(call)

    def replying(self, call: Call, response: Message | None) -> bool:
        for one in self._all:
            one.replying(call, response)
        return True

    def deferred(self, call: Call) -> None:
        for one in self._all:
            one.deferred(call)

    def replied(self, call: Call) -> None:
        for one in self._all:
            one.replied(call)

    def finishing(self, call: Call, pieces: list[Piece]) -> bool:
        for one in self._all:
            one.finishing(call, pieces)
        return True

    def exempt(self) -> None:
        for one in self._all:
            one.exempt()


class Timing(Observer):
    """Measures the time of a call from its creation to the response."""

    __slots__ = ("_began_ns",)

    def __init__(self) -> None:
        self._began_ns = perf_counter_ns()

    def replied(self, call: Call) -> None:
        call.route.times.add(perf_counter_ns() - self._began_ns)
