"""The parts of a node that all its listeners, and their connections, share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..access.node_tls import NodeTls
from .connection_limits import ConnectionLimits
from .request_turns import RequestTurns
from .transfer_turns import TransferTurns

if TYPE_CHECKING:
    from ..access.audit import AuditLog
    from ..access.quotas.client_quotas import ClientQuotas
    from ..config.broker_config import BrokerConfig
    from ..runtime.clock import Clock
    from ..runtime.log_lines import RepeatedLines
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
