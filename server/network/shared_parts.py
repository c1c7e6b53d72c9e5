"""The parts of a node that all its listeners, and their connections, share.

- `ConnectionLimits`: limits of the number of connections and of the rate at which they are made.
- `SharedParts`: the part of a node that a listener uses.
- `TransferTurns`: the bytes that connections move in one turn of the event loop.
- `RequestTurns`: the requests that one turn of the event loop has no time for, by client.
- `ReceiveBudget`: the memory for requests that have not come whole, bounded for all connections together.
- `grown`: buffers that grow while a request arrives.
"""

from __future__ import annotations

import asyncio
import logging
import mmap
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ...metadata.configs import connection_overrides
from ..access.node_tls import NodeTls
from ..runtime.memory import release_after

if TYPE_CHECKING:
    from ..access.audit import AuditLog
    from ..access.quotas.client_quotas import ClientQuotas
    from ..config.broker_config import BrokerConfig
    from ..runtime.clock import Clock
    from ..runtime.log_lines import RepeatedLines
    from ..runtime.sliced_work import Turns


# ---- limits of connections

_UNLIMITED = 2**31 - 1
#: Between two connections where the rate is 0.
_AS_GOOD_AS_NEVER_S = 3600.0


class LimitExceeded(NamedTuple):
    """`key` is the configuration key whose limit is reached."""

    key: str
    words: str


def _exceeded(key: str, there: int, limit: int) -> LimitExceeded:
    return LimitExceeded(key, f"{there} connections are open ({key} is {limit})")


class ConnectionLimits:
    """The connections of one broker, counted as they come and go.

    The limits are `max.connections`, `max.connections.per.ip` with its overrides and `max.connection.creation.rate`,
    the first and last also for one listener (`listener.name.<name>.`). The configuration is read for each connection,
    so a dynamic change applies from the next one on (KIP-402, KIP-612).
    """

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._open = 0
        self._by_ip: Counter[str] = Counter()
        self._by_listener: Counter[str] = Counter()
        #: When the next connection is due, of the broker (None) and of each listener that has a rate of its own.
        self._due_s: dict[str | None, float] = {}

    @property
    def open(self) -> int:
        return self._open

    def enter(self, ip: str, listener: str) -> LimitExceeded | None:
        """Counts a connection in, or returns the limit that it would exceed."""
        config = self._config
        most_of_ip = config.get("max.connections.per.ip")
        overrides = config.get("max.connections.per.ip.overrides")
        if overrides:
            most_of_ip = connection_overrides(overrides).get(ip, most_of_ip)
        if self._by_ip[ip] >= most_of_ip:
            return _exceeded("max.connections.per.ip", self._by_ip[ip], most_of_ip)
        if self._open >= (most := config.get("max.connections")):
            return _exceeded("max.connections", self._open, most)
        if self._by_listener[listener] >= (most := self._of(listener, "max.connections")):
            return _exceeded(f"max.connections of {listener}", self._by_listener[listener], most)
        self._by_ip[ip] += 1
        self._by_listener[listener] += 1
        self._open += 1
        return None

    def leave(self, ip: str, listener: str) -> None:
        self._open -= 1
        self._by_listener[listener] -= 1
        self._by_ip[ip] -= 1
        if not self._by_ip[ip]:
            del self._by_ip[ip]

    def pause_s(self, listener: str, now_s: float) -> float:
        """Returns how long a new connection must wait so that the creation rate is not exceeded, in seconds."""
        rate = "max.connection.creation.rate"
        of_broker = self._turn(None, self._config.get(rate), now_s)
        return max(of_broker, self._turn(listener, self._of(listener, rate), now_s))

    def _of(self, listener: str, key: str) -> int:
        """The key's value for this listener alone; no limit when it has none."""
        prefixed = f"listener.name.{listener.lower()}.{key}"
        value: int = self._config.get(prefixed) if self._config.is_set(prefixed) else _UNLIMITED
        return value

    def _turn(self, whose: str | None, per_second: int, now_s: float) -> float:
        if per_second >= _UNLIMITED:
            return 0.0
        due_s = max(now_s, self._due_s.get(whose, 0.0))
        self._due_s[whose] = due_s + (1 / per_second if per_second else _AS_GOOD_AS_NEVER_S)
        return due_s - now_s


# ---- parts that listeners use


class SharedParts:
    """The base of `ListenerSet`: the part that a listener uses."""

    #: The memory for requests that have not come whole.
    receiving: ReceiveBudget

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        lines: RepeatedLines,
        audit: AuditLog,
        turns: Turns,
        quotas: ClientQuotas,
    ) -> None:
        self.config = config
        self.clock = clock
        #: Lines of the log that peers provoke.
        self.lines = lines
        self.audit = audit
        self.turns = turns
        self.quotas = quotas
        self.turn_watch = turns.watch
        self.limits = ConnectionLimits(config)
        self.tls = NodeTls(config)
        #: The bytes that all connections move in one turn of the loop.
        self.transfers = TransferTurns()
        #: The requests that wait for a later turn of the loop.
        self.requests = RequestTurns(turns.watch.clock)
        #: Called with each connection that ended.
        self.on_connection_lost: list[Callable[[Any], None]] = []

    def connection_lost(self, connection: object) -> None:
        for function in self.on_connection_lost:
            function(connection)

    def plan_descriptors(self) -> None:
        """Keeps descriptors for the connections to the nodes that there are now."""
        raise NotImplementedError


# ---- bytes of one turn
#
# The bytes that one turn of the loop moves between sockets, buffers and files, for all connections together.
#
# To copy a megabyte holds the loop for some 0.3 ms. One consumer that catches up, or one record of 50 MB, gets a whole
# turn; twenty of them share it, so that a small request between them waits no longer. A connection that finds the bytes
# of a turn used up waits in a queue, and other events are served before its turn comes.
#: Smaller turns move no more bytes in a second less: each turn of the loop costs some 50 us.
BYTES_PER_TURN = 1 << 20
#: A transfer that has begun moves at least this: less is not worth its system call.
LEAST_BYTES = 64 << 10
#: A system call counts as this in the bytes of a turn, beside those it moves: responses may have thousands of short pieces.
CALL_BYTES = 4 << 10


class TransferTurns:
    """The budget of one loop. `left`: bytes that may still be moved in this turn, none when it is 0 or less."""

    __slots__ = ("_is_scheduled", "_waiting", "left")

    def __init__(self) -> None:
        self.left = BYTES_PER_TURN
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_scheduled = False

    def spend(self, count: int) -> bool:
        """Notes that `count` bytes were moved. Returns whether more may be moved in this turn."""
        self.left -= count
        if not self._is_scheduled:
            self._schedule()
        return self.left > 0

    def wait(self, resume: Callable[[], None]) -> None:
        """Calls `resume` in a later turn, after those that wait already."""
        self._waiting.append(resume)
        if not self._is_scheduled:
            self._schedule()

    def _schedule(self) -> None:
        self._is_scheduled = True
        asyncio.get_running_loop().call_soon(self._begin_turn)

    def _begin_turn(self) -> None:
        self._is_scheduled = False
        self.left = BYTES_PER_TURN
        waiting = self._waiting
        for _ in range(len(waiting)):  # those that wait again have had their turn
            if self.left <= 0:
                break
            waiting.popleft()()
        if waiting and not self._is_scheduled:
            self._schedule()


# ---- requests of one turn
#
# The requests that one turn of the loop handles, for all connections together.
#
# A turn takes the requests of all connections that are readable, in the order in which they came, and its responses are
# sent at its end. If 200 connections of one application send at once, that is 10 ms, and the request of another client
# waits for all of them. So a turn handles requests for REQUESTS_PER_TURN_S. The rest of them wait by client, an entity of
# quotas: each turn handles some of them, one connection of each client in rotation, and takes in what has come meanwhile.
# Clients that wait for nothing else wait no longer by this: their requests are handled in their order.
# A client that is alone gains nothing, and short turns take more writes of logs: its requests do not wait.
#: The time of one turn, twice: that of requests that have come, and of those that wait. One request takes some 50 us; each
#: turn of the loop costs as much.
REQUESTS_PER_TURN_S = 0.001
#: Several clients take turns for so long after two of them met in a full turn.
SEVERAL_CLIENTS_S = 1.0


class WaitingConnection(Protocol):
    """A connection with a whole request."""

    def handle_waiting(self) -> None:
        """Handles the requests that wait."""

    def abort(self) -> None:
        """Ends the connection."""


class RequestTurns:
    """The turns of one loop. `is_full`: requests are to wait. `left_s`: connections take the time of each request from it,
    and call `check` when nothing is left.

    A turn that takes little time costs no callback: the time that is left may be that of several turns.
    """

    __slots__ = ("_clock", "_is_scheduled", "_latest", "_several_until_s", "_waiting", "is_full", "left_s")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        #: By client: those whose turn comes next first.
        self._waiting: dict[Hashable, deque[WaitingConnection]] = {}
        self._is_scheduled = False
        #: The client of the latest request in a full turn.
        self._latest: Hashable = None
        self._several_until_s = 0.0
        self.is_full = False
        self.left_s = REQUESTS_PER_TURN_S / 2

    def are_several(self, client: Hashable) -> bool:
        """Notes a request of the client in a full turn. Returns whether several clients have sent requests recently."""
        now_s = self._clock()
        if client != self._latest:
            if self._latest is not None:
                self._several_until_s = now_s + SEVERAL_CLIENTS_S
            self._latest = client
        return now_s < self._several_until_s

    def check(self) -> None:
        """The turn is full if it is still that of the last check."""
        self.left_s = REQUESTS_PER_TURN_S / 2
        if self._is_scheduled:
            self.is_full = True
        else:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._begin_turn)

    def wait(self, client: Hashable, connection: WaitingConnection) -> None:
        """Has the connection's requests wait behind those of the same client. It does not wait yet, and the turn is full."""
        queue = self._waiting.get(client)
        if queue is None:
            queue = self._waiting[client] = deque()
        queue.append(connection)

    def _begin_turn(self) -> None:
        self._is_scheduled = False
        try:
            if self._waiting:
                self._handle_waiting()
        finally:
            self.left_s = REQUESTS_PER_TURN_S / 2
            self.is_full = bool(self._waiting)
            if self.is_full and not self._is_scheduled:
                self._is_scheduled = True
                asyncio.get_running_loop().call_soon(self._begin_turn)

    def _handle_waiting(self) -> None:
        waiting, clock = self._waiting, self._clock
        until_s = clock() + REQUESTS_PER_TURN_S
        while waiting:
            client = next(iter(waiting))
            queue = waiting.pop(client)
            connection = queue.popleft()
            if queue:
                waiting[client] = queue  # behind the others
            try:
                connection.handle_waiting()
            except BaseException:
                connection.abort()
                raise
            if clock() >= until_s:
                break


# ---- memory for incomplete requests

log = logging.getLogger("odradek.connection")

#: The budget where queued.max.request.bytes is not set: two of the largest requests (socket.request.max.bytes) and a half,
#: or 256 requests of a megabyte at once.
DEFAULT_BYTES = 256 << 20
#: Requests that need no turn. Most are smaller, and a thousand connections that hold as much have 16 MB.
SMALL_REQUEST_BYTES = 16 * 1024
#: A request takes the turn of one that is so many times larger. Turns that are taken from one another add up to a third of
#: the largest request then.
MUCH_SMALLER = 4
#: How often progress is looked at while the budget is used up; a turn without any ends.
TICK_S = 0.25
#: The progress of a request within `STALLED_TICKS`, while others wait for memory; slower ones end. A link that
#: carries requests so large is faster.
LEAST_PROGRESS_BYTES = 16 * 1024
STALLED_TICKS = 20
#: The most that one read takes while the budget is used up.
SMALL_READ_BYTES = 4096


class ReceivingConnection(Protocol):
    """A connection that receives requests into a buffer of its own."""

    max_frame_bytes: int

    @property
    def awaits_rest(self) -> bool:
        """True while the peer has sent only a part of a frame."""

    @property
    def needed(self) -> int:
        """The bytes of that frame when it is whole."""

    @property
    def received(self) -> int:
        """The bytes of it that have come."""

    def on_memory_available(self) -> None:
        """Goes on receiving if there is memory now."""

    def drop_for(self, reason: str) -> None:
        """Ends the connection."""


class ReceivingListener(Protocol):
    """A listener, with the buffer that its connections read into."""

    connections: Any
    read_buffer: bytearray
    read_view: memoryview


class ReceiveBudget:
    """The bytes that connections hold in their own buffers, and the connections that wait for some.

    A connection's own buffer grows to at most four times the received bytes, so an announced size costs nothing. But
    received bytes add up: a thousand connections may each send the half of a request of 100 MB. So buffers are
    counted against `queued.max.request.bytes`. When that is used up,

    - requests up to `SMALL_REQUEST_BYTES` are received all the same;
    - of the larger ones, one connection at a time may grow further, the one with the smallest request first. Its turn
      ends when its request is whole, or makes no progress, or when a much smaller request comes;
    - the others wait: they are not read, and their peers feel TCP's window;
    - requests that have stopped coming are ended, with their connections;
    - reads into the shared buffer become small, so that a connection which cannot be served now keeps little.

    `max_bytes`: queued.max.request.bytes, of which -1 is our own default.
    """

    def __init__(self, max_bytes: int, listeners: Iterable[ReceivingListener]) -> None:
        self._listeners = listeners
        self.limit = max_bytes if max_bytes > 0 else DEFAULT_BYTES
        self.taken = 0
        #: Connections whose request cannot grow now, in the order in which they came to that.
        self._waiting: dict[ReceivingConnection, None] = {}
        #: The connection whose turn it is to grow past the limit.
        self._turn: ReceivingConnection | None = None
        #: How far each request was, and for how many ticks it made no progress.
        self._progress: dict[ReceivingConnection, tuple[int, int]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def may_grow(self, connection: ReceivingConnection, count: int) -> bool:
        """Takes `count` more bytes, or has the connection wait: its `on_memory_available` is called."""
        if self.taken + count > self.limit and connection.needed > SMALL_REQUEST_BYTES:
            turn = self._turn
            if turn is not None and turn is not connection and turn.needed < MUCH_SMALLER * connection.needed:
                self._waiting[connection] = None
                return False
            self._turn = connection
            self._watch()
        self.taken += count
        return True

    def take(self, count: int) -> None:
        """Counts bytes that have arrived already, and must be kept."""
        self.taken += count
        if self.taken > self.limit:
            self._watch()

    def give_back(self, connection: object, count: int) -> None:
        """The connection's request is whole or written, or the connection has ended."""
        self.taken -= count
        release_after(count)
        if self._turn is connection:
            self._turn = None
        if self._waiting and self._turn is None:
            asyncio.get_running_loop().call_soon(self._wake)

    def forget(self, connection: ReceivingConnection) -> None:
        """The connection has ended."""
        self._waiting.pop(connection, None)
        self._progress.pop(connection, None)

    def _wake(self) -> None:
        """Has those go on that were waiting, the smallest requests first, for as long as there is room."""
        for connection in sorted(self._waiting, key=lambda waiting: waiting.needed):
            if self._turn is not None:
                return
            del self._waiting[connection]
            connection.on_memory_available()

    def _watch(self) -> None:
        if self._timer is None:
            self._read_at_most(SMALL_READ_BYTES)
            self._timer = asyncio.get_running_loop().call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        """Ends connections whose frames have stopped arriving, while the budget is used up."""
        self._timer = None
        if self._turn is None and self.taken <= self.limit:
            self._progress.clear()
            self._read_at_most(None)
            return
        before, self._progress = self._progress, {}
        for connection in [one for listener in self._listeners for one in listener.connections]:
            if connection.awaits_rest:
                self._look_at(connection, *before.get(connection, (connection.received, -1)))
        if self._turn is not None and not self._turn.awaits_rest:
            self._end_turn()  # it has to wait for something else
        self._timer = asyncio.get_running_loop().call_later(TICK_S, self._tick)

    def _look_at(self, connection: ReceivingConnection, received: int, ticks: int) -> None:
        """`received`: how far its request was `ticks` ago, when it last made progress."""
        if connection.received - received >= LEAST_PROGRESS_BYTES:
            received, ticks = connection.received, -1
        ticks += 1
        has_turn = connection is self._turn
        if ticks >= STALLED_TICKS or (ticks and has_turn and self.taken > self.limit + connection.max_frame_bytes):
            connection.drop_for("its request is incomplete and stalled, and the memory for requests is used up")
            return
        self._progress[connection] = received, ticks
        if ticks and has_turn:
            self._end_turn()

    def _end_turn(self) -> None:
        self._turn = None
        self._wake()

    def _read_at_most(self, count: int | None) -> None:
        for listener in self._listeners:
            listener.read_view = memoryview(listener.read_buffer)[:count]

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


# ---- buffers of requests
#
# Buffers that grow while a frame arrives.
#
# A large one is a mapping of memory as long as its frame will be. To grow it takes no copy, and a page costs something only
# when its bytes arrive: copying 90 MB holds the event loop for 50 ms.
FrameBuffer = bytearray | memoryview

#: The most that one read takes. Two or three of librdkafka's or the Java producer's larger requests.
READ_BUFFER_BYTES = 256 * 1024
#: Smaller buffers come from the heap, which is quicker for sizes that are needed again and again.
_HEAP_BYTES = 4 << 20
#: Windows has neither.
_PRIVATE = getattr(mmap, "MAP_PRIVATE", 0) | getattr(mmap, "MAP_ANONYMOUS", 0)


def grown(buffer: FrameBuffer, size: int, needed: int) -> FrameBuffer:
    """Returns a buffer of `size` bytes that begins with those of `buffer`. `needed`: the size that it will have at last."""
    if type(buffer) is memoryview:
        return memoryview(buffer.obj)[:size]
    larger: FrameBuffer
    try:
        mapping = mmap.mmap(-1, needed, flags=_PRIVATE) if size > _HEAP_BYTES and _PRIVATE else None
    except OSError:  # an address space that is limited
        mapping = None
    larger = bytearray(size) if mapping is None else memoryview(mapping)[:size]
    larger[: len(buffer)] = buffer
    return larger


def rejected_size(size: int, limit: str) -> str:
    """Returns why a frame of that size is not taken; `limit` names the limit that it passes.

    The first bytes of a TLS handshake, read as a size, have 16 03 in front, whatever the version.
    """
    if size >> 16 == 0x1603:
        return "it sends TLS, but this listener does not use TLS (is the client's security.protocol SSL?)"
    return f"a frame of {size} bytes; {limit}"
