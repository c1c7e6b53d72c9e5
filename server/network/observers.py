"""Code that follows a call, such as quotas (`CostMeter`) and times (`Timing`)."""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...protocol.schema import Message
    from .call import Call
    from .file_sender import Piece


class Observer:
    """Code that follows a call, or stands in for a part of it. Most calls have none, and pay nothing for the slot.

    Methods that return a bool return whether the call goes on in its own way.
    """

    __slots__ = ()

    #: The recorder of the call's cost; None where no client has a quota.
    meter: CostMeter | None = None
    #: Whether a large response is encoded in slices; not where it becomes a part of another one.
    may_reply_in_slices = True

    def parked(self, call: Call) -> None:
        """The handler has returned, or goes on in turns."""

    def replying(self, call: Call, response: Message | None) -> bool:
        """There is a response, which is not encoded yet; None where the protocol gives none."""
        return True

    def deferred(self, call: Call) -> None:
        """The response is encoded in later turns."""

    def replied(self, call: Call) -> None:
        """The response is with the connection."""

    def finishing(self, call: Call, pieces: list[Piece]) -> bool:
        """The response is encoded."""
        return True

    def failing(self, call: Call) -> bool:
        """The request has failed by a bug."""
        return True

    def holding(self, call: Call) -> bool:
        """The connection is to take no further request before the response."""
        return True

    def exempt(self) -> None:
        """No quota holds for the request."""


class CostMeter(Observer):
    """Records the cost of a call while clients have quotas (metering.py)."""

    __slots__ = ()

    def most_fetched_bytes(self) -> float:
        """Returns the most bytes of records that the client may fetch now."""
        raise NotImplementedError

    def throttles_fetch(self, call: Call, size: int) -> bool:
        """Records a response of `size` bytes. Returns True if it may not be sent now; then it is not recorded."""
        raise NotImplementedError

    def spent(self, call: Call, seconds: float) -> None:
        """Counts time that the call took in a later turn of the loop."""
        raise NotImplementedError


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
