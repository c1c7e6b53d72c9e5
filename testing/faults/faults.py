"""`broker.faults`: scripted faults. The first that fits a request strikes it, then the next ones where it lets it
pass.
"""

from __future__ import annotations

import asyncio
import math
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypedDict, Union

from ...protocol.errors import ErrorCode
from .disk import DiskChecks, DiskFull, SlowDisk, WriteMatch
from .striking import ApiNames, Flow, Handle, Match, TopicNames, VersionRange, error_of, keys_of

if TYPE_CHECKING:
    from typing import Unpack

    from ...protocol.schema import Message
    from ...server.broker import BrokerServer
    from ...server.network.call import Call, Route
    from .disk import DiskEffect
    from .striking import InterceptedRequest


# The effects of faults on a request: each is a class with `strike`.
#
# `strike(request)` decides over one request: it answers (`request.respond`), lets the request go on to the broker
# (`request.proceed`) with or without a change to the response, later or now, or ends the connection.


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


# One fault: which requests it strikes, what it does to them, and how often it did.


#: The last requests struck that a fault remembers.
MOST_REMEMBERED = 100


class Fault:
    """A fault, active until it has affected `times` requests or is cancelled. As a context manager, it is active inside::

        with broker.faults.delay("Fetch", seconds=2) as fault:
            ...
        assert fault.count > 0

    `count`: the number of affected requests. `struck`: descriptions of the last of these requests.
    """

    def __init__(
        self, match: Match | WriteMatch, effect: Effect | DiskEffect, times: int | None, ended: Callable[[Fault], None]
    ) -> None:
        if times is not None and times < 1:
            raise ValueError(f"times={times}: a fault must apply to at least 1 request")
        if match.nth < 1:
            raise ValueError(f"nth={match.nth}: requests are counted from 1")
        self.match = match
        self.effect = effect
        self.times = times
        self.count = 0
        self.struck: deque[str] = deque(maxlen=MOST_REMEMBERED)
        self._ended = ended
        self._seen = 0
        self._changed = threading.Condition()

    def strike(self, request: InterceptedRequest) -> bool:
        """Strikes a request that fits, unless its turn has not come. Called on the loop's thread of a broker."""
        call = request.call
        if not self._takes(f"{call.api.name} v{call.version} of {call.client_id}"):
            return False
        self.effect.strike(request)  # type: ignore[union-attr]  # requests meet no faults of disks
        return True

    def strike_write(self, path: str, doing: str) -> None:
        """Strikes a write to a partition's folder, unless its turn has not come. Called on any thread. Raises OSError."""
        if self._takes(f"{doing} to {Path(path).name}"):
            self.effect.strike_write(path)  # type: ignore[union-attr]

    def _takes(self, words: str) -> bool:
        """Counts what fits. Returns whether it is struck."""
        with self._changed:
            self._seen += 1
            if self._seen < self.match.nth or (self.times is not None and self.count >= self.times):
                return False
            self.count += 1
            is_last = self.count == self.times
            self.struck.append(words)
            self._changed.notify_all()
        if is_last:
            self._ended(self)
        return True

    def cancel(self) -> None:
        """Ends the fault. Requests that it holds continue to the broker."""
        self._ended(self)
        end = getattr(self.effect, "end", None)
        if end is not None:
            end()

    def wait(self, count: int = 1, timeout: float = 10.0) -> None:
        """Waits until the fault has affected `count` requests: for plain programs, and threads. Raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.count >= count, timeout):
                raise TimeoutError(f"{self}: {self.count} requests were affected within {timeout:g} s, not {count}")

    def describe(self) -> dict[str, object]:
        """Returns the fault as data for reports and the control port."""
        return {"fault": str(self), "count": self.count, "times": self.times, "struck": list(self.struck)}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cancel()

    def __str__(self) -> str:
        often = "" if self.times is None else f", {self.times} times" if self.times > 1 else ", once"
        start = f", from request {self.match.nth} on" if self.match.nth > 1 else ""
        return f"{self.match}: {described(self.effect)}{often}{start}"

    def __repr__(self) -> str:
        return f"<Fault {self}; struck {self.count}>"


ErrorName = Union[str, int, ErrorCode, None]

#: Requests for the coordinator of a group, and for that of a transaction.
GROUP_APIS = (
    "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch", "ConsumerGroupHeartbeat",
    "ShareGroupHeartbeat", "StreamsGroupHeartbeat", "TxnOffsetCommit",
)  # fmt: skip
TRANSACTION_APIS = ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn")
LEADER_APIS = ("Produce", "Fetch", "ListOffsets", "OffsetForLeaderEpoch", "ShareFetch", "ShareAcknowledge")


class Which(TypedDict, total=False):
    """The requests that a fault strikes: see `matching.Match`. `times`: how many, None for all until it is cancelled."""

    times: int | None
    topic: str | None
    partition: int | None
    client_id: str | None
    group: str | None
    transactional_id: str | None
    version: VersionRange
    nth: int
    node_id: int | None


class WhichWrite(TypedDict, total=False):
    """The writes that a fault of disks strikes. `times`: how many, None for all until it is cancelled."""

    times: int | None
    topic: str | None
    partition: int | None
    nth: int
    node_id: int | None


def _checked(seconds: float) -> float:
    """Raises ValueError for what is no duration."""
    if not 0 <= seconds < math.inf:
        raise ValueError(f"seconds must be 0 or more, not {seconds}")
    return seconds


class Faults:
    """The faults of a broker, or of all brokers of a cluster.

    Each method adds one fault and returns it; its `count` is the number of affected requests. `api` is a name
    ("Produce"), a key, several of them, or None for every request of clients. All methods may be called on any thread,
    before the broker starts too.
    """

    def __init__(self) -> None:
        #: Replaced, never changed: brokers read it without a lock.
        self.active: tuple[Fault, ...] = ()
        self._lock = threading.Lock()
        #: Between the faults and the disks of brokers.
        self.disks = DiskChecks(lambda: self.active)

    def fail(
        self,
        api: ApiNames,
        error: ErrorName | Iterable[ErrorName] = ErrorCode.UNKNOWN_SERVER_ERROR,
        *,
        after: bool = False,
        **which: Unpack[Which],
    ) -> Fault:
        """Returns an error response: by name ("NOT_LEADER_OR_FOLLOWER") or number, or several in turn, None for success.

        `after`: the broker does what was asked, and the client does not learn it. Raises ValueError for an API or an error
        that Kafka does not have.
        """
        if error is None or isinstance(error, str | int):
            errors: tuple[ErrorName, ...] = (error,)
        else:
            errors = tuple(error)
            which.setdefault("times", len(errors))
        codes = tuple(None if one is None else error_of(one) for one in errors)
        return self.add(api, Fail(codes, after), **which)

    def delay(self, api: ApiNames, seconds: float, *, after: bool = False, **which: Unpack[Which]) -> Fault:
        """Delays requests, or with `after` their responses. Each connection keeps its order.

        Raises ValueError for a negative time.
        """
        return self.add(api, Delay(_checked(seconds), after), **which)

    def drop(self, api: ApiNames, *, after: bool = False, **which: Unpack[Which]) -> Fault:
        """Closes the connection instead of a response: before the broker handles the request, or `after` it."""
        return self.add(api, Drop(after), **which)

    def hang(self, api: ApiNames, *, after: bool = False, **which: Unpack[Which]) -> Fault:
        """Sends no response: the client's timeout decides."""
        return self.add(api, Hang(after), **which)

    def truncate(self, api: ApiNames, size: int = -1, **which: Unpack[Which]) -> Fault:
        """Sends the first `size` bytes of the response and closes the connection; -1 leaves out the last byte."""
        return self.add(api, Truncate(size), **which)

    def throttle(self, api: ApiNames, seconds: float, **which: Unpack[Which]) -> Fault:
        """Returns a throttle time, and reads no request of the connection for that time (KIP-219)."""
        return self.add(api, Throttle(int(_checked(seconds) * 1000)), **which)

    def coordinator_moved(self, **which: Unpack[Which]) -> Fault:
        """The coordinator has moved: NOT_COORDINATOR, once by default. With `transactional_id` that of transactions."""
        return self._coordinator(ErrorCode.NOT_COORDINATOR, which)

    def coordinator_loading(self, **which: Unpack[Which]) -> Fault:
        """The coordinator has not read its log yet: COORDINATOR_LOAD_IN_PROGRESS, once by default."""
        return self._coordinator(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, which)

    def _coordinator(self, error: ErrorCode, which: Which) -> Fault:
        which.setdefault("times", 1)
        apis = TRANSACTION_APIS if which.get("transactional_id") is not None else GROUP_APIS
        return self.add(apis, Fail((error,)), **which)

    def leader_moved(self, **which: Unpack[Which]) -> Fault:
        """Another broker leads the partitions now: NOT_LEADER_OR_FOLLOWER, once by default."""
        which.setdefault("times", 1)
        return self.add(LEADER_APIS, Fail((ErrorCode.NOT_LEADER_OR_FOLLOWER,)), **which)

    def pause(self, api: ApiNames = None, **which: Unpack[Which]) -> Fault:
        """The broker does nothing, like a stopped process; connections stay. After `cancel()` it continues."""
        return self.add(api, Pause(), **which)

    def pause_brokers(self, **which: Unpack[Which]) -> Fault:
        """The same for requests of brokers and controllers to each other."""
        return self.add(None, Pause(), brokers=True, **which)

    def disk_full(self, **which: Unpack[WhichWrite]) -> Fault:
        """The disk has no room: an append to a partition fails, and its log directory goes offline (KAFKA_STORAGE_ERROR).

        A broker without another directory halts. `restart()` or `reset()` starts it again.
        """
        return self._add_disk(DiskFull(), which, appends_only=True)

    def slow_disk(self, seconds: float, **which: Unpack[WhichWrite]) -> Fault:
        """Each append to a partition, and each flush, takes `seconds` longer. The broker waits for its appends."""
        return self._add_disk(SlowDisk(_checked(seconds)), which)

    def _add_disk(self, effect: DiskFull | SlowDisk, which: WhichWrite, *, appends_only: bool = False) -> Fault:
        criteria: dict[str, Any] = dict(which)
        times = criteria.pop("times", 1 if "nth" in which else None)
        fault = Fault(WriteMatch(appends_only=appends_only, **criteria), effect, times, self._remove)
        with self._lock:
            self.active += (fault,)
            self.disks.switch(is_on=True)
        return fault

    def add(self, api: ApiNames, effect: Effect, *, brokers: bool = False, **which: Unpack[Which]) -> Fault:
        """Adds a fault with any effect. `brokers`: the fault applies to requests of other brokers instead of clients."""
        criteria: dict[str, Any] = dict(which)
        times = criteria.pop("times", 1 if "nth" in which else None)
        fault = Fault(Match(apis=keys_of(api), brokers=brokers, **criteria), effect, times, self._remove)
        with self._lock:
            self.active += (fault,)
        return fault

    def clear(self) -> None:
        """Cancels all faults."""
        for fault in self.active:
            fault.cancel()

    def _remove(self, fault: Fault) -> None:
        with self._lock:
            self.active = tuple(one for one in self.active if one is not fault)
            if not any(isinstance(one.match, WriteMatch) for one in self.active):
                self.disks.switch(is_on=False)

    def __iter__(self) -> Iterator[Fault]:
        """The faults that are on."""
        return iter(self.active)

    def __len__(self) -> int:
        return len(self.active)

    def __repr__(self) -> str:
        return f"<Faults {list(self.active)}>"


# The place of faults in a broker: before the handlers of its routes.


class Interceptor:
    """Puts faults before the handlers of one broker. `observe`: called with each request, if it is set."""

    def __init__(self, server: BrokerServer, faults: Faults) -> None:
        self._server = server
        self._faults = faults
        for directory in server.config.log_dirs:
            faults.disks.node_ids[os.path.abspath(directory)] = server.node_id  # noqa: PTH100  (as LogDirectory has it)
        self.observe: Callable[[Call, int, TopicNames], object] | None = None
        for dispatcher in server.network.dispatchers.values():
            dispatcher.on_route = self._on_route

    def _on_route(self, route: Route) -> None:
        is_one = route.handle_large is route.handle
        route.handle = partial(self._take, route.handle)
        route.handle_large = route.handle if is_one else partial(self._take, route.handle_large)

    def _take(self, handle: Handle, call: Call) -> Message | None:
        if self.observe is not None:
            self.observe(call, self._server.node_id, self._topic_name)
        if not self._faults.active:
            return handle(call)
        node_id = self._server.node_id
        fits = (fault for fault in self._faults.active if fault.match.fits(call, node_id, self._topic_name))
        first = next(fits, None)
        if first is None:
            return handle(call)
        Flow(call, handle, chain((first,), fits), self._topic_name, asyncio.get_running_loop()).begin()
        return None

    def _topic_name(self, topic_id: bytes) -> str | None:
        topic = self._server.metadata.image.topics.by_id.get(topic_id)
        return topic.name if topic is not None else None
