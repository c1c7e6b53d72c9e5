"""The sessions of brokers at the active controller."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...client.probes import is_gone
from ...metadata.image import BrokerImage
from ...protocol.errors import ErrorCode
from ...protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ...protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from ...protocol.schema import Request, ResponseCallback
from ...replication.controller.controller import error_response
from ...replication.controller.maintenance import FenceBrokerRequest, MoveLeadersRequest
from ...replication.controller.result import RequestError
from ...replication.controller.sessions import BrokerSessions
from .periodic_tasks import PeriodicTasks

if TYPE_CHECKING:
    from ..network.call import ClientConnection
    from ..runtime.clock import Clock
    from ..runtime.metadata_cache import MetadataCache
    from .driver import QuorumDriver

log = logging.getLogger("odradek.broker_sessions")
#: A timer that is late by more shows that this process did not run, and so missed heartbeats.
LATE_MS = 1000
#: A timer that is late by more shows that something held the loop, and heartbeats may wait: in sockets, or in the brokers of
#: an embedded cluster, which have the same loop. So the controller fences brokers at a second look, after these.
HELD_MS = 50
SECOND_LOOK_MS = 200


class BrokerSessionWatch:
    """The sessions of brokers, for as long as this node is the active controller; and, as long, the periodic tasks.

    `suspect` is called with a broker whose process may have ended.
    """

    def __init__(
        self,
        node_id: int,
        clock: Clock,
        metadata: MetadataCache,
        controller: QuorumDriver,
        tasks: PeriodicTasks,
        suspect: Callable[[BrokerImage], None],
    ) -> None:
        self._node_id = node_id
        self._clock = clock
        self._metadata = metadata
        self._controller = controller
        self._tasks = tasks
        self._suspect = suspect
        self._is_active = False
        #: Connections that heartbeats come from, and their brokers.
        self._connections: dict[ClientConnection, int] = {}
        self._session_timer: asyncio.TimerHandle | None = None
        self._session_deadline_ms = 0
        #: Whether the timer is a second look.
        self._is_second_look = False
        self._probes: dict[int, asyncio.Task[None]] = {}
        #: Brokers fenced since this node was started: whose session expired, whose listeners refused connections.
        self.expired_sessions = 0
        self.rejected_brokers = 0

    def start(self) -> None:
        self._controller.on_leader_changed.append(self.leader_changed)
        self.leader_changed()

    def stop(self) -> None:
        self._is_active = False
        self._disarm()

    def clock_moved(self) -> None:
        """Begins all sessions anew: heartbeats came in time by the clock that was set."""
        if self._controller.is_active:
            self._sessions.begin(self._controller.controller.image, self._clock.now_ms())
            if self._session_timer is not None:
                self._session_timer.cancel()
                self._session_timer = None
            self._arm_sessions()

    # Requests.

    def ask(
        self, request: Request, version: int, reply: ResponseCallback, connection: ClientConnection | None = None
    ) -> None:
        """Decides a registration or a heartbeat; without a connection it is this process's own."""
        controller = self._controller
        if not controller.is_active:
            reply(error_response(request, version, RequestError(ErrorCode.NOT_CONTROLLER)))
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

    def _hear(self, request: BrokerHeartbeatRequest, connection: ClientConnection | None) -> None:
        if connection is not None:
            self._connections[connection] = request.broker_id
        now_ms = self._clock.now_ms()
        self._sessions.heard(request.broker_id, request.broker_epoch, request.current_metadata_offset, now_ms)
        self._hear_own(now_ms)
        self._arm_sessions()

    def _hear_own(self, now_ms: int) -> None:
        """Notes a heartbeat of the broker in this process, which has what is published here."""
        own = self._metadata.image.broker(self._node_id)
        if own is not None and self._is_this_process(own):
            self._sessions.heard(own.id, own.epoch, self._metadata.image.offset, now_ms)

    def _is_this_process(self, broker: BrokerImage) -> bool:
        """Returns False for an incarnation that had this node's id before a crash: its session must expire, so that this
        one can take its place.
        """
        return broker.id == self._node_id and broker.epoch == self._controller.broker_epoch

    def _heartbeat_answered(
        self, request: BrokerHeartbeatRequest, response: BrokerHeartbeatResponse, reply: ResponseCallback
    ) -> None:
        if response.should_shut_down and self._controller.is_active:
            self._sessions.forget(request.broker_id)
        reply(response)

    def _registration_answered(
        self, request: BrokerRegistrationRequest, response: BrokerRegistrationResponse, reply: ResponseCallback
    ) -> None:
        """Probes the previous incarnation of a broker that registers before that one's session expires."""
        if response.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION:
            self._probe(request.broker_id)
        reply(response)

    # Leadership.

    @property
    def _sessions(self) -> BrokerSessions:
        return self._controller.controller.sessions

    def leader_changed(self) -> None:
        is_active = self._controller.is_active
        if is_active == self._is_active:
            return
        self._is_active = is_active
        if not is_active:
            self._disarm()
            return
        self._connections.clear()
        image = self._controller.controller.image
        self._sessions.begin(image, self._clock.now_ms())
        self._arm_sessions()
        self._tasks.start()
        for broker in list(image.cluster.brokers.values()):
            if not broker.fenced and not self._is_this_process(broker):
                self._probe(broker.id)

    def _disarm(self) -> None:
        if self._session_timer is not None:
            self._session_timer.cancel()
            self._session_timer = None
        self._tasks.stop()
        for probe in list(self._probes.values()):
            probe.cancel()

    # Sessions.

    def _arm_sessions(self) -> None:
        deadline_ms = self._sessions.deadline()
        if deadline_ms is None:
            return
        if self._session_timer is not None:
            if self._is_second_look or self._session_deadline_ms <= deadline_ms:
                return
            self._session_timer.cancel()
        self._is_second_look = False
        self._arm(deadline_ms)

    def _arm(self, deadline_ms: int) -> None:
        self._session_deadline_ms = deadline_ms
        self._session_timer = self._clock.call_at(deadline_ms, self._sessions_expire)

    def _sessions_expire(self) -> None:
        self._session_timer = None
        if not self._controller.is_active:
            return
        now_ms, sessions = self._clock.now_ms(), self._sessions
        image = self._controller.controller.image
        late_ms, is_second_look = now_ms - self._session_deadline_ms, self._is_second_look
        self._is_second_look = False
        if late_ms > LATE_MS:
            log.warning("this node did not run for %d ms; all broker sessions start again", late_ms)
            sessions.begin(image, now_ms)
        elif late_ms > HELD_MS and not is_second_look:
            self._is_second_look = True
            self._arm(now_ms + SECOND_LOOK_MS)
            return
        for broker in sessions.expire(now_ms, image):
            if self._is_this_process(broker):
                self._hear_own(now_ms)
                continue
            log.warning(
                "broker %d has sent no heartbeat for %d ms and is fenced", broker.id, sessions.session_timeout_ms
            )
            self.expired_sessions += 1
            self._fence(broker)
        self._arm_sessions()

    def _fence(self, broker: BrokerImage) -> None:
        """Fences the broker. If another controller takes over meanwhile, the session expires there."""
        self._decide_in_parts(FenceBrokerRequest(broker_id=broker.id, broker_epoch=broker.epoch))

    def _decide_in_parts(self, request: FenceBrokerRequest | MoveLeadersRequest) -> None:
        """Moves a limited number of leaders at a time, and the rest in later turns of the loop."""
        controller, broker_id = self._controller, request.broker_id
        if not self._is_active or not controller.is_active:
            return
        before = controller.quorum_log.end_offset
        controller.decide(request, 0, lambda response: None)
        if controller.is_active and controller.quorum_log.end_offset > before:
            self._sessions.moved(broker_id, controller.quorum_log.end_offset - 1)
            broker = controller.controller.image.broker(broker_id)
            if broker is not None and not broker.fenced:
                asyncio.get_running_loop().call_soon(self._decide_in_parts, request)

    # Probes.

    def connection_lost(self, connection: ClientConnection) -> None:
        broker_id = self._connections.pop(connection, None)
        if broker_id is not None:
            self._probe(broker_id)

    def _probe(self, broker_id: int) -> None:
        if self._is_active and broker_id not in self._probes:
            broker = self._controller.controller.image.broker(broker_id)
            if broker is not None and not broker.fenced:
                self._suspect(broker)
                task = asyncio.get_running_loop().create_task(self._find_out(broker))
                self._probes[broker_id] = task
                task.add_done_callback(lambda _: self._probes.pop(broker_id, None))

    async def _find_out(self, broker: BrokerImage) -> None:
        if not await is_gone([(one.host, one.port) for one in broker.listeners.values()]):
            return
        controller = self._controller
        if not (self._is_active and controller.is_active):
            return
        now = controller.controller.image.broker(broker.id)
        if now is not None and now.epoch == broker.epoch and not now.fenced:
            log.warning("broker %d is fenced: its process has ended, its listeners refuse connections", broker.id)
            self.rejected_brokers += 1
            self._sessions.forget(broker.id)
            self._fence(now)
