"""The effects of faults on a request: each is a class with `strike`.

`strike(struck)` decides over one request: it answers (`struck.answer`), lets the request go on to the broker
(`struck.proceed`) with or without a change to the answer, later or now, or ends the connection.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from ...protocol.errors import ErrorCode
from .disk import SlowDisk

if TYPE_CHECKING:
    from .striking import Struck


class Effect(Protocol):
    """The effect of a fault."""

    def strike(self, struck: Struck) -> None:
        """Strikes a request."""


@dataclass(slots=True)
class Fail:
    """Answers with an error, for the parts of the request that are meant. The errors come in turn, the last one stays; None
    lets a request pass. `after`: the broker does what was asked first.
    """

    errors: tuple[ErrorCode | None, ...]
    after: bool = False
    _next: int = 0

    def strike(self, struck: Struck) -> None:
        error = self.errors[min(self._next, len(self.errors) - 1)]
        self._next += 1
        if error is None:
            struck.proceed()
        elif self.after or struck.call.api.name == "Metadata":
            struck.proceed(lambda response: struck.answer(struck.with_errors(response, error)))
        else:
            struck.fail(error)


@dataclass(slots=True)
class Delay:
    """Holds the request back for a time before the broker takes it, or its answer afterwards. The connection waits."""

    seconds: float
    after: bool = False

    def strike(self, struck: Struck) -> None:
        if self.after:
            struck.hold()
            struck.proceed(lambda response: struck.later(self.seconds, lambda: struck.answer(response)))
        else:
            struck.keep()
            struck.later(self.seconds, struck.proceed)


@dataclass(slots=True)
class Drop:
    """Ends the connection before the broker takes the request, or in place of the answer."""

    after: bool = False

    def strike(self, struck: Struck) -> None:
        if self.after:
            struck.proceed(lambda response: struck.abort())
        else:
            struck.abort()


@dataclass(slots=True)
class Hang:
    """Never answers, and takes no further request of the connection: the client's time-out ends it."""

    after: bool = False

    def strike(self, struck: Struck) -> None:
        struck.hold()
        if self.after:
            struck.proceed(lambda response: None)


@dataclass(slots=True)
class Truncate:
    """Sends the first bytes of the answer and ends the connection. A negative number leaves out that many of the last."""

    size: int

    def strike(self, struck: Struck) -> None:
        struck.proceed(lambda response: struck.answer_part(response, self.size))


@dataclass(slots=True)
class Throttle:
    """Answers with a throttle time, as a quota does (KIP-219), and takes no request of the connection for so long."""

    milliseconds: int

    def strike(self, struck: Struck) -> None:
        struck.call.throttle_time_ms = max(struck.call.throttle_time_ms, self.milliseconds)
        struck.proceed()


@dataclass(slots=True)
class Pause:
    """Keeps requests until the fault is cancelled; then the broker takes them in their order."""

    waiting: list[Struck] = field(default_factory=list)

    def strike(self, struck: Struck) -> None:
        struck.keep()
        self.waiting.append(struck)

    def end(self) -> None:
        """Lets the requests go on."""
        waiting, self.waiting = self.waiting, []
        for struck in waiting:
            struck.resume()


def described(effect: Any) -> str:
    """Returns an effect in words: "fail with REQUEST_TIMED_OUT"."""
    if isinstance(effect, Fail):
        names = ", ".join("no error" if error is None else error.name for error in effect.errors)
        return f"fail with {names}{' after the effect' if effect.after else ''}"
    words = {
        Delay: lambda: f"delay by {effect.seconds:g} s",
        Truncate: lambda: f"truncate to {effect.size} bytes",
        SlowDisk: lambda: f"take {effect.seconds:g} s longer",
        Throttle: lambda: f"throttle for {effect.milliseconds} ms",
    }
    said = words[type(effect)]() if type(effect) in words else type(effect).__name__.lower()
    return said + (" after the effect" if getattr(effect, "after", False) else "")
