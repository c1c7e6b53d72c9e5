"""The effects of faults on a request: each is a class with `strike`.

`strike(request)` decides over one request: it answers (`request.respond`), lets the request go on to the broker
(`request.proceed`) with or without a change to the response, later or now, or ends the connection.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from .disk import SlowDisk

if TYPE_CHECKING:
    from ...protocol.errors import ErrorCode
    from .striking import InterceptedRequest


class Effect(Protocol):
    """The effect of a fault."""

    def strike(self, request: InterceptedRequest) -> None:
        """Strikes a request."""


@dataclass(slots=True)
class Fail:
    """Answers with an error, for the parts of the request that are meant. The errors come in turn, the last one stays; None
    lets a request pass. `after`: the broker does what was asked first.
    """

    errors: tuple[ErrorCode | None, ...]
    after: bool = False
    _next: int = 0

    def strike(self, request: InterceptedRequest) -> None:
        error = self.errors[min(self._next, len(self.errors) - 1)]
        self._next += 1
        if error is None:
            request.proceed()
        elif self.after or request.call.api.name == "Metadata":
            request.proceed(lambda response: request.respond(request.with_errors(response, error)))
        else:
            request.fail(error)


@dataclass(slots=True)
class Delay:
    """Holds the request back for a time before the broker takes it, or its response afterwards. The connection waits."""

    seconds: float
    after: bool = False

    def strike(self, request: InterceptedRequest) -> None:
        if self.after:
            request.hold()
            request.proceed(lambda response: request.later(self.seconds, lambda: request.respond(response)))
        else:
            request.keep()
            request.later(self.seconds, request.proceed)


@dataclass(slots=True)
class Drop:
    """Ends the connection before the broker takes the request, or in place of the response."""

    after: bool = False

    def strike(self, request: InterceptedRequest) -> None:
        if self.after:
            request.proceed(lambda response: request.abort())
        else:
            request.abort()


@dataclass(slots=True)
class Hang:
    """Never answers, and takes no further request of the connection: the client's time-out ends it."""

    after: bool = False

    def strike(self, request: InterceptedRequest) -> None:
        request.hold()
        if self.after:
            request.proceed(lambda response: None)


@dataclass(slots=True)
class Truncate:
    """Sends the first bytes of the response and ends the connection. A negative number leaves out that many of the last."""

    size: int

    def strike(self, request: InterceptedRequest) -> None:
        request.proceed(lambda response: request.respond_with_part(response, self.size))


@dataclass(slots=True)
class Throttle:
    """Answers with a throttle time, as a quota does (KIP-219), and takes no request of the connection for so long."""

    milliseconds: int

    def strike(self, request: InterceptedRequest) -> None:
        request.call.throttle_time_ms = max(request.call.throttle_time_ms, self.milliseconds)
        request.proceed()


@dataclass(slots=True)
class Pause:
    """Keeps requests until the fault is cancelled; then the broker takes them in their order."""

    waiting: list[InterceptedRequest] = field(default_factory=list)

    def strike(self, request: InterceptedRequest) -> None:
        request.keep()
        self.waiting.append(request)

    def end(self) -> None:
        """Lets the requests go on."""
        waiting, self.waiting = self.waiting, []
        for request in waiting:
            request.resume()


def described(effect: object) -> str:
    """Returns an effect in words: "fail with REQUEST_TIMED_OUT"."""
    if isinstance(effect, Fail):
        names = ", ".join("no error" if error is None else error.name for error in effect.errors)
        return f"fail with {names}{' after the effect' if effect.after else ''}"
    if isinstance(effect, Delay):
        words = f"delay by {effect.seconds:g} s"
    elif isinstance(effect, Truncate):
        words = f"truncate to {effect.size} bytes"
    elif isinstance(effect, SlowDisk):
        words = f"take {effect.seconds:g} s longer"
    elif isinstance(effect, Throttle):
        words = f"throttle for {effect.milliseconds} ms"
    else:
        words = type(effect).__name__.lower()
    return words + (" after the effect" if getattr(effect, "after", False) else "")
