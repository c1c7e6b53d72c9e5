"""Drives the quorum on this node, and is its interface for the rest of the node.

Its parts: the active controller decides requests and appends the decisions (`active_controller.py`); the membership has
them committed (`lone_voter.py` alone, otherwise `raft.py`); every node publishes what is committed
(`image_publishing.py`) and writes snapshots of it (`snapshotting.py`). Replies follow the
publication, in the order of the requests: a client that has its response can read what it requested, also after a
crash. Reads wait as well, until everything that their decision saw is committed.

A node that is not the active controller forwards requests to it.

Endpoints declare one of the places in `request_places.py`: the active controller, the quorum, or its leader.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Unpack

from ...metadata.delta import MetadataDelta
from ...metadata.image import MetadataImage
from ...metadata.transactions import MetadataTransactions
from ...protocol.node_ids import NO_NODE
from ...protocol.schema import Request, ResponseT
from ...storage.files.failures import LogDirectoryFailure
from ..config.endpoint import Endpoint
from ..partitions.cordoning import CORDONED_KEY
from ..runtime.sliced_work import in_slices
from .active_controller import ActiveController, EndpointOf
from .commits import Commits, snapshot_commits
from .controller_request import ClientFields, Submit
from .image_publishing import ImagePublisher, ImagePublishing
from .known_leader import KnownLeader, QuorumLeader
from .metadata_log import Loaded, QuorumLog, flush_on
from .metadata_opening import open_log
from .metadata_snapshots import SnapshotId
from .quorum_membership import QuorumMembership
from .quorum_voters import QuorumVoters
from .single_voter_start import leaving, take_over
from .snapshotting import Snapshotting

if TYPE_CHECKING:
    from ...client.peers import Peers
    from ...protocol.schema import ResponseCallback
    from ...replication.controller.controller import Controller
    from ...storage.directory import LogDirectory
    from ..access.subsystem import AccessSubsystem
    from ..network.call import Call
    from ..runtime.lazy import Lazy
    from ..runtime.node import Node
    from .raft import QuorumRaft
    from .registration import Registration

log = logging.getLogger("odradek.quorum")


class OtherNodes(NamedTuple):
    """The other nodes of the cluster, as the driver reaches them.

    `forward` has the active controller of another node decide a request. `register_controller` starts to register this
    controller with the quorum; it is called once, on a node that is one of several.
    """

    peers: Lazy[Peers]
    forward: Submit
    register_controller: Callable[[], None]


class QuorumDriver:
    """The controller's interface for the rest of the broker.

    A request is decided here where this node is the active controller, else forwarded to it. Its callback comes once the
    records of the decision are committed and published here, in the order of the requests.

    `access` has the authorizer, a user's own policies and the quotas of what clients ask of the controller. `endpoint_of`:
    finds the endpoint of a request.
    """

    def __init__(
        self,
        node: Node,
        registration: Registration,
        others: OtherNodes,
        access: AccessSubsystem,
        publisher: ImagePublisher,
        endpoint_of: EndpointOf,
    ) -> None:
        #: The epoch of this broker's registration. It shows that a request comes from this incarnation of the broker.
        self.broker_epoch = -1
        self._node = node
        self._config = node.config
        self._clock = node.clock
        self._registration = registration
        self._others = others
        self._known_leader = KnownLeader(node.clock.now_ms)
        #: Called when the leader (or none) or the epoch of the quorum changes, and when this node becomes active.
        self.on_leader_changed = self._known_leader.on_changed
        self.leaderless = self._known_leader.leaderless
        self._member = member = QuorumMembership(
            node,
            registration,
            others.peers,
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
        self._active = ActiveController(
            node,
            access,
            member,
            images,
            endpoint_of,
            activated=self._quorum_changed,
            failed=self._fail,
        )
        self._snapshots: Snapshotting | None = None

    # State for other modules.

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

    # Start and stop.

    async def start(self, directories: Sequence[LogDirectory]) -> None:
        """Opens the metadata log. A single voter becomes leader, registers this broker and publishes the result. Any
        other node joins the quorum, which takes time: see `caught_up`.

        `directories`: the log directories of the broker, open and formatted. Raises LogDirectoryFailure, MetadataLost,
        InvalidQuorum, OSError, and the errors of damaged batches.
        """
        opened = await in_slices(open_log(self._config, self._clock, directories))
        self._member.opened(opened.log)
        self._snapshots = Snapshotting(
            self._config, self._clock, self._node.pools.disk, opened.log, self._committed_now, self._node.background
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
        self._known_leader.leader = QuorumLeader(self._config.node_id, taken.epoch, True)
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
        # Makes what a crash left behind durable.
        await flush_on(quorum_log, self._node.pools.metadata, quorum_log.end_offset, self._clock.now_ms)
        raft = self._member.join()
        if self._config.is_controller:
            self._others.register_controller()
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

    # Requests.

    def submit(
        self,
        request: Request[ResponseT],
        version: int,
        reply: Callable[[ResponseT], None],
        **client: Unpack[ClientFields],
    ) -> None:
        """Has the active controller, on any node, decide the request. Calls `reply(response)` once, now or later."""
        (self.decide if self.is_alone else self._others.forward)(request, version, reply, **client)

    def decide(self, request: Request, version: int, reply: ResponseCallback, **client: Unpack[ClientFields]) -> None:
        """Decides the request here; NOT_CONTROLLER where another controller is active before its records are committed."""
        self._active.decide(request, version, reply, **client)

    def quorum_request(self, token: Call, request: Request) -> None:
        """Handles a request of the quorum's own protocol. `token.reply(response)` is called once."""
        self._member.joined().request(token, request)

    def _report_cordoning(self, names: frozenset[str]) -> None:
        """Reports a change of the cordoned directories to a single voter, which places replicas by them; in a cluster the
        broker's lifecycle does. The change is reported while it is being published.
        """

        def send() -> None:
            heartbeat = self._registration.heartbeat(self.broker_epoch, self.controller.next_offset - 1)
            self.submit(heartbeat, heartbeat.newest_version(), lambda response: None)

        if CORDONED_KEY in names and self.is_active and self.is_alone:
            asyncio.get_running_loop().call_soon(send)

    # Events of the parts.

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
        self._known_leader.note(QuorumLeader(replica.role.leader_id, replica.epoch, self.is_active))

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
        if self._node.halt.halt(failure):
            self._member.halt()
            self._active.resign()
