"""The parts of a node that all its listeners, and their connections, share.

Limits of the number of connections and of the rate at which they are made: `max.connections`,
`max.connections.per.ip` with its overrides, `max.connection.creation.rate`, and the first and last also for one
listener (`listener.name.<name>.`).

The configuration is read for each connection, so a dynamic change applies from the next one on (KIP-402, KIP-612).

A listener as its connections see it.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ...metadata.configs import connection_overrides
from ..access.tls.node_tls import NodeTls

if TYPE_CHECKING:
    from ..access.audit import AuditLog
    from ..access.authentication.gate import SaslListener
    from ..access.principals import PrincipalBuilder
    from ..access.quotas.client_quotas import ClientQuotas
    from ..config.broker_config import BrokerConfig
    from ..runtime.clock import Clock
    from ..runtime.log_lines import RepeatedLines
    from ..runtime.sliced_work import Turns
    from .call import ListenerKind
    from .dispatch import Dispatcher
    from .receive_budget import ReceiveBudget
    from .slow_calls import SlowRequests


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
    """The connections of one broker, counted as they come and go."""

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
        #: The log of slow requests; None unless odradek.slow.request.ms is set.
        self.slow_requests: SlowRequests | None = None
        self.limits = ConnectionLimits(config)
        self.tls = NodeTls(config)
        #: The bytes that all connections move in one turn of the loop.
        self.transfers = TransferTurns()
        #: Called with each connection that ended.
        self.on_connection_lost: list[Callable[[Any], None]] = []

    def connection_lost(self, connection: object) -> None:
        for function in self.on_connection_lost:
            function(connection)

    def plan_descriptors(self) -> None:
        """Keeps descriptors for the connections to the nodes that there are now."""
        raise NotImplementedError


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


class Listening(Protocol):
    """The listener of connections, as they see it."""

    name: str
    kind: ListenerKind
    dispatcher: Dispatcher
    max_frame_bytes: int
    #: Makes the principals of clients; None for Kafka's default.
    principal_builder: PrincipalBuilder | None
    #: How clients authenticate; None for a listener without SASL.
    sasl: SaslListener | None
    #: All connections receive into one buffer.
    read_buffer: bytearray
    read_view: memoryview

    @property
    def shared(self) -> SharedParts:
        """The parts that all listeners of the node share."""

    def opened(self, connection: Any, transport: asyncio.Transport) -> None:
        """Counts a new connection, or ends it."""

    def limit_of(self, connection: Any) -> str:
        """Returns the key that limits the connection's frames, and its value, in words."""

    def lost(self, connection: Any) -> None:
        """Forgets a connection that has ended."""
