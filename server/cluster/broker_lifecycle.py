"""A broker in a cluster, as the controller knows it: registered, fenced or not, leaving (KIP-631).

    registering --- has an epoch ---> starting --- ready, caught up, unfenced ---> running --- leave ---> leaving ---> left

One request at a time is in flight to the active controller: a registration until there is an epoch, heartbeats from then
on. A new controller gets one at once. So does a controller that waits for this broker to read all metadata before its
registration, or the new leaders of a broker that shuts down. A request without a response is sent again, after a while,
to the active controller of that time.

Alone, with the controller in the same process, none of this happens (`startup.py`).
"""

from __future__ import annotations

import asyncio
import logging
import random
from enum import Enum
from typing import TYPE_CHECKING, Any

from ...metadata.features import supported_features
from ...metadata.image import MetadataImage
from ...protocol.errors import ErrorCode
from ...protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from ...protocol.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from ...protocol.schema import Message
from ...replication.controller.chance import random_uuid
from ..config.listeners import SECURITY_PROTOCOLS
from ..partitions.cordoning import CORDONED_KEY, cordoned_ids

if TYPE_CHECKING:
    from ..node import Node

log = logging.getLogger("odradek.lifecycle")

REGISTRATION_VERSION, HEARTBEAT_VERSION = 4, 2
#: After a word that was not answered, or refused.
RETRY_BACKOFF_MS = 100
#: Between the heartbeats of a broker that leaves.
LEAVING_INTERVAL_MS = 50
#: A broker that wants to stop does not wait longer for its leaders to move; nor for a controller, when there is none.
LEAVING_TIMEOUT_MS = 30_000
NO_CONTROLLER_TIMEOUT_MS = 3000
#: A connection for nothing else: the controller takes its end for the end of this process (`broker_sessions.py`).
_PURPOSE = "lifecycle"


class LifecycleState(Enum):
    """The numbers are those of Kafka's metric BrokerState."""

    REGISTERING = 1
    STARTING = 2
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7


class RegistrationFailed(Exception):
    """No controller has taken this broker into the cluster in time."""


class BrokerLifecycle:
    def __init__(self, broker: Node) -> None:
        self._broker = broker
        self.state = LifecycleState.REGISTERING
        self.broker_epoch = -1
        self._incarnation_id = random_uuid(random.SystemRandom())
        self._is_ready = False
        #: Of the word that was said last; answers to those before it are too late.
        self._said = 0
        self._next: asyncio.TimerHandle | None = None
        self._registered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        #: That it is registered has come to this broker by the metadata.
        self._known: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._running: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._left: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._image: MetadataImage = broker.image
        self._last_answered_ms = broker.now_ms()

    @classmethod
    def of_lone_voter(cls, broker: Node) -> BrokerLifecycle:
        """Returns the lifecycle of a broker that its own controller registered as the only voter."""
        self = cls(broker)
        self.state, self.broker_epoch = LifecycleState.RUNNING, broker.controller.broker_epoch
        return self

    # ---- from outside

    async def register(self) -> None:
        """Returns when this broker has an epoch, and knows itself by it: who is served before that is served by what this
        broker was before a crash. Raises RegistrationFailed.
        """
        self._broker.controller.on_leader_changed.append(self.speak)
        self._broker.on_published.append(self._published)
        self._broker.config.subscribe(self._config_changed)
        self.speak()
        timeout_s = self._broker.config.get("initial.broker.registration.timeout.ms") / 1000
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.shield(self._registered)
        except TimeoutError:
            raise RegistrationFailed(f"no controller has registered this broker in {timeout_s:g} s") from None
        await asyncio.shield(self._known)

    async def run(self) -> None:
        """The listeners accept: asks to be unfenced, and returns when everybody may know it."""
        self._is_ready = True
        self._published(self._broker.image)
        self.speak()
        await asyncio.shield(self._running)

    async def leave(self) -> None:
        """Controlled shutdown: what this broker leads moves to others while it still serves. Returns also when it cannot."""
        if self.state in (LifecycleState.REGISTERING, LifecycleState.SHUTTING_DOWN):
            self._end()
            return
        self.state = LifecycleState.PENDING_CONTROLLED_SHUTDOWN
        self._last_answered_ms = self._broker.now_ms()
        self.speak()
        try:
            async with asyncio.timeout(LEAVING_TIMEOUT_MS / 1000):
                await asyncio.shield(self._left)
        except TimeoutError:
            log.warning("what this broker leads has not moved in %d ms; it stops all the same", LEAVING_TIMEOUT_MS)
        self._end()

    def speak(self) -> None:
        """Sends the next registration or heartbeat now."""
        if self._next is not None:
            self._next.cancel()
            self._next = None
        if self.state is LifecycleState.SHUTTING_DOWN:
            return
        self._said += 1
        said = self._said
        word, version = (self._registration(), REGISTRATION_VERSION) if self.broker_epoch < 0 else self._heartbeat()
        timeout_ms: int = self._broker.config.get("broker.session.timeout.ms") // 2

        def answered(response: Any) -> None:
            if said == self._said:
                self._answered(response)

        self._send(word, version, answered, timeout_ms)

    # ---- words

    def _send(self, word: Message, version: int, answered: Any, timeout_ms: int) -> None:
        controller = self._broker.controller
        if controller.is_active and self._broker.broker_sessions is not None:
            self._broker.broker_sessions.ask(word, version, answered)
        else:
            self._broker.forwarding().send_to_controller(
                word, answered, timeout_ms=timeout_ms, version=version, purpose=_PURPOSE
            )

    def _registration(self) -> BrokerRegistrationRequest:
        """`previous_broker_epoch` tells that the last stop was clean: then every directory remembers the same epoch."""
        broker = self._broker
        epochs = {directory.previous_broker_epoch for directory in broker.directories}
        return BrokerRegistrationRequest(
            broker_id=broker.node_id,
            cluster_id=broker.cluster_id,
            incarnation_id=self._incarnation_id,
            listeners=[
                Listener(name=e.name, host=e.host, port=e.port, security_protocol=_protocol(broker, e.name))
                for e in broker.advertised_endpoints()
            ],
            features=[
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in supported_features(broker.image.features).items()
            ],
            rack=broker.config.get("broker.rack"),
            log_dirs=[d.directory_id for d in broker.directories if d.directory_id is not None],
            previous_broker_epoch=epochs.pop() if len(epochs) == 1 else -1,
        )

    def _heartbeat(self) -> tuple[BrokerHeartbeatRequest, int]:
        broker, leaves = self._broker, self.state is LifecycleState.PENDING_CONTROLLED_SHUTDOWN
        heartbeat = BrokerHeartbeatRequest(
            broker_id=broker.node_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=broker.image.offset,
            want_fence=not self._is_ready and not leaves,
            want_shut_down=leaves,
            offline_log_dirs=[
                d.directory_id for d in broker.directories if not d.is_online and d.directory_id is not None
            ],
            cordoned_log_dirs=cordoned_ids(broker.config, broker.directories),
        )
        return heartbeat, HEARTBEAT_VERSION

    # ---- answers

    def _answered(self, response: Any) -> None:
        if response is None or response.error_code:
            self._refused(response)
            return
        self._last_answered_ms = self._broker.now_ms()
        if self.broker_epoch < 0:
            self._has_epoch(response.broker_epoch)
        elif self.state is LifecycleState.PENDING_CONTROLLED_SHUTDOWN:
            if response.should_shut_down and not self._left.done():
                self._left.set_result(None)
            self._speak_in(LEAVING_INTERVAL_MS)
        else:
            self._speak_in(self._broker.config.get("broker.heartbeat.interval.ms"))

    def _has_epoch(self, epoch: int) -> None:
        log.info("registered with broker epoch %d", epoch)
        self.broker_epoch = self._broker.controller.broker_epoch = epoch
        self.state = LifecycleState.STARTING
        if not self._registered.done():
            self._registered.set_result(None)
        self._published(self._broker.image)
        self.speak()

    def _refused(self, response: Any) -> None:
        if response is not None and response.error_code != ErrorCode.NOT_CONTROLLER:
            log.warning("the controller refuses this broker: %s", ErrorCode(response.error_code).name)
        silent_ms = self._broker.now_ms() - self._last_answered_ms
        if (
            self.state is LifecycleState.PENDING_CONTROLLED_SHUTDOWN
            and silent_ms > NO_CONTROLLER_TIMEOUT_MS
            and not self._left.done()
        ):
            log.warning("no controller has answered for %d ms; this broker stops without it", silent_ms)
            self._left.set_result(None)
        self._speak_in(RETRY_BACKOFF_MS)

    def _speak_in(self, delay_ms: int) -> None:
        if self._next is not None:
            self._next.cancel()
        self._next = self._broker.call_at(self._broker.now_ms() + delay_ms, self.speak)

    # ---- what happens here

    def _published(self, image: MetadataImage) -> None:
        """Reports awaited changes of the metadata to the controller; the next heartbeat may be seconds away."""
        before, self._image = self._image, image
        if self.state is LifecycleState.SHUTTING_DOWN or self.broker_epoch < 0:
            return
        registered = image.broker(self._broker.node_id)
        knows_itself = registered is not None and registered.epoch == self.broker_epoch
        if knows_itself and not self._known.done():
            self._known.set_result(None)
        if self.state is LifecycleState.STARTING and self._is_ready and registered is not None and knows_itself:
            if registered.fenced:
                self.speak()
            else:
                self._runs()
        elif image.cluster is not before.cluster and _someone_leaves(image, self._broker.node_id):
            self.speak()

    def _runs(self) -> None:
        self.state = LifecycleState.RUNNING
        if not self._running.done():
            self._running.set_result(None)

    def _config_changed(self, names: frozenset[str]) -> None:
        """The controller places replicas by which directories are cordoned. A change is sent while it is being published."""
        if CORDONED_KEY in names:
            asyncio.get_running_loop().call_soon(self.speak)

    def _end(self) -> None:
        self.state = LifecycleState.SHUTTING_DOWN
        if self._next is not None:
            self._next.cancel()


def _someone_leaves(image: MetadataImage, node_id: int) -> bool:
    return any(b.in_controlled_shutdown and not b.fenced and b.id != node_id for b in image.cluster.brokers.values())


def _protocol(broker: Node, listener: str) -> int:
    return SECURITY_PROTOCOLS[broker.config.listeners.protocols[listener]]
