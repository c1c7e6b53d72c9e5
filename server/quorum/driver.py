"""Drives the controller and publishes what the quorum commits to this broker.

The active controller decides a request immediately, appends and replays its records, and then waits until the quorum
has committed them (`single_voter.py` for a quorum of one, `raft.py` for others). Every node publishes committed
records here. Then the replies are sent, in the order of the requests: a client that has its response can read what it
requested, also after a crash. Reads wait as well, until everything that their decision saw is committed.

A node that is not the active controller forwards requests to it. A node that lost leadership fails the waiting requests
and discards its controller.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Unpack

from ...metadata.delta import MetadataDelta
from ...metadata.image import MetadataImage
from ...metadata.transactions import MetadataTransactions
from ...protocol.schema import Message
from ...replication.controller.controller import Controller
from ...storage.files.open_files import LogDirectoryFailure
from ..network.endpoint import Endpoint
from ..runtime.halting import cannot_begin, unusable
from ..runtime.sliced_work import SlicedWork, in_slices, without_gc
from .commits import Appended, Commits, replay_decision, snapshot_commits
from .known_leader import NOBODY, KnownLeader, Leader
from .log_room import admitted
from .metadata_batches import QuorumVoters
from .metadata_log import QuorumLog
from .pending_replies import ClientFields, Reply, WaitingReplies, failed_here, not_controller
from .single_voter import LoneVoter, leaving, tell_of_cordoning
from .snapshotting import Snapshotting
from .startup import activation, new_controller, open_log, take_over

if TYPE_CHECKING:
    from ...storage.directory import LogDirectory
    from ..node import Node
    from ..publisher import Publisher
    from .raft import QuorumRaft
    from .registration import Registration
    from .replicated_log import ReplicatedQuorumLog

log = logging.getLogger("odradek.quorum")


class QuorumDriver:
    """The controller's interface for the rest of the broker. See docs/architecture.md."""

    def __init__(self, broker: Node, registration: Registration, publisher: Publisher) -> None:
        self._broker = broker
        self._registration = registration
        self._publisher = publisher
        #: The epoch of this broker's registration. It shows that a request comes from this incarnation of the broker.
        self.broker_epoch = -1
        #: Called when the leader (or none) or the epoch of the quorum changes, and when this node becomes active.
        self._known_leader = KnownLeader(broker.now_ms)
        self.on_leader_changed = self._known_leader.on_changed
        #: Starts to register this controller with the quorum. Called once, on a node that is one of several.
        self.register_controller: Callable[[], None] = lambda: None
        self.leaderless = self._known_leader.leaderless
        #: Done when this node has published everything that was committed when it joined the quorum.
        self.caught_up: asyncio.Future[None]
        self._waiting = WaitingReplies()
        self._flushing = ThreadPoolExecutor(1, "metadata-flush")
        self._is_active = False
        self._active_epoch = 0
        self._epoch_start = 0
        self._publishes = True
        self._publishing = SlicedWork(self._publishing_failed)
        #: For a fetched snapshot, and for the state that a new controller loads.
        self._loading = SlicedWork(lambda failure: self._fail(unusable("a snapshot", failure)))
        self._learning = SlicedWork(lambda failure: self._fail(cannot_begin(failure)))
        #: Everything below this offset is published; -1 before the first image.
        self._published_offset = -1
        self._unpublished = False
        self._controller: Controller | None = None
        self._log: QuorumLog | None = None
        self._commits: Commits
        self._snapshots: Snapshotting | None = None
        self._alone: LoneVoter | None = None
        self._raft: QuorumRaft | None = None

    # ---- state for other modules

    @property
    def controller(self) -> Controller:
        assert self._controller is not None, "this node is not the active controller"
        return self._controller

    @property
    def is_active(self) -> bool:
        return self._is_active

    @property
    def is_alone(self) -> bool:
        """True while no other node has taken part in the quorum."""
        return self._raft is None

    @property
    def epoch(self) -> int:
        """The leader's epoch as this node knows it. It rises with each election and with each start of a single voter."""
        return self._raft.replica.epoch if self._raft is not None else self._active_epoch

    @property
    def leader_id(self) -> int:
        return self._known_leader.leader.id

    @property
    def leader_endpoint(self) -> Endpoint | None:
        """The endpoint at which the active controller listens for the quorum; None when it is not known."""
        if self._raft is None or self.leader_id == NOBODY:
            return None
        return self._raft.endpoints.find(self.leader_id)

    @property
    def high_watermark(self) -> int:
        """Everything below this offset is committed and replayed here."""
        return self._commits.offset if self._log is not None else 0

    @property
    def quorum_log(self) -> QuorumLog:
        assert self._log is not None, "the controller has not been started"
        return self._log

    @property
    def raft(self) -> QuorumRaft | None:
        """The Raft driver; None while this node is the only one in the quorum."""
        return self._raft

    @property
    def kraft_version(self) -> int:
        """The KRaft version of the metadata log: with version 1 the log contains its voters (KIP-853)."""
        return self._raft.replica.kraft_version if self._raft is not None else self.quorum_log.quorum.kraft_version

    def kraft_upgrade_refusal(self, version: int) -> str | None:
        """Returns why this node, the leader, cannot raise the KRaft version to `version` now; None when it can."""
        return self._is_joined().replica.kraft_upgrade_refusal(version)

    # ---- start and stop

    async def start(self, directories: Sequence[LogDirectory]) -> None:
        """Opens the metadata log. A single voter becomes leader, registers this broker and publishes the result. Any
        other node joins the quorum, which takes time: see `caught_up`.

        `directories`: the log directories of the broker, open and formatted. Raises LogDirectoryFailure, MetadataLost,
        InvalidQuorum, OSError, and the errors of damaged batches.
        """
        self.caught_up = asyncio.get_running_loop().create_future()
        opened = await in_slices(open_log(self._broker, directories))
        self._log = opened.log
        self._snapshots = Snapshotting(self._broker, opened.log, self._committed_now)
        if opened.loaded is None:
            await self._start_among_others()
        else:
            taken = take_over(self._broker, self._registration, opened.log, opened.loaded)
            self._controller, self.broker_epoch = taken.controller, taken.broker_epoch
            # No client is served yet, so the first flush may block the event loop.
            opened.log.flush(self._broker.now_ms())
            image = taken.controller.image
            self._commits = Commits(opened.log, MetadataDelta(image), image, MetadataTransactions())
            self._alone = LoneVoter(opened.log, self._broker.now_ms, self._flushing, self._advance, self._fail)
            self._epoch_start, self._active_epoch, self._is_active = taken.epoch_start_offset, taken.epoch, True
            self._known_leader.leader = Leader(self._broker.node_id, taken.epoch, True)
            log.info("this node is the active controller in epoch %d", taken.epoch)
            self._publisher.publish(taken.delta, image)
            self._published(image)
        self._broker.config.subscribe(lambda names: tell_of_cordoning(self._broker, self._registration, names))
        self._snapshots.start()

    async def _start_among_others(self) -> None:
        broker, quorum_log = self._broker, self.quorum_log
        loaded = await in_slices(quorum_log.load_snapshot(broker.now_ms()))
        self._commits = snapshot_commits(quorum_log, loaded)
        self._unpublished = True
        quorum_log.flush(broker.now_ms())  # makes what a crash left behind durable
        self._raft, replicated = self._join(None)
        replicated.synced_offset = quorum_log.end_offset
        if broker.config.is_controller:
            self.register_controller()
        self._raft.begin()

    def _is_joined(self) -> QuorumRaft:
        """Returns the Raft driver. A single voter switches to a replica that communicates with other nodes."""
        if self._raft is None:
            assert self._alone is not None
            self._alone.retire()
            self._alone = None
            self._raft, replicated = self._join(self._epoch_start)
            replicated.synced_offset = self._commits.offset
            self._raft.is_synced(self._commits.offset)
            if self.quorum_log.end_offset > self._commits.offset:
                self._raft.appended()
        return self._raft

    def _join(self, leads_from: int | None) -> tuple[QuorumRaft, ReplicatedQuorumLog]:
        from .joining import join, monotonic_clock

        clock = monotonic_clock(self._broker)
        raft, replicated = join(self._broker, self.quorum_log, clock, self._flushing, leads_from=leads_from)
        raft.changed, raft.failed, replicated.on_adopted = self._quorum_changed, self._fail, self._commits.replaced
        return raft, replicated

    async def stop(self) -> None:
        """Stops the controller and closes the log. A single broker fences itself first; a leader of several steps down."""
        if self._is_active and self._alone is not None and self._raft is None:
            await self._leave_alone()
        if self._raft is not None:
            await self._raft.leave()
            await self._raft.closed()
        self._is_active = False
        for work in (self._publishing, self._loading, self._learning):
            work.stop()
        if self._snapshots is not None:
            await self._snapshots.stop()
        if self._log is not None:
            try:
                self._log.close(self._broker.now_ms())
            except LogDirectoryFailure as failure:
                log.error("closing the metadata log: %s", failure)
        self._flushing.shutdown()

    async def _leave_alone(self) -> None:
        # The remaining records matter only to the next node that opens the log. This node's partitions close anyway.
        self._publishes = False
        try:
            if self._broker.config.is_broker:
                for result in leaving(self._registration, self.broker_epoch, self.controller):
                    self._append(result.records, result.atomic)
        except LogDirectoryFailure as failure:
            self._fail(failure)
        await self.settled()

    async def settled(self) -> None:
        """Waits until everything that a single voter has appended is committed, or the disk has failed."""
        if self._alone is not None:
            await self._alone.settled()

    # ---- requests

    def submit(self, request: Message, version: int, reply: Reply, **client: Unpack[ClientFields]) -> None:
        """Has the active controller, here or elsewhere, decide the request. Calls `reply(response)` once, now or later."""
        if self._raft is None:
            self.decide(request, version, reply, **client)
        else:
            self._broker.forwarding().submit(request, version, reply, **client)

    def decide(self, request: Message, version: int, reply: Reply, **client: Unpack[ClientFields]) -> None:
        """Decides the request here; NOT_CONTROLLER where another controller is active before its records are committed."""
        if not self._is_active or not (self._raft is None or self._raft.replica.is_leader):
            reply(not_controller(request))
            return
        controller = self.controller
        if controller.next_offset != self.quorum_log.end_offset:  # the quorum has appended records of its own
            controller.load(controller.image, self.quorum_log.end_offset, self.kraft_version)
        try:
            result = admitted(self._broker, request, controller.handle(request, version))
            self._append(result.records, result.atomic)
        except LogDirectoryFailure as failure:
            self._fail(failure)
            reply(not_controller(request))
            return
        except Exception:
            log.exception("a bug: the controller failed in %s", type(request).__name__)
            reply(failed_here(request))
            return
        if result.kraft_version:
            self._is_joined().raise_kraft_version(result.kraft_version)
            controller.load(controller.image, self.quorum_log.end_offset, self.kraft_version)
        offset = controller.next_offset
        if offset <= self._published_offset:
            reply(result.response)
        else:
            self._waiting.add(offset, request, reply, result.response)

    def _append(self, records: Sequence[Message], atomic: bool) -> None:
        if not records:
            return
        controller, now_ms, base_offset = self.controller, self._broker.now_ms(), self.quorum_log.end_offset
        metadata_version = controller.image.features.metadata_version
        batches = self.quorum_log.encoded(records, self.epoch, now_ms, metadata_version, atomic)
        replay_decision(controller, records, self.epoch, now_ms, self.kraft_version)
        self.quorum_log.append_batches(batches, now_ms)
        assert self.quorum_log.end_offset == controller.next_offset, "the log and the controller count the same records"
        self._commits.appended(Appended(base_offset, controller.next_offset, records, self.epoch, now_ms))
        if self._raft is not None:
            self._raft.appended()
        elif self._alone is not None:
            self._alone.appended()

    def quorum_request(self, token: Any, request: Message) -> None:
        """Handles a request of the quorum's own protocol. `token.reply(response)` is called once."""
        self._is_joined().request(token, request)

    # ---- commits

    def _advance(self, end_offset: int) -> None:
        """Replays everything below `end_offset`, which is committed, and publishes it."""
        try:
            if self._commits.advance(end_offset):
                self._unpublished = True
        except Exception as error:
            self._fail(unusable(f"the metadata log from offset {self._commits.offset} on", error))
            return
        self._publish()

    def _publish(self) -> None:
        """Publishes what is committed, unless an earlier image is still being published."""
        if self._unpublished and not self._publishing.is_busy and self._may_publish():
            self._unpublished = False
            delta, image = self._commits.take()
            steps = self._publisher.steps(delta, image) if self._publishes else iter(())
            self._publishing.begin(steps, lambda: self._published(image))

    def _may_publish(self) -> bool:
        """Returns whether the image is recent. By an old one the broker would assume roles that others have taken over."""
        if self._commits.is_replaced:
            return False
        return self._published_offset >= 0 or self._raft is None or self._raft.is_caught_up_with_leader

    def _publishing_failed(self, failure: Exception) -> None:
        """Handles a failed publication. The publisher isolates failing subscribers; a failure here is a first image
        that cannot be served, or a bug.
        """
        if not self.caught_up.done():
            self._fail(unusable("the first image", failure))
        else:
            log.error("a bug: an image was not published", exc_info=failure)
            self._unpublished = True

    def _published(self, image: MetadataImage) -> None:
        self._published_offset = image.offset + 1
        if not self.caught_up.done():
            self.caught_up.set_result(None)
        self._waiting.published(self._published_offset)
        if self._snapshots is not None:
            self._snapshots.grown()
        self._publish()

    def _committed_now(self) -> tuple[MetadataImage, QuorumVoters] | None:
        if self._commits.in_transaction or self._commits.is_replaced:
            return None
        image = self._commits.image()
        return image, self.quorum_log.quorum if self._raft is None else self._raft.voters_at(image.offset + 1)

    def _fail(self, failure: Exception) -> None:
        """Halts the broker: without its log a controller cannot decide. Waiting and new requests fail."""
        if self._broker.halt(failure):
            if self._raft is not None:
                self._raft.close()
            self._resign()

    # ---- leadership

    def _quorum_changed(self) -> None:
        assert self._raft is not None
        replica = self._raft.replica
        if self._is_active and not (replica.is_leader and replica.epoch == self._active_epoch):
            self._resign()
        if self._commits.is_replaced and not self._loading.is_busy:
            self._loading.begin(without_gc(self._commits.load()), self._loaded)
        self._advance(replica.high_watermark)
        if not self._is_active and self._may_activate() and not self._learning.is_busy:
            self._learn()
        self._known_leader.note(Leader(replica.role.leader_id, replica.epoch, self._is_active))

    def _may_activate(self) -> bool:
        """Returns whether this node leads and has committed its own first record and everything before it."""
        raft = self._raft
        assert raft is not None
        leads = raft.replica.is_leader and raft.is_caught_up_with_leader
        return leads and self._commits.offset == self.quorum_log.end_offset

    def _loaded(self) -> None:
        """Publishes a loaded snapshot even if no records follow it."""
        self._unpublished = True
        self._quorum_changed()

    def _learn(self) -> None:
        controller = new_controller(self._broker)
        self._learning.begin(controller.learn(self._commits.image()), lambda: self._activate(controller))

    def _activate(self, controller: Controller) -> None:
        """Activates the controller with the committed image, unless leadership was lost, and writes its first records."""
        if not self._may_activate():
            return
        self._controller = controller
        controller.load(self._commits.image(), self.quorum_log.end_offset, self.kraft_version)
        self._is_active, self._active_epoch = True, self.epoch
        records = activation(self._broker, controller, transaction_open=self._commits.in_transaction)
        self._append(records, atomic=True)
        self._quorum_changed()

    def _resign(self) -> None:
        self._is_active, self._controller = False, None
        self._commits.forget_appended()
        self._waiting.refuse()
