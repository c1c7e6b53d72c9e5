"""The registration of this node with the controllers, as a broker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING, Union

from ...client.probes import is_gone
from ...metadata.image import MetadataImage
from ...protocol.errors import ErrorCode
from ...protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ...protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from ...protocol.schema import Request, ResponseCallback
from ..partitions.cordoning import CORDONED_KEY
from .registration import Registration, new_incarnation_id

if TYPE_CHECKING:
    from ..network.listener_set import ListenerSet
    from ..runtime.lazy import Lazy
    from ..runtime.node import Node
    from .broker_sessions import BrokerSessionWatch
    from .driver import QuorumDriver
    from .forwarding import Forwarding

log = logging.getLogger("odradek.lifecycle")
REGISTRATION_VERSION = BrokerRegistrationRequest.newest_version()
HEARTBEAT_VERSION = BrokerHeartbeatRequest.newest_version()
#: After a request that failed, or had no response.
RETRY_BACKOFF_MS = 100
#: Between the heartbeats of a controlled shutdown.
LEAVING_INTERVAL_MS = 50
#: A controlled shutdown waits no longer for its leaders to move.
LEAVING_TIMEOUT_MS = 30_000
#: Without a response of a controller for this long, the broker looks whether a majority of the quorum still runs.
PROBE_CONTROLLERS_MS = 3000
#: A connection for nothing else: the controller takes its end for the end of this process (`broker_sessions.py`).
_PURPOSE = "lifecycle"
LifecycleResponse = Union[BrokerHeartbeatResponse, BrokerRegistrationResponse]


class LifecycleState(Enum):
    """The numbers are those of Kafka's metric BrokerState."""

    REGISTERING = 1
    STARTING = 2
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7


class RegistrationFailed(Exception):
    """No controller has registered this broker in time."""


class BrokerLifecycle:
    """The state machine of the registration.

    `broker_sessions`: those of this process's controller, which decides the requests while it is active; None on a node
    that is no controller. `leads` returns whether this broker leads a partition, such as one of a coordinator.
    `listeners`: those of the broker's clients; without them the broker does not wait for any.
    """

    def __init__(
        self,
        node: Node,
        controller: QuorumDriver,
        registration: Registration,
        forwarding: Lazy[Forwarding],
        broker_sessions: BrokerSessionWatch | None,
        leads: Callable[[], bool] = lambda: False,
        listeners: ListenerSet | None = None,
    ) -> None:
        self._config = node.config
        self._clock = node.clock
        self._metadata = node.metadata
        self._controller = controller
        self._registration = registration
        self._forwarding = forwarding
        self._broker_sessions = broker_sessions
        self._leads = leads
        self._listeners = listeners
        self.state = LifecycleState.REGISTERING
        self.broker_epoch = -1
        self._incarnation_id = new_incarnation_id()
        self._former_session_noted = False
        self._is_ready = False
        #: The number of the last request; responses to earlier ones are ignored.
        self._sent = 0
        self._next: asyncio.TimerHandle | None = None
        self._registered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        #: Done when the published image has the registration.
        self._known: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._running: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        #: Done when the published image has other leaders for all partitions that this broker led.
        self._handed_over = asyncio.Event()
        self._left: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        #: The leaders have moved, and clients get time to follow them: no heartbeat is sent.
        self._holds = False
        self._retries = 0
        self._probe: asyncio.Task[None] | None = None
        self._image: MetadataImage = node.metadata.image
        self._last_answered_ms = node.clock.now_ms()

    # For the start and the stop.

    def continue_lone_voter(self) -> None:
        """Continues as the running broker that its own controller registered when it was the only voter."""
        self._metadata.on_published.append(self._published)
        self.state, self.broker_epoch = LifecycleState.RUNNING, self._controller.broker_epoch

    async def register(self) -> None:
        """Returns when this broker has an epoch, and its published image has it: until then clients would be served in the
        state of before a crash. Raises RegistrationFailed.
        """
        self._controller.on_leader_changed.append(self.send_next)
        self._metadata.on_published.append(self._published)
        self._config.subscribe(self._config_changed)
        self.send_next()
        timeout_s = self._config.get("initial.broker.registration.timeout.ms") / 1000
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.shield(self._registered)
        except TimeoutError:
            raise RegistrationFailed(
                f"no controller has registered this broker within {timeout_s:g} s; check the controllers and their addresses"
            ) from None
        await asyncio.shield(self._known)

    async def run(self) -> None:
        """Requests to be unfenced, since the listeners accept; returns when the published image has the broker unfenced."""
        self._is_ready = True
        self._published(self._metadata.image)
        self.send_next()
        await asyncio.shield(self._running)

    @property
    def is_starting(self) -> bool:
        """Returns whether the broker accepts connections, and no controller has unfenced it yet."""
        return self.state is LifecycleState.STARTING

    async def leave(self) -> None:
        """Controlled shutdown: partitions that this broker leads get other leaders while it still serves. Returns also when
        that fails.
        """
        if self.state in (LifecycleState.REGISTERING, LifecycleState.SHUTTING_DOWN):
            self._end()
            return
        led = self._leads()
        self.state = LifecycleState.PENDING_CONTROLLED_SHUTDOWN
        self._last_answered_ms = self._clock.now_ms()
        self.send_next()
        try:
            async with asyncio.timeout(LEAVING_TIMEOUT_MS / 1000):
                if led:
                    await self._hand_over()
                await asyncio.shield(self._left)
        except TimeoutError:
            log.warning(
                "leadership of this broker's partitions has not moved within %d ms; the broker stops anyway",
                LEAVING_TIMEOUT_MS,
            )
        self._end()

    async def _hand_over(self) -> None:
        """Returns when the leaders have moved and the clients have had time to follow, or when that cannot be."""
        moved = asyncio.ensure_future(self._handed_over.wait())
        await asyncio.wait((moved, self._left), return_when=asyncio.FIRST_COMPLETED)
        moved.cancel()
        if self._handed_over.is_set() and self._has_company():
            await self._respond_to_clients()

    async def _respond_to_clients(self) -> None:
        """Answers for one heartbeat interval, or until the last client or the last other broker has left."""
        assert self._listeners is not None
        interval_ms = min(
            self._config.get("broker.heartbeat.interval.ms"), self._config.get("broker.session.timeout.ms") // 2
        )
        began_ms, alone = self._clock.now_ms(), asyncio.Event()
        loop = asyncio.get_running_loop()

        def look() -> None:
            if not self._has_company():
                alone.set()

        def lost(_: object) -> None:
            loop.call_soon(look)

        def published(_: MetadataImage) -> None:
            look()

        self._holds = True
        if self._next is not None:
            self._next.cancel()
        self._listeners.on_connection_lost.append(lost)
        self._metadata.on_published.append(published)
        with suppress(TimeoutError):
            async with asyncio.timeout(interval_ms / 1000):
                await alone.wait()
        self._listeners.on_connection_lost.remove(lost)
        self._metadata.on_published.remove(published)
        self._holds = False
        log.info(
            "answered clients for %d ms after the leaders had moved%s",
            self._clock.now_ms() - began_ms,
            ", until the last had left" if alone.is_set() else "",
        )
        self.send_next()

    def _has_company(self) -> bool:
        """Returns whether clients are connected, and other brokers serve them from now on."""
        others = (broker for broker in self._metadata.image.cluster.brokers.values() if broker.is_active)
        return (
            self._listeners is not None
            and self._listeners.has_clients()
            and any(broker.id != self._registration.node_id for broker in others)
        )

    def send_next(self) -> None:
        """Sends the next registration or heartbeat now."""
        if self._next is not None:
            self._next.cancel()
            self._next = None
        if self.state is LifecycleState.SHUTTING_DOWN or self._holds:
            return
        self._sent += 1
        number = self._sent
        request: Request
        if self.broker_epoch < 0:
            request, version = self._of_broker(), REGISTRATION_VERSION
        else:
            request, version = self._heartbeat(), HEARTBEAT_VERSION
        timeout_ms: int = self._config.get("broker.session.timeout.ms") // 2

        def answered(response: LifecycleResponse | None) -> None:
            if number == self._sent:
                self._answered(response)

        self._send(request, version, answered, timeout_ms)

    # Requests.

    def _send(self, request: Request, version: int, answered: ResponseCallback, timeout_ms: int) -> None:
        controller = self._controller
        if controller.is_active and self._broker_sessions is not None:
            self._broker_sessions.ask(request, version, answered)
        else:
            self._forwarding().send_to_controller(
                request, answered, timeout_ms=timeout_ms, version=version, purpose=_PURPOSE
            )

    def _of_broker(self) -> BrokerRegistrationRequest:
        return self._registration.of_broker(self._incarnation_id)

    def _heartbeat(self) -> BrokerHeartbeatRequest:
        leaves = self.state is LifecycleState.PENDING_CONTROLLED_SHUTDOWN
        return self._registration.heartbeat(
            self.broker_epoch,
            self._metadata.image.offset,
            want_fence=not self._is_ready and not leaves,
            want_shut_down=leaves,
            offline_log_dirs=self._registration.offline_log_dirs(),
        )

    # Responses.

    def _answered(self, response: LifecycleResponse | None) -> None:
        if response is None or response.error_code:
            self._heartbeat_failed(response)
            return
        self._last_answered_ms = self._clock.now_ms()
        if isinstance(response, BrokerRegistrationResponse):
            self._has_epoch(response.broker_epoch)
        elif self.state is LifecycleState.PENDING_CONTROLLED_SHUTDOWN:
            self._retries = 0
            if response.should_shut_down and not self._left.done():
                self._left.set_result(None)
            if not self._holds:
                self._send_next_in(LEAVING_INTERVAL_MS)
        else:
            self._send_next_in(self._config.get("broker.heartbeat.interval.ms"))

    def _has_epoch(self, epoch: int) -> None:
        log.info("registered with broker epoch %d", epoch)
        self.broker_epoch = self._controller.broker_epoch = epoch
        self.state = LifecycleState.STARTING
        if not self._registered.done():
            self._registered.set_result(None)
        self._published(self._metadata.image)
        self.send_next()

    def _heartbeat_failed(self, response: LifecycleResponse | None) -> None:
        if response is not None and response.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION:
            self._note_former_session()
        elif response is not None and response.error_code != ErrorCode.NOT_CONTROLLER:
            log.warning("the controller rejected this broker: %s", ErrorCode(response.error_code).name)
        if self.state is LifecycleState.PENDING_CONTROLLED_SHUTDOWN:
            self._look_for_controllers(self._clock.now_ms() - self._last_answered_ms)
        self._send_next_in(RETRY_BACKOFF_MS)

    def _look_for_controllers(self, silent_ms: int) -> None:
        """Ends a controlled shutdown that no controller decides: at once if too few of them run for a quorum, otherwise
        after `controlled.shutdown.max.retries` times `controlled.shutdown.retry.backoff.ms`.
        """
        backoff_ms = self._config.get("controlled.shutdown.retry.backoff.ms")
        retries = self._config.get("controlled.shutdown.max.retries")
        if backoff_ms * retries > silent_ms >= backoff_ms * (self._retries + 1):
            self._retries += 1
            log.warning(
                "no controller has responded to this broker's controlled shutdown for %d ms: retry %d of %d "
                "(controlled.shutdown.max.retries)",
                silent_ms,
                self._retries,
                retries,
            )
        if silent_ms > backoff_ms * retries:
            self._stop_without(
                f"no controller has responded for {silent_ms} ms (controlled.shutdown.max.retries={retries}, "
                f"controlled.shutdown.retry.backoff.ms={backoff_ms})"
            )
        elif silent_ms > PROBE_CONTROLLERS_MS and self._probe is None:
            self._probe = asyncio.get_running_loop().create_task(self._probe_controllers())

    async def _probe_controllers(self) -> None:
        """Ends the controlled shutdown if so many processes of controllers have ended that none can be active."""
        voters = self._controller.voter_endpoints()
        others = [(one.host, one.port) for voter, one in voters.items() if voter != self._registration.node_id]
        gone = sum(await asyncio.gather(*(is_gone([address]) for address in others)))
        if len(voters) - gone > len(voters) // 2:
            self._probe = None  # again with the next failure
        elif self.state is LifecycleState.PENDING_CONTROLLED_SHUTDOWN:
            self._stop_without(f"{gone} of {len(voters)} controllers have stopped, so there is no quorum")

    def _stop_without(self, reason: str) -> None:
        if not self._left.done():
            log.warning("%s; this broker stops without controlled shutdown", reason)
            self._left.set_result(None)

    def _note_former_session(self) -> None:
        """Logs once that the registration waits. Kafka's controller does not detect the end of a process: it keeps the
        session of the previous one until that expires.
        """
        if self._former_session_noted:
            return
        self._former_session_noted = True
        log.warning(
            "the controller still has the session of this broker's previous process; the registration is repeated every "
            "%d ms until that session ends, at most broker.session.timeout.ms=%d after its last heartbeat",
            RETRY_BACKOFF_MS,
            self._config.get("broker.session.timeout.ms"),
        )

    def _send_next_in(self, delay_ms: int) -> None:
        if self._next is not None:
            self._next.cancel()
        self._next = self._clock.call_at(self._clock.now_ms() + delay_ms, self.send_next)

    # Events.

    def _published(self, image: MetadataImage) -> None:
        """Reports awaited changes of the metadata to the controller; the next heartbeat may be seconds away."""
        before, self._image = self._image, image
        if self.state is LifecycleState.SHUTTING_DOWN or self.broker_epoch < 0:
            return
        if self.state is LifecycleState.PENDING_CONTROLLED_SHUTDOWN and not self._leads():
            self._handed_over.set()
        registered = image.broker(self._registration.node_id)
        knows_itself = registered is not None and registered.epoch == self.broker_epoch
        if knows_itself and not self._known.done():
            self._known.set_result(None)
        if self.state is LifecycleState.STARTING and self._is_ready and registered is not None and knows_itself:
            if registered.fenced:
                self.send_next()
            else:
                self._runs()
        elif image.cluster is not before.cluster and _has_leaving_broker(image, self._registration.node_id):
            self.send_next()

    def _runs(self) -> None:
        self.state = LifecycleState.RUNNING
        if not self._running.done():
            self._running.set_result(None)

    def _config_changed(self, names: frozenset[str]) -> None:
        """The controller places replicas by which directories are cordoned. A change is sent while it is being published."""
        if CORDONED_KEY in names:
            asyncio.get_running_loop().call_soon(self.send_next)

    def _end(self) -> None:
        self.state = LifecycleState.SHUTTING_DOWN
        for pending in (self._next, self._probe):
            if pending is not None:
                pending.cancel()


def _has_leaving_broker(image: MetadataImage, node_id: int) -> bool:
    return any(b.in_controlled_shutdown and not b.fenced and b.id != node_id for b in image.cluster.brokers.values())
