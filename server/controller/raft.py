"""Drives a replica of the quorum (`replication/quorum/`): its log on the disk, its effects and its requests.

- `ReplicatedQuorumLog`: the metadata log and its snapshots, as the replica reads and writes them.
- `QuorumRaft`: carries out the effects of the replica in order, and runs its timer and flushes.
- `QuorumEndpoints`: finds the endpoints of the quorum's nodes.
- `QuorumSender`: sends the requests of the quorum to them.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Union, cast

from ...client.probes import is_gone
from ...protocol.codec import MalformedMessage
from ...protocol.errors import ErrorCode
from ...protocol.messages import fetch
from ...protocol.messages.fetch import FetchResponse
from ...protocol.messages.quorum import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    LeaderEndpoint,
    NodeEndpoint,
    VoteResponse,
)
from ...protocol.records.batch import BatchHeader, check_crc, iter_headers
from ...protocol.records.control import ControlRecord, decode_control
from ...protocol.records.errors import BatchError, InvalidBatch
from ...protocol.records.record import decode_batch
from ...protocol.schema import Message
from ...replication.quorum import wire
from ...replication.quorum.log import (
    Appended,
    ControlAt,
    Effect,
    ElectionState,
    EpochEnd,
    Flush,
    Input,
    LeaderGone,
    PeerRequest,
    PeerResponse,
    RaiseKRaftVersion,
    Reply,
    Resign,
    Send,
    SnapshotId,
    Synced,
    WriteState,
)
from ...replication.quorum.replica import QuorumReplica
from ...replication.quorum.roles import Follower, Leader, Resigned
from ...replication.quorum.voters import Address, ReplicaKey, Voter, VoterSet
from ...storage.files.identity import QuorumState, write_quorum_state
from ...storage.files.open_files import LogDirectoryFailure, open_fd, open_for_reading, sync_directory, write_fully
from ..config.listeners import Endpoint
from ..runtime.counters import BackgroundTasks
from ..runtime.halting import cause_of
from ..runtime.subsystem import Lazy
from .metadata_log import FLUSH_RETRY_S, FLUSH_TASK, READ_ONLY, QuorumLog, QuorumVoters, control_batches, partial_path
from .metadata_log import SnapshotId as SnapshotFile

if TYPE_CHECKING:
    from ...client.peers import Peers
    from ...protocol.checksum import Buffer
    from ..config.broker_config import BrokerConfig
    from ..runtime.thread_pools import ThreadPool


# ---- the log of the replica
#
# Presents the metadata log and its snapshots to a replica of the quorum: `replication/quorum/log.py` on a disk.


quorum_log = logging.getLogger("odradek.damage")

_READ_BYTES = 1 << 20
#: The time since an event that has not happened.
_NEVER_MS = 1 << 62
#: The minimum time between two log lines about damage, since many followers repeat their requests.
_QUIET_MS = 60_000
#: A fetched snapshot is synced in parts of this size. One sync at the end would block the event loop for all of it.
_SYNC_BYTES = 4 << 20


class ReplicatedQuorumLog:
    """The metadata log as the quorum's replica has it. `adopted` is called with each snapshot that has replaced the log."""

    def __init__(
        self,
        quorum_log: QuorumLog,
        now_ms: Callable[[], int],
        adopted: Callable[[SnapshotFile], None] = lambda snapshot: None,
    ) -> None:
        self._quorum_log = quorum_log
        self._adopted = adopted
        self._log = quorum_log.log
        self._now_ms = now_ms
        #: The time of the last log line about damage.
        self._said_ms = -_QUIET_MS
        #: The smallest end offset since a flush began. The flush does not cover the current records above it.
        self.lowest_end = self._log.log_end_offset
        #: Everything below this offset is durable on the disk.
        self.synced_offset = 0

    # ---- start and end

    @property
    def start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def end_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def last_epoch(self) -> int:
        latest = self._log.epochs.latest
        newest = self.latest_snapshot
        return max(latest, newest.epoch if newest is not None else 0, 0)

    @property
    def earliest_snapshot(self) -> SnapshotId | None:
        return SnapshotId(*self._quorum_log.snapshots[0]) if self._quorum_log.snapshots else None

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        return SnapshotId(*self._quorum_log.snapshots[-1]) if self._quorum_log.snapshots else None

    def end_offset_for(self, epoch: int) -> EpochEnd:
        entries = self._log.epochs.entries()
        known = [number for number, (started, _) in enumerate(entries) if started <= epoch]
        if known:
            last = known[-1]
            end = entries[last + 1][1] if last + 1 < len(entries) else self.end_offset
            return EpochEnd(entries[last][0], end)
        oldest = self.earliest_snapshot
        if oldest is not None and oldest.epoch <= epoch and oldest.end_offset == self.start_offset:
            return EpochEnd(oldest.epoch, self.start_offset)
        return EpochEnd(epoch, self.start_offset)

    # ---- records

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Reads batches. Raises BatchError where the log is damaged, and logs the damage at most once in a while."""
        try:
            found = self._log.read(offset, max_bytes).bytes()
            for position, header in iter_headers(found):
                check_crc(found, position, header)
            return found
        except BatchError as damage:
            now_ms = self._now_ms()
            if now_ms - self._said_ms >= _QUIET_MS:
                self._said_ms = now_ms
                quorum_log.error(
                    "%s: the metadata log is damaged at offset %d or above, and other nodes get a snapshot instead: %s",
                    self._log.path, offset, damage,
                )  # fmt: skip
            newest = self.latest_snapshot
            if newest is None or newest.end_offset <= offset:
                self._quorum_log.on_uncovered_damage()
            raise

    def append_control(self, records: Sequence[ControlRecord], epoch: int, now_ms: int) -> None:
        self._quorum_log.append_control(records, epoch, now_ms)

    def append_fetched(self, records: Buffer) -> Sequence[ControlAt]:
        """Appends fetched batches. A batch truncated at the end of the response is fetched again. Raises BatchError and
        appends nothing where the batches cannot be read or do not continue at the end of the log.
        """
        data, end, offset = bytes(records), 0, self.end_offset
        for position, header in iter_headers(data):
            check_crc(data, position, header)
            if header.base_offset != offset or header.next_offset <= offset:
                raise InvalidBatch(f"a batch of offsets {header.base_offset} to {header.next_offset - 1} at {offset}")
            end, offset = position + header.size, header.next_offset
        if not end:
            return ()
        controls = list(_controls(data[:end]))  # first: an unreadable record must not enter the log
        self._quorum_log.append_batches(data[:end], self._now_ms())
        return controls

    def truncate(self, end_offset: int) -> None:
        self._quorum_log.truncate(end_offset, self._now_ms())
        self.lowest_end = min(self.lowest_end, end_offset)
        self.synced_offset = min(self.synced_offset, end_offset)

    def controls(self, offset: int) -> Iterator[ControlAt]:
        """Yields the control records from `offset` on."""
        while offset < self.end_offset:
            found = self._log.read(offset, _READ_BYTES)
            yield from _controls(found.bytes())
            offset = found.next_offset

    # ---- snapshots

    def read_snapshot(self, snapshot: SnapshotId, position: int, max_bytes: int) -> tuple[int, bytes] | None:
        try:
            with open_for_reading(self._path(snapshot)) as file:
                size = os.fstat(file.fileno()).st_size
                if not 0 <= position < size:
                    return size, b""
                file.seek(position)
                return size, file.read(max_bytes)
        except FileNotFoundError:
            return None

    def write_snapshot(self, snapshot: SnapshotId, position: int, data: Buffer) -> int:
        try:
            return self._write_part(snapshot, position, data)
        except OSError as error:
            raise self._failed("writing a snapshot", error) from error

    def _write_part(self, snapshot: SnapshotId, position: int, data: Buffer) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | (os.O_TRUNC if position == 0 else 0)
        fd = open_fd(partial_path(self._path(snapshot)), flags, 0o600)
        try:
            write_fully(fd, bytes(data), position)
            end = position + len(data)
            if position // _SYNC_BYTES < end // _SYNC_BYTES:
                os.fdatasync(fd)
        finally:
            os.close(fd)
        return end

    def adopt_snapshot(self, snapshot: SnapshotId) -> Sequence[ControlAt]:
        try:
            return self._adopt(snapshot)
        except OSError as error:
            raise self._failed("adopting a snapshot", error) from error

    def _failed(self, doing: str, error: OSError) -> LogDirectoryFailure:
        return LogDirectoryFailure(str(self._quorum_log.directory.parent), doing, error)

    def _adopt(self, snapshot: SnapshotId) -> Sequence[ControlAt]:
        path = self._path(snapshot)
        partial = partial_path(path)
        controls = [ControlAt(snapshot.end_offset - 1, control.record) for control in self._controls_of(partial)]
        fd = open_fd(partial, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fchmod(fd, READ_ONLY)
            os.fsync(fd)
        finally:
            os.close(fd)
        partial.replace(path)
        sync_directory(str(path.parent))
        self._quorum_log.replaced_by(SnapshotFile(*snapshot), self._now_ms())
        self.lowest_end, self.synced_offset = 0, snapshot.end_offset
        self._adopted(SnapshotFile(*snapshot))
        return controls

    def snapshot_controls(self) -> Sequence[ControlAt]:
        """Returns the control records of the newest snapshot, at the last offset that it contains."""
        newest = self.latest_snapshot
        if newest is None:
            return ()
        return [ControlAt(newest.end_offset - 1, control.record) for control in self._controls_of(self._path(newest))]

    def _controls_of(self, path: Path) -> Iterator[ControlAt]:
        for batch in control_batches(path):
            yield from _controls(batch)

    def _path(self, snapshot: SnapshotId) -> Path:
        return self._quorum_log.directory / SnapshotFile(*snapshot).file_name


def _controls(data: bytes) -> Iterator[ControlAt]:
    for position, header in iter_headers(data):
        if header.is_control:
            yield from _controls_in(data, position, header)


def _controls_in(data: bytes, position: int, header: BatchHeader) -> Iterator[ControlAt]:
    for record in decode_batch(data, position, header):
        control = decode_control(record.key, record.value)
        if control is not None:
            yield ControlAt(record.offset, control)


# ---- effects, timer and flushes

log = logging.getLogger("odradek.quorum")


class PeerCall(Protocol):
    """The request of another node; a `Call` is one."""

    def reply(self, response: Message, /) -> None: ...

    def fail(self) -> None: ...


_Outgoing = Union[Send, Reply]
#: Time for the other voters to learn that this leader steps down; otherwise they wait for their fetch timeout.
_RESIGNATION_S = 1.0
#: Delay before a timer that failed by a bug is retried. An immediate retry would fail in an endless loop and block all
#: other work.
_AFTER_A_BUG_S = 0.1


class QuorumRaft:
    """Drives the quorum's replica.

    `changed` is called after everything that may have moved the high watermark or the leader. `failed` is called for what
    halts the node (`runtime/halting.py`): a failing disk or a contradictory state. `background` takes failures of flushes.

    A message from another node can only fail its own request: see `_handle`.

    `WriteState` is synced immediately, since no message may be sent before it; several in a row become one write. A
    Send or Reply that depends on this node's log waits for the flush that makes the log durable. One thread flushes;
    records appended during a flush share the next one.
    """

    def __init__(
        self,
        quorum_log: QuorumLog,
        replicated: ReplicatedQuorumLog,
        replica: QuorumReplica,
        endpoints: QuorumEndpoints,
        sender: QuorumSender,
        clock: Callable[[], int],
        flushing: ThreadPool,
        background: BackgroundTasks,
        changed: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self.replica = replica
        #: The log as the replica has it.
        self.replicated = replicated
        self.endpoints = endpoints
        self._changed = changed
        self._failed = failed
        self._background = background
        #: The leader's high watermark in its last response in this epoch; -1 while the leader does not know it.
        self.leader_high_watermark = -1
        self.last_fetched_ms = -1
        #: The epoch that it is of.
        self._known_in = replica.epoch
        self._quorum_log = quorum_log
        self._sender = sender
        sender.on_connection_lost = self._connection_lost
        self._clock = clock
        self._flushing_thread = flushing
        self._held: list[_Outgoing] = []
        self._flushing: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._is_settling = False
        self._resigned: asyncio.Future[None] | None = None
        self._probing: asyncio.Task[None] | None = None

    # ---- the engine of commits

    @property
    def epoch(self) -> int:
        return self.replica.epoch

    @property
    def kraft_version(self) -> int:
        return self.replica.kraft_version

    @property
    def leads(self) -> bool:
        return self.replica.is_leader

    async def until_idle(self) -> None:
        """Nothing: the other voters decide what is committed."""

    def halt(self) -> None:
        self.close()

    # ---- input

    def request(self, token: PeerCall, request: Message) -> None:
        """Handles a request; `token.reply(response)` is called once, immediately or later."""
        self.endpoints.learn_leader(request, self.replica.epoch)
        self._handle(PeerRequest(token, request), lambda: reject_token(token))

    def appended(self) -> None:
        """Handles records that this node's controller, the leader, has appended to the log."""
        self._handle(Appended(self.replica.epoch, self.replicated.end_offset))

    def voters_at(self, end_offset: int) -> QuorumVoters:
        """Returns the voters and the KRaft version in the log below that offset."""
        voters, kraft_version = self.replica.voters.at(end_offset)
        return QuorumVoters(kraft_version, voters.to_record().voters)

    def raise_kraft_version(self, version: int) -> None:
        """Raises the KRaft version. The replica must lead and must have accepted the version."""
        self._handle(RaiseKRaftVersion(version))

    def resign(self) -> None:
        self._handle(Resign())

    def begin(self) -> None:
        """Carries out the effects of the replica's creation."""
        self._settle()

    def _answered(self, send: Send, response: Message | None) -> None:
        if response is not None:
            self.endpoints.learn(response)
            if isinstance(response, FetchResponse):
                self._note_high_watermark(response)
        self._handle(PeerResponse(send.node, send.correlation, response))

    def _note_high_watermark(self, response: FetchResponse) -> None:
        partition = wire.response_of(response)
        if partition is not None and partition.error_code == ErrorCode.NONE:
            self.leader_high_watermark = partition.high_watermark
            self.last_fetched_ms = self._clock()

    def ms_since_fetch(self) -> int:
        """Returns the time since the leader's last response, without end before the first."""
        return _NEVER_MS if self.last_fetched_ms < 0 else self._clock() - self.last_fetched_ms

    def _expire(self) -> None:
        if not self._is_closed:
            self._guard("a timer", lambda: self.replica.expire(self._clock()))

    def _handle(self, message: Input, reject: Callable[[], None] = lambda: None) -> None:
        """Handles an input. `refuse` fails the request behind the input when it cannot be handled."""
        if not self._is_closed:
            self._guard(type(message).__name__, lambda: self.replica.handle(message, self._clock()), reject)

    def _guard(self, what: str, step: Callable[[], None], reject: Callable[[], None] = lambda: None) -> None:
        """Runs one step. An error that halts the node stops the replica: it neither sends nor does anything more. Any
        other error only ends the input that caused it. The effects produced before the error are carried out, so that
        the disk matches the replica.
        """
        least_s = 0.0
        try:
            try:
                step()
            except (BatchError, MalformedMessage) as error:
                log.warning("%s was rejected: %s", what, error)
                reject()
            except Exception as failure:
                if cause_of(failure) is not None:
                    raise
                log.exception("a bug: %s failed in the quorum", what)
                least_s = _AFTER_A_BUG_S
                reject()
            self._settle(least_s)
        except Exception as failure:
            if cause_of(failure) is None:
                log.exception("a bug: the effects of %s failed in the quorum", what)
                self._arm(_AFTER_A_BUG_S)
                return
            self.close()
            self._failed(failure)

    # ---- output

    def _settle(self, least_s: float = 0.0) -> None:
        if self._is_settling:
            return  # called from an effect: the outer call carries out the new effects
        self._is_settling = True
        try:
            while effects := self.replica.take():
                self._carry_out(effects)
            if self.replica.epoch != self._known_in:
                self._known_in, self.leader_high_watermark = self.replica.epoch, -1
        finally:
            self._is_settling = False
        self._arm(least_s)
        self._note_resignation()
        self._changed()

    def _carry_out(self, effects: list[Effect]) -> None:
        state: ElectionState | None = None
        for effect in effects:
            if isinstance(effect, WriteState):
                state = effect.state
                continue
            if state is not None:
                self._write_state(state)
                state = None
            if isinstance(effect, Flush):
                self._flush()
            elif effect.sync_to <= self.replicated.synced_offset:
                self._go(effect)
            else:
                self._held.append(effect)
        if state is not None:
            self._write_state(state)

    def _write_state(self, state: ElectionState) -> None:
        said = QuorumState(state.leader_id, state.leader_epoch, state.voted_id, state.voted_directory_id)
        voters = self.replica.voter_set.ids
        directory = self._quorum_log.directory
        try:
            write_quorum_state(directory, said, self.replica.kraft_version, voters)
        except OSError as error:
            raise LogDirectoryFailure(str(directory.parent), "writing quorum-state", error) from error

    def _go(self, effect: _Outgoing) -> None:
        if isinstance(effect, Reply):
            self.endpoints.tell_of_leader(effect.response, self.replica.role.leader_id)
            token = cast("PeerCall", effect.token)
            token.reply(effect.response)
            return
        self._sender.send(effect, self._answered)

    def _connection_lost(self, endpoint: Endpoint) -> None:
        """Checks whether the leader's process died: its host then refuses connections immediately, and the follower
        need not wait for the fetch timeout.
        """
        role = self.replica.role
        if isinstance(role, Follower) and self.endpoints.find(role.leader_id) == endpoint and not self._is_closed:
            self._probing = asyncio.get_running_loop().create_task(self._find_out(role.leader_id, endpoint))

    async def _find_out(self, leader_id: int, endpoint: Endpoint) -> None:
        if await is_gone([(endpoint.host, endpoint.port)]):
            self._handle(LeaderGone(leader_id))

    def _arm(self, least_s: float = 0.0) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline = self.replica.deadline()
        if deadline is not None and not self._is_closed:
            wait_s = max(least_s, (deadline - self._clock()) / 1000)
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._expire)

    # ---- the disk

    def _flush(self) -> None:
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().create_task(self._flush_all())

    async def _flush_all(self) -> None:
        """Flushes until everything is synced. The task starts in the next turn of the event loop, so one flush covers
        all appends of this turn.
        """
        replicated = self.replicated
        try:
            while not self._is_closed and replicated.synced_offset < replicated.end_offset:
                end = replicated.lowest_end = replicated.end_offset
                flush = self._quorum_log.prepare_flush()
                if flush is not None:
                    await self._flushing_thread.run(flush.run)
                    self._quorum_log.flushed(flush, self._clock())
                self.is_synced(min(end, replicated.lowest_end))
            self._background.succeeded(FLUSH_TASK)
        except LogDirectoryFailure as failure:
            self.close()
            self._failed(failure)
        except Exception as failure:
            self._background.failed(FLUSH_TASK, failure)
            asyncio.get_running_loop().call_later(FLUSH_RETRY_S, self._flush)
        finally:
            self._flushing = None

    def is_synced(self, end_offset: int) -> None:
        self.replicated.synced_offset = end_offset
        held, self._held = self._held, []
        self._handle(Synced(end_offset))
        for effect in held:
            if effect.sync_to <= self.replicated.synced_offset:
                self._go(effect)
            else:
                self._held.append(effect)

    # ---- shutdown

    async def leave(self) -> None:
        """Makes a leader step down and waits briefly until the other voters know. Ends the last flush."""
        await self._step_down()
        self.close()
        if self._flushing is not None:
            await asyncio.wait([self._flushing])

    async def _step_down(self) -> None:
        if isinstance(self.replica.role, Leader) and len(self.replica.voter_set.voters) > 1:
            self._resigned = asyncio.get_running_loop().create_future()
            self.resign()
            await asyncio.wait([self._resigned], timeout=_RESIGNATION_S)

    def _note_resignation(self) -> None:
        role = self.replica.role
        is_known = not isinstance(role, Resigned) or not role.unacknowledged
        if is_known and self._resigned is not None and not self._resigned.done():
            self._resigned.set_result(None)

    @property
    def is_caught_up(self) -> bool:
        """True when this node has what is known to be committed; for a follower, the high watermark in the leader's
        last response.
        """
        role = self.replica.role
        if isinstance(role, Leader):
            return role.has_committed
        known = self.leader_high_watermark
        return isinstance(role, Follower) and 0 <= known <= self.replica.high_watermark

    def close(self) -> None:
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._held.clear()


def reject_token(token: PeerCall) -> None:
    """Ends the request of another node. A token is a `Call`."""
    token.fail()


# ---- endpoints and requests

_FIRST_BOOTSTRAP_ID = -2
_FETCH = "quorum-fetch"


def static_voters(config: BrokerConfig) -> VoterSet:
    """Returns the voters in `controller.quorum.voters`: id@host:port, on the first of the controllers' listeners."""
    name = config.get("controller.listener.names")[0].upper()
    return VoterSet.of(_static_voter(text, name) for text in config.get("controller.quorum.voters"))


def _static_voter(text: str, name: str) -> Voter:
    id, _, address = text.strip().partition("@")
    host, port = _host_and_port(address)
    return Voter(ReplicaKey(int(id)), (Address(name, host, port),))


def _host_and_port(text: str) -> tuple[str, int]:
    host, _, port = text.strip().rpartition(":")
    return host.strip("[]"), int(port)


def bootstrap_endpoints(config: BrokerConfig) -> dict[int, Endpoint]:
    """Returns the bootstrap servers by the negative id that stands in for their unknown one."""
    name = config.get("controller.listener.names")[0].upper()
    servers = [_host_and_port(text) for text in config.get("controller.quorum.bootstrap.servers")]
    return {_FIRST_BOOTSTRAP_ID - n: Endpoint(name, host, port) for n, (host, port) in enumerate(servers)}


class QuorumEndpoints:
    """Finds the endpoint of a node. `voters` returns the current voters. `own`: those of this node's controller
    listeners.

    Nodes in the voter set take precedence. After them come `controller.quorum.bootstrap.servers`, which have no ids
    and stand for nodes -2, -3, ..., and the endpoints in other nodes' responses (KIP-853).
    """

    def __init__(
        self,
        node_id: int,
        cluster_id: str,
        voters: Callable[[], VoterSet],
        own: Iterable[Endpoint],
        bootstrap: dict[int, Endpoint],
    ) -> None:
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._voters = voters
        self._own = list(own)
        self._reported: dict[int, Endpoint] = dict(bootstrap)

    def find(self, node_id: int) -> Endpoint | None:
        if node_id == self._node_id and self._own:
            return self._own[0]
        voter = self._voters().voters.get(node_id)
        if voter is not None and voter.addresses:
            return Endpoint(*voter.addresses[0])
        return self._reported.get(node_id)

    def learn_leader(self, request: Message, epoch: int) -> None:
        """Learns the endpoints of a leader that announces itself, or its end, in this epoch or a later one. Otherwise any
        stranger could redirect this node's search for the leader.
        """
        if not isinstance(request, _OF_LEADERS):
            return
        asked = wire.partition_of(request)
        is_ours = request.cluster_id in (None, self._cluster_id)
        if is_ours and asked is not None and asked.leader_epoch >= epoch and asked.leader_id >= 0:
            self.learn(request)

    def learn(self, message: Any) -> None:
        """Learns endpoints from a response, or from the request of a leader, which names the quorum's only partition."""
        for node in getattr(message, "node_endpoints", ()):
            self._reported[node.node_id] = Endpoint("", node.host, node.port)
        for endpoint in getattr(message, "leader_endpoints", ())[:1]:
            partition = message.topics[0].partitions[0]
            self._reported[partition.leader_id] = Endpoint(endpoint.name, endpoint.host, endpoint.port)

    def tell_of_leader(self, response: Any, leader_id: int) -> None:
        """Adds the endpoint of the leader to a response that names the leader."""
        endpoint, kind = self.find(leader_id), _NODE_ENDPOINTS.get(type(response))
        if kind is not None and endpoint is not None and leader_id >= 0:
            response.node_endpoints = [kind(node_id=leader_id, host=endpoint.host, port=endpoint.port)]

    def add_listener_endpoints(self, request: Any) -> None:
        """Adds this leader's own endpoints to a request that announces its epoch."""
        if isinstance(request, _OF_LEADERS):
            request.leader_endpoints = [LeaderEndpoint(name=e.name, host=e.host, port=e.port) for e in self._own]


class QuorumSender:
    """Sends the requests of the replica, over one connection for fetches and one for the rest."""

    def __init__(self, peers: Lazy[Peers], endpoints: QuorumEndpoints, request_timeout_ms: int) -> None:
        #: Called when a node that was fetched from has ended the connection.
        self.on_connection_lost: Callable[[Endpoint], None]
        self._peers = peers
        self._endpoints = endpoints
        self._request_timeout_ms = request_timeout_ms
        #: The endpoints of the leaders fetched from so far.
        self._watched: set[Endpoint] = set()

    def send(self, send: Send, answered: Callable[[Send, Any], None]) -> None:
        """Sends the request. Calls `answered` later with the response, or with None without one."""
        endpoint = Endpoint(*send.address) if send.address is not None else self._endpoints.find(send.node)
        if endpoint is None:
            asyncio.get_running_loop().call_soon(answered, send, None)
            return
        self._endpoints.add_listener_endpoints(send.request)
        # The leader may delay a Fetch, and responses arrive in order.
        purpose = _FETCH if isinstance(send.request, fetch.FetchRequest | FetchSnapshotRequest) else "quorum"
        peers = self._peers()
        if purpose == _FETCH and endpoint not in self._watched:
            self._watched.add(endpoint)
            peers.on_lost(endpoint, lambda: self.on_connection_lost(endpoint), _FETCH)
        peers.send(
            endpoint,
            send.request,
            lambda response: answered(send, response),
            timeout_ms=self._request_timeout_ms,
            purpose=purpose,
        )


_OF_LEADERS = (BeginQuorumEpochRequest, EndQuorumEpochRequest)
_NODE_ENDPOINTS: dict[type[Message], Any] = {
    VoteResponse: NodeEndpoint,
    BeginQuorumEpochResponse: NodeEndpoint,
    EndQuorumEpochResponse: NodeEndpoint,
    fetch.FetchResponse: fetch.NodeEndpoint,
    FetchSnapshotResponse: NodeEndpoint,
}
