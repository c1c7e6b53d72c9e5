"""Broker liveness as the active controller determines it: by heartbeats, and by connections that are reset or refused.

When a heartbeat is missing, the controller waits until the session expires: the broker may be slow, paused or cut off.
But a process that died is detected earlier: its connections are reset, and its listeners refuse connections. So when
the connection of a broker's heartbeats ends, the controller tries the broker's listeners at once. If every listener
refuses, the process is gone and the controller fences the broker.

A broker with a listener that accepts, or does not answer, stays unfenced until its session expires: a stopped process
still has its sockets, and a network partition refuses nothing. A new active controller, which has no connections yet,
tries every broker once.

A broker that was fenced wrongly (a firewall may refuse in its name) is unfenced by its next heartbeat.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...metadata.image import BrokerImage
from ...protocol.errors import ErrorCode
from ...protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ...protocol.messages.broker_registration import BrokerRegistrationRequest
from ...protocol.schema import Message
from ...replication.controller.controller import refuse
from ...replication.controller.result import RefusedRequest
from ...replication.controller.sessions import BrokerSessions
from ...replication.controller.upkeep import (
    MAX_ELECTIONS_PER_IMBALANCE,
    BalanceLeadersRequest,
    ElectUncleanLeadersRequest,
    FenceBrokerRequest,
    MoveLeadersRequest,
    UpkeepResponse,
    WriteNoOpRequest,
)
from ..peers.probes import is_gone

if TYPE_CHECKING:
    from ..network.connection import Connection
    from ..node import Node

log = logging.getLogger("odradek.liveness")

#: When the clock finds us so late, it was we who did not hear.
LATE_MS = 1000

Reply = Callable[[Any], None]


class BrokerSessionWatch:
    def __init__(self, broker: Node) -> None:
        self._broker = broker
        self._is_active = False
        #: Where a broker's heartbeats come from, and whose they are.
        self._connections: dict[Connection, int] = {}
        self._session_timer: asyncio.TimerHandle | None = None
        self._session_deadline_ms = 0
        self._upkeep_timers: dict[type[Message], asyncio.TimerHandle] = {}
        self._probes: dict[int, asyncio.Task[None]] = {}
        #: Brokers fenced since this node was started: because nobody heard them, because their machine refused.
        self.expired_sessions = 0
        self.refused_brokers = 0

    def start(self) -> None:
        self._broker.controller.on_leader_changed.append(self.leader_changed)
        self._broker.on_connection_lost.append(self._connection_lost)
        self.leader_changed()

    def stop(self) -> None:
        self._is_active = False
        self._disarm()

    # ---- requests

    def ask(self, request: Message, version: int, reply: Reply, connection: Connection | None = None) -> None:
        """A registration or a heartbeat; without a connection it is this process's own."""
        controller = self._broker.controller
        if not controller.is_active:
            reply(refuse(request, RefusedRequest(ErrorCode.NOT_CONTROLLER)))
        elif isinstance(request, BrokerHeartbeatRequest):
            self._hear(request, connection)
            before = controller.quorum_log.end_offset
            controller.decide(request, version, lambda response: self._heartbeat_answered(request, response, reply))
            if request.want_shut_down and controller.is_active:
                end_offset = controller.quorum_log.end_offset
                self._sessions.shuts_down(request.broker_id, end_offset - 1)
                if end_offset > before:
                    self._sessions.moved(request.broker_id, end_offset - 1)
                self._decide_in_parts(
                    MoveLeadersRequest(broker_id=request.broker_id, broker_epoch=request.broker_epoch)
                )
        else:
            assert isinstance(request, BrokerRegistrationRequest)
            controller.decide(request, version, lambda response: self._registration_answered(request, response, reply))

    def _hear(self, request: BrokerHeartbeatRequest, connection: Connection | None) -> None:
        if connection is not None:
            self._connections[connection] = request.broker_id
        now_ms = self._broker.now_ms()
        self._sessions.heard(request.broker_id, request.broker_epoch, request.current_metadata_offset, now_ms)
        self._hear_own(now_ms)
        self._arm_sessions()

    def _hear_own(self, now_ms: int) -> None:
        """The broker in this process lives as this does, and has what is published here."""
        own = self._broker.image.broker(self._broker.node_id)
        if own is not None and self._is_this_process(own):
            self._sessions.heard(own.id, own.epoch, self._broker.image.offset, now_ms)

    def _is_this_process(self, broker: BrokerImage) -> bool:
        """Not one that had this id before a crash: it must not be kept alive by us, who want to take its place."""
        return broker.id == self._broker.node_id and broker.epoch == self._broker.controller.broker_epoch

    def _heartbeat_answered(
        self, request: BrokerHeartbeatRequest, response: BrokerHeartbeatResponse, reply: Reply
    ) -> None:
        if response.should_shut_down and self._broker.controller.is_active:
            self._sessions.forget(request.broker_id)
        reply(response)

    def _registration_answered(self, request: BrokerRegistrationRequest, response: Any, reply: Reply) -> None:
        """A process that comes back before its former self is missed: the old one's listeners say that it is gone."""
        if response.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION:
            self._probe(request.broker_id)
        reply(response)

    # ---- who leads

    @property
    def _sessions(self) -> BrokerSessions:
        return self._broker.controller.controller.sessions

    def leader_changed(self) -> None:
        is_active = self._broker.controller.is_active
        if is_active == self._is_active:
            return
        self._is_active = is_active
        if not is_active:
            self._disarm()
            return
        self._connections.clear()
        image = self._broker.controller.controller.image
        self._sessions.begin(image, self._broker.now_ms())
        self._arm_sessions()
        self._arm_upkeep()
        for broker in list(image.cluster.brokers.values()):
            if not broker.fenced and not self._is_this_process(broker):
                self._probe(broker.id)

    def _disarm(self) -> None:
        if self._session_timer is not None:
            self._session_timer.cancel()
            self._session_timer = None
        for timer in self._upkeep_timers.values():
            timer.cancel()
        for probe in list(self._probes.values()):
            probe.cancel()
        self._upkeep_timers.clear()

    # ---- sessions

    def _arm_sessions(self) -> None:
        deadline_ms = self._sessions.deadline()
        if deadline_ms is None or (self._session_timer is not None and self._session_deadline_ms <= deadline_ms):
            return
        if self._session_timer is not None:
            self._session_timer.cancel()
        self._session_deadline_ms = deadline_ms
        self._session_timer = self._broker.call_at(deadline_ms, self._sessions_expire)

    def _sessions_expire(self) -> None:
        self._session_timer = None
        if not self._broker.controller.is_active:
            return
        now_ms, sessions = self._broker.now_ms(), self._sessions
        image = self._broker.controller.controller.image
        if now_ms > self._session_deadline_ms + LATE_MS:
            log.warning("this node did not run for %d ms; sessions begin anew", now_ms - self._session_deadline_ms)
            sessions.begin(image, now_ms)
        for broker in sessions.expire(now_ms, image):
            if self._is_this_process(broker):
                self._hear_own(now_ms)
                continue
            log.warning("broker %d was not heard of for %d ms and is fenced", broker.id, sessions.session_timeout_ms)
            self.expired_sessions += 1
            self._fence(broker)
        self._arm_sessions()

    def _fence(self, broker: BrokerImage) -> None:
        """A controller that takes over in between finds a broker that it does not hear."""
        self._decide_in_parts(FenceBrokerRequest(broker_id=broker.id, broker_epoch=broker.epoch))

    def _decide_in_parts(self, request: FenceBrokerRequest | MoveLeadersRequest) -> None:
        """Moves a limited number of leaders at a time, and the rest in later turns of the loop."""
        controller, broker_id = self._broker.controller, request.broker_id
        if not self._is_active or not controller.is_active:
            return
        before = controller.quorum_log.end_offset
        controller.decide(request, 0, lambda response: None)
        if controller.is_active and controller.quorum_log.end_offset > before:
            self._sessions.moved(broker_id, controller.quorum_log.end_offset - 1)
            broker = controller.controller.image.broker(broker_id)
            if broker is not None and not broker.fenced:
                asyncio.get_running_loop().call_soon(self._decide_in_parts, request)

    # ---- what machines say

    def _connection_lost(self, connection: Connection) -> None:
        broker_id = self._connections.pop(connection, None)
        if broker_id is not None:
            self._probe(broker_id)

    def _probe(self, broker_id: int) -> None:
        if self._is_active and broker_id not in self._probes:
            broker = self._broker.controller.controller.image.broker(broker_id)
            if broker is not None and not broker.fenced:
                if self._broker.stopped_brokers is not None:
                    self._broker.stopped_brokers.look_for(broker)
                task = asyncio.get_running_loop().create_task(self._find_out(broker))
                self._probes[broker_id] = task
                task.add_done_callback(lambda _: self._probes.pop(broker_id, None))

    async def _find_out(self, broker: BrokerImage) -> None:
        if not await is_gone([(one.host, one.port) for one in broker.listeners.values()]):
            return
        controller = self._broker.controller
        if not (self._is_active and controller.is_active):
            return
        now = controller.controller.image.broker(broker.id)
        if now is not None and now.epoch == broker.epoch and not now.fenced:
            log.warning("broker %d is gone, its listeners are refused; it is fenced", broker.id)
            self.refused_brokers += 1
            self._sessions.forget(broker.id)
            self._fence(now)

    # ---- from time to time

    def _arm_upkeep(self) -> None:
        config = self._broker.config
        balance_ms = config.get("leader.imbalance.check.interval.seconds") * 1000
        if config.get("auto.leader.rebalance.enable"):
            self._arm(BalanceLeadersRequest, balance_ms)
        self._arm(ElectUncleanLeadersRequest, config.get("unclean.leader.election.interval.ms"))
        idle_ms: int = config.get("metadata.max.idle.interval.ms")
        if idle_ms > 0:
            self._arm(WriteNoOpRequest, idle_ms)

    def _arm(self, kind: type[Message], interval_ms: int) -> None:
        def again(response: UpkeepResponse) -> None:
            if kind is BalanceLeadersRequest and response.elections >= MAX_ELECTIONS_PER_IMBALANCE:
                submit()

        def submit() -> None:
            # A log that nobody follows need not say that it goes on.
            if self._is_active and not (kind is WriteNoOpRequest and self._broker.controller.is_alone):
                self._broker.controller.decide(kind(), 0, again)

        def due() -> None:
            self._arm(kind, interval_ms)
            submit()

        self._upkeep_timers[kind] = self._broker.call_at(self._broker.now_ms() + interval_ms, due)
