"""Drives the quorum on this node, and is its interface for the rest of the node.

Its parts: the active controller decides requests and appends the decisions (`active_controller.py`); the membership has
them committed (`membership.py` alone, otherwise `raft.py`); every node publishes what is committed
(`ImagePublishing` in `commits.py`) and writes snapshots of it (`Snapshotting`, there too). Replies follow the
publication, in the order of the requests: a client that has its response can read what it requested, also after a
crash. Reads wait as well, until everything that their decision saw is committed.

A node that is not the active controller forwards requests to it.

Endpoints declare one of the places at the end of this file: the active controller, the quorum, or its leader.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, Unpack

from ...metadata.delta import MetadataDelta
from ...metadata.image import MetadataImage
from ...metadata.records import MetadataTransactions
from ...protocol.error_responses import error_response
from ...protocol.errors import ErrorCode
from ...protocol.schema import Message
from ...storage.files.open_files import LogDirectoryFailure
from ..config.listeners import Endpoint
from ..network.api_endpoint import Place
from ..network.call import BROKER, CONTROLLER, Call
from ..partitions.partitions import CORDONED_KEY
from ..runtime.sliced_work import in_slices
from .active_controller import ActiveController, EndpointOf, LogRoom
from .commits import ClientFields, Commits, ImagePublisher, ImagePublishing, Snapshotting, snapshot_commits
from .membership import NO_NODE, KnownLeader, Leader, QuorumMembership
from .metadata_log import Loaded, QuorumLog, QuorumVoters, SnapshotId
from .startup import leaving, open_log, take_over

if TYPE_CHECKING:
    from ...client.peers import Peers
    from ...protocol.schema import ResponseCallback
    from ...replication.controller.controller import Controller
    from ...replication.controller.policies import Policies
    from ...storage.directory import LogDirectory
    from ..access.authorization.authorization import Authorization
    from ..access.quotas.client_quotas import ClientQuotas
    from ..config.broker_config import BrokerConfig
    from ..network.call import ClientConnection
    from ..network.subsystem import NetworkSubsystem
    from ..runtime.clock import Clock
    from ..runtime.counters import BackgroundTasks
    from ..runtime.log_lines import RepeatedLines
    from ..runtime.subsystem import Lazy
    from ..runtime.thread_pools import ThreadPools
    from .raft import PeerCall, QuorumRaft
    from .startup import Registration

log = logging.getLogger("odradek.quorum")

_HEARTBEAT_VERSION = 2


class Submit(Protocol):
    """Has the active controller decide a request. See QuorumDriver.submit."""

    def __call__(
        self, request: Message, version: int, reply: ResponseCallback, **client: Unpack[ClientFields]
    ) -> None: ...


class QuorumDriver:
    """The controller's interface for the rest of the broker. See docs/development/architecture.md.

    `pools`: the threads that flush the metadata log and write its snapshots. `halt` ends the node for a failure; it
    returns whether it does. `authorizer`: decides what clients may ask of the controller; None if everything.
    `policies`: a user's own policies. `background`: takes the failures of background work. `endpoint_of`: finds the
    endpoint of a request. `forward` has the active controller of another node decide a request. `register_controller` starts
    to register this controller with the quorum; it is called once, on a node that is one of several.
    """

    def __init__(
        self,
        config: BrokerConfig,
        registration: Registration,
        clock: Clock,
        peers: Lazy[Peers],
        lines: RepeatedLines,
        pools: ThreadPools,
        publisher: ImagePublisher,
        quotas: ClientQuotas,
        halt: Callable[[Exception], bool],
        authorizer: Authorization | None,
        policies: Policies,
        background: BackgroundTasks,
        endpoint_of: EndpointOf,
        forward: Submit,
        register_controller: Callable[[], None],
    ) -> None:
        #: The epoch of this broker's registration. It shows that a request comes from this incarnation of the broker.
        self.broker_epoch = -1
        self._config = config
        self._registration = registration
        self._clock = clock
        self._disk = pools.disk
        self._halt = halt
        self._background = background
        self._forward = forward
        self._register_controller = register_controller
        self._known_leader = KnownLeader(clock.now_ms)
        #: Called when the leader (or none) or the epoch of the quorum changes, and when this node becomes active.
        self.on_leader_changed = self._known_leader.on_changed
        self.leaderless = self._known_leader.leaderless
        self._member = member = QuorumMembership(
            config,
            registration,
            clock,
            peers,
            pools.metadata,
            background,
            committed=self._committed,
            changed=self._quorum_changed,
            replaced=self._replaced,
            failed=self._fail,
        )
        self._images = images = ImagePublishing(
            publisher,
            lambda: member.is_caught_up,
            published=self._published,
            loaded=self._quorum_changed,
            failed=self._fail,
        )
        room = LogRoom(config.metadata_log_dir, lines)
        self._active = ActiveController(
            config,
            registration.cluster_id,
            clock,
            member,
            images,
            room,
            quotas,
            authorizer,
            policies,
            endpoint_of,
            activated=self._quorum_changed,
            failed=self._fail,
        )
        self._snapshots: Snapshotting | None = None

    # ---- state for other modules

    @property
    def controller(self) -> Controller:
        return self._active.controller

    @property
    def is_active(self) -> bool:
        return self._active.is_active

    @property
    def is_alone(self) -> bool:
        """True while no other node has taken part in the quorum."""
        return self._member.raft is None

    @property
    def epoch(self) -> int:
        """The leader's epoch at this node. It rises with each election and with each start of a single voter."""
        return self._member.epoch

    @property
    def leader_id(self) -> int:
        return self._known_leader.leader.id

    @property
    def leader_endpoint(self) -> Endpoint | None:
        """The endpoint at which the active controller listens for the quorum; None when it is not known."""
        raft = self._member.raft
        return None if raft is None or self.leader_id == NO_NODE else raft.endpoints.find(self.leader_id)

    def voter_endpoints(self) -> dict[int, Endpoint]:
        """Returns the endpoints of the quorum's voters, by node id; none while this node is the only one."""
        raft = self._member.raft
        if raft is None:
            return {}
        found = {node_id: raft.endpoints.find(node_id) for node_id in raft.replica.voter_set.ids}
        return {node_id: endpoint for node_id, endpoint in found.items() if endpoint is not None}

    @property
    def high_watermark(self) -> int:
        """Everything below this offset is committed and replayed here."""
        return self._images.committed_offset

    def has_commits_until(self, ago_ms: int) -> bool:
        """Returns whether the published image has everything that was committed so long ago. A node without a connection to
        the quorum's leader does not know.
        """
        raft, images = self._member.raft, self._images
        if images.end_offset < images.committed_offset or not self._member.is_caught_up:
            return False
        return raft is None or self._member.leads or raft.ms_since_fetch() <= ago_ms

    @property
    def caught_up(self) -> asyncio.Future[None]:
        """Done when this node has published everything that was committed when it joined the quorum."""
        return self._images.caught_up

    @property
    def quorum_log(self) -> QuorumLog:
        return self._member.log

    @property
    def raft(self) -> QuorumRaft | None:
        """The Raft driver; None while this node is the only one in the quorum."""
        return self._member.raft

    @property
    def kraft_version(self) -> int:
        """The KRaft version of the metadata log: with version 1 the log contains its voters (KIP-853)."""
        return self._member.kraft_version

    # ---- start and stop

    async def start(self, directories: Sequence[LogDirectory]) -> None:
        """Opens the metadata log. A single voter becomes leader, registers this broker and publishes the result. Any
        other node joins the quorum, which takes time: see `caught_up`.

        `directories`: the log directories of the broker, open and formatted. Raises LogDirectoryFailure, MetadataLost,
        InvalidQuorum, OSError, and the errors of damaged batches.
        """
        opened = await in_slices(open_log(self._config, self._clock, directories))
        self._member.opened(opened.log)
        self._snapshots = Snapshotting(
            self._config, self._clock, self._disk, opened.log, self._committed_now, self._background
        )
        if opened.loaded is None:
            await self._start_among_others()
        else:
            self._start_alone(opened.loaded)
        self._snapshots.start()

    def _start_alone(self, loaded: Loaded) -> None:
        quorum_log, controller = self._member.log, self._active.new()
        taken = take_over(self._config, self._clock, self._registration, quorum_log, loaded, controller)
        self.broker_epoch = taken.broker_epoch
        # No client is served yet, so the first flush may block the event loop.
        quorum_log.flush(self._clock.now_ms())
        self._member.lead_alone(taken.epoch, taken.epoch_start_offset)
        self._active.begin(controller, taken.epoch)
        self._known_leader.leader = Leader(self._config.node_id, taken.epoch, True)
        log.info("this node is the active controller in epoch %d", taken.epoch)
        image = controller.image
        commits = Commits(quorum_log, MetadataDelta(image), image, MetadataTransactions())
        self._images.begin_with(commits, taken.delta, image)
        if self._config.is_broker:
            self._config.subscribe(self._report_cordoning)

    async def _start_among_others(self) -> None:
        quorum_log = self._member.log
        loaded = await in_slices(quorum_log.load_snapshot(self._clock.now_ms()))
        self._images.begin(snapshot_commits(quorum_log, loaded))
        quorum_log.flush(self._clock.now_ms())  # makes what a crash left behind durable
        raft = self._member.join()
        if self._config.is_controller:
            self._register_controller()
        raft.begin()

    async def stop(self) -> None:
        """Stops the controller and closes the log. A single voter fences its broker first. The only broker keeps its
        leaderships, since no other one could lead meanwhile. A leader of several steps down.
        """
        try:
            if self.is_active and self.is_alone and self._images.end_offset >= 0:  # the start came so far
                await self._leave_alone()
            await self._member.leave()
            self._images.stop()
            self._active.stop()
            if self._snapshots is not None:
                await self._snapshots.stop()
        finally:
            self._member.close()

    async def _leave_alone(self) -> None:
        # The remaining records matter only to the next node that opens the log. This node's partitions close anyway.
        self._images.suspend()
        try:
            if self._config.is_broker:
                for result in leaving(self._registration, self.broker_epoch, self.controller):
                    self._active.append(result.records, result.atomic)
        except LogDirectoryFailure as failure:
            self._fail(failure)
        await self.until_idle()

    async def until_idle(self) -> None:
        """Waits until everything that a single voter has appended is committed, or the disk has failed."""
        await self._member.until_idle()

    # ---- requests

    def submit(self, request: Message, version: int, reply: ResponseCallback, **client: Unpack[ClientFields]) -> None:
        """Has the active controller, on any node, decide the request. Calls `reply(response)` once, now or later."""
        (self.decide if self.is_alone else self._forward)(request, version, reply, **client)

    def decide(self, request: Message, version: int, reply: ResponseCallback, **client: Unpack[ClientFields]) -> None:
        """Decides the request here; NOT_CONTROLLER where another controller is active before its records are committed."""
        self._active.decide(request, version, reply, **client)

    def quorum_request(self, token: PeerCall, request: Message) -> None:
        """Handles a request of the quorum's own protocol. `token.reply(response)` is called once."""
        self._member.joined().request(token, request)

    def _report_cordoning(self, names: frozenset[str]) -> None:
        """Reports a change of the cordoned directories to a single voter, which places replicas by them; in a cluster the
        broker's lifecycle does. The change is reported while it is being published.
        """

        def send() -> None:
            heartbeat = self._registration.heartbeat(self.broker_epoch, self.controller.next_offset - 1)
            self.submit(heartbeat, _HEARTBEAT_VERSION, lambda response: None)

        if CORDONED_KEY in names and self.is_active and self.is_alone:
            asyncio.get_running_loop().call_soon(send)

    # ---- events of the parts

    def _committed(self, end_offset: int) -> None:
        self._images.advance(end_offset)

    def _replaced(self, snapshot: SnapshotId) -> None:
        self._images.commits.replaced(snapshot)

    def _quorum_changed(self) -> None:
        raft = self._member.raft
        assert raft is not None, "a single voter's leader does not change"
        replica = raft.replica
        self._active.resign_unless_leader()
        self._images.load_replaced()
        self._images.advance(replica.high_watermark)
        self._active.activate_if_leader()
        self._known_leader.note(Leader(replica.role.leader_id, replica.epoch, self.is_active))

    def _published(self, end_offset: int) -> None:
        self._active.published(end_offset)
        if self._snapshots is not None:
            self._snapshots.grown()

    def _committed_now(self) -> tuple[MetadataImage, QuorumVoters] | None:
        commits = self._images.commits
        if commits.in_transaction or commits.is_replaced:
            return None
        image = commits.image()
        return image, self._member.voters_at(image.offset + 1)

    def _fail(self, failure: Exception) -> None:
        """Halts the broker: without its log a controller cannot decide. Waiting and new requests fail."""
        if self._halt(failure):
            self._member.halt()
            self._active.resign()


# ---- the places of requests
#
# The places of requests about the metadata of the cluster: the active controller, and the quorum.

#: Timeout of a broker that asks the leader of the quorum.
_TIMEOUT_MS = 30_000


class AskSessions(Protocol):
    """Has the active controller decide a broker's registration or heartbeat. See BrokerSessionWatch."""

    def ask(self, request: Message, version: int, reply: ResponseCallback, connection: ClientConnection) -> None: ...


class QuorumPart(Protocol):
    """The controller's subsystem, as these handlers use it."""

    @property
    def driver(self) -> QuorumDriver: ...
    @property
    def sessions(self) -> AskSessions | None: ...


class QuorumServices(Protocol):
    """The parts of a node that these handlers use."""

    @property
    def controller(self) -> QuorumPart: ...
    @property
    def network(self) -> NetworkSubsystem: ...


def to_controller(services: QuorumServices, call: Call) -> Message | None:
    """Has the active controller decide, wherever it is; the response is sent when this node has the published result. A
    controller that is not active returns NOT_CONTROLLER to its own clients.
    """
    is_asked_itself = call.listener_kind == CONTROLLER and not services.controller.driver.is_alone
    (services.controller.driver.decide if is_asked_itself else services.controller.driver.submit)(
        call.request,
        call.version,
        call.reply_forwarded,
        principal=call.principal,
        client_host=call.client_host,
        client_id=call.client_id,
        is_token_authenticated=call.is_token_authenticated,
    )
    return None


def to_this_controller(services: QuorumServices, call: Call) -> Message | None:
    """Has the controller of this node decide a request of another node; others return NOT_CONTROLLER."""
    services.controller.driver.decide(
        call.request, call.version, call.reply, principal=call.principal, client_host=call.client_host
    )
    return None


def to_quorum(services: QuorumServices, call: Call) -> Message | None:
    """Hands over a request of another voter."""
    services.controller.driver.quorum_request(call, call.request)
    return None


def to_quorum_leader(services: QuorumServices, call: Call) -> Message | None:
    """Has the leader of the quorum answer; a broker asks it."""
    if call.listener_kind == BROKER and not services.controller.driver.is_active:
        ask_leader(services, call)
    else:
        services.controller.driver.quorum_request(call, call.request)
    return None


def ask_leader(services: QuorumServices, call: Call) -> None:
    """Sends the request unchanged to the leader of the quorum, and its response to the client; NOT_CONTROLLER when no
    leader answers.
    """
    endpoint = services.controller.driver.leader_endpoint

    def answered(response: Message | None) -> None:
        if response is None:
            response = error_response(call.api.response, call.version, call.request, ErrorCode.NOT_CONTROLLER)
        call.reply(response)

    if endpoint is None:
        answered(None)
    else:
        services.network.peers().send(
            endpoint, call.request, answered, timeout_ms=_TIMEOUT_MS, version=call.version, purpose="questions"
        )


ACTIVE_CONTROLLER = Place("the active controller", to_controller, is_controller=True, is_enveloped=True)
#: For requests between nodes: their senders find the active controller themselves.
THIS_CONTROLLER = Place("the active controller, which its sender must find", to_this_controller, is_controller=True)
QUORUM = Place("the quorum's state machine of this node", to_quorum)
#: Apache Kafka's brokers forward these requests in an Envelope, ours as they are.
QUORUM_LEADER = Place("the leader of the quorum", to_quorum_leader, is_enveloped=True)


def to_broker_sessions(services: QuorumServices, call: Call) -> Message | None:
    """Has the active controller decide a broker's registration or heartbeat."""
    broker_sessions = services.controller.sessions
    assert broker_sessions is not None, "a node without a controller has no controller listener"
    broker_sessions.ask(call.request, call.version, call.reply, call.connection)
    return None


BROKER_SESSIONS = Place("the active controller, by way of its sessions of brokers", to_broker_sessions)
