"""The parts of a node that all its listeners, and their connections, share."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..access.tls.node_tls import NodeTls
from .connection_limits import ConnectionLimits

if TYPE_CHECKING:
    from ..access.audit import AuditLog
    from ..access.quotas.client_quotas import ClientQuotas
    from ..config.broker_config import BrokerConfig
    from ..runtime.clock import Clock
    from ..runtime.log_lines import RepeatedLines
    from ..runtime.slow_requests import SlowRequests
    from ..runtime.turns import Turns
    from .receive_budget import ReceiveBudget


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
