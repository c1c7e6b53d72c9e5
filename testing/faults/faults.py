"""`broker.faults`: scripted faults. The first that fits a request strikes it, then the next ones where it lets it pass."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypedDict, Union

from ...protocol.errors import ErrorCode
from .disk import DiskChecks, DiskFull, SlowDisk, WriteMatch
from .effects import Delay, Drop, Fail, Hang, Pause, Throttle, Truncate
from .fault import Fault
from .matching import Match, error_of, keys_of
from .named_values import built

if TYPE_CHECKING:
    from typing import Unpack

    from .effects import Effect
    from .matching import ApiNames, VersionRange

ErrorName = Union[str, int, ErrorCode, None]

#: Requests for the coordinator of a group, and for that of a transaction.
GROUP_APIS = (
    "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch", "ConsumerGroupHeartbeat",
    "ShareGroupHeartbeat", "StreamsGroupHeartbeat", "TxnOffsetCommit",
)  # fmt: skip
TRANSACTION_APIS = ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn")
LEADER_APIS = ("Produce", "Fetch", "ListOffsets", "OffsetForLeaderEpoch", "ShareFetch", "ShareAcknowledge")


class Which(TypedDict, total=False):
    """The requests that a fault strikes: see `matching.Match`. `times`: how many, None for all until it is cancelled."""

    times: int | None
    topic: str | None
    partition: int | None
    client_id: str | None
    group: str | None
    transactional_id: str | None
    version: VersionRange
    nth: int
    node_id: int | None


class WhichWrite(TypedDict, total=False):
    """The writes that a fault of disks strikes. `times`: how many, None for all until it is cancelled."""

    times: int | None
    topic: str | None
    partition: int | None
    nth: int
    node_id: int | None


class Faults:
    """The faults of a broker, or of all brokers of a cluster.

    Each method adds one fault and returns it; its `count` is the number of affected requests. `api` is a name
    ("Produce"), a key, several of them, or None for every request of clients. All methods may be called on any thread,
    before the broker starts too.
    """

    def __init__(self) -> None:
        #: Replaced, never changed: brokers read it without a lock.
        self.active: tuple[Fault, ...] = ()
        self._lock = threading.Lock()
        #: Between the faults and the disks of brokers.
        self.disks = DiskChecks(lambda: self.active)

    def fail(
        self,
        api: ApiNames,
        error: ErrorName | Iterable[ErrorName] = ErrorCode.UNKNOWN_SERVER_ERROR,
        *,
        after: bool = False,
        **which: Unpack[Which],
    ) -> Fault:
        """Returns an error response: by name ("NOT_LEADER_OR_FOLLOWER") or number, or several in turn, None for success.

        `after`: the broker does what was asked, and the client does not learn it. Raises ValueError for an API or an error
        that Kafka does not have.
        """
        if error is None or isinstance(error, str | int):
            errors: tuple[ErrorName, ...] = (error,)
        else:
            errors = tuple(error)
            which.setdefault("times", len(errors))
        codes = tuple(None if one is None else error_of(one) for one in errors)
        return self.add(api, Fail(codes, after), **which)

    def delay(self, api: ApiNames, seconds: float, *, after: bool = False, **which: Unpack[Which]) -> Fault:
        """Delays requests, or with `after` their responses. Each connection keeps its order.

        Raises ValueError for a negative time.
        """
        return self.add(api, Delay(_checked(seconds), after), **which)

    def drop(self, api: ApiNames, *, after: bool = False, **which: Unpack[Which]) -> Fault:
        """Closes the connection instead of a response: before the broker handles the request, or `after` it."""
        return self.add(api, Drop(after), **which)

    def hang(self, api: ApiNames, *, after: bool = False, **which: Unpack[Which]) -> Fault:
        """Sends no response: the client's timeout decides."""
        return self.add(api, Hang(after), **which)

    def truncate(self, api: ApiNames, size: int = -1, **which: Unpack[Which]) -> Fault:
        """Sends the first `size` bytes of the response and closes the connection; -1 leaves out the last byte."""
        return self.add(api, Truncate(size), **which)

    def throttle(self, api: ApiNames, seconds: float, **which: Unpack[Which]) -> Fault:
        """Returns a throttle time, and reads no request of the connection for that time (KIP-219)."""
        return self.add(api, Throttle(int(_checked(seconds) * 1000)), **which)

    def coordinator_moved(self, **which: Unpack[Which]) -> Fault:
        """The coordinator has moved: NOT_COORDINATOR, once by default. With `transactional_id` that of transactions."""
        return self._coordinator(ErrorCode.NOT_COORDINATOR, which)

    def coordinator_loading(self, **which: Unpack[Which]) -> Fault:
        """The coordinator has not read its log yet: COORDINATOR_LOAD_IN_PROGRESS, once by default."""
        return self._coordinator(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, which)

    def _coordinator(self, error: ErrorCode, which: Which) -> Fault:
        which.setdefault("times", 1)
        apis = TRANSACTION_APIS if which.get("transactional_id") is not None else GROUP_APIS
        return self.add(apis, Fail((error,)), **which)

    def leader_moved(self, **which: Unpack[Which]) -> Fault:
        """Another broker leads the partitions now: NOT_LEADER_OR_FOLLOWER, once by default."""
        which.setdefault("times", 1)
        return self.add(LEADER_APIS, Fail((ErrorCode.NOT_LEADER_OR_FOLLOWER,)), **which)

    def pause(self, api: ApiNames = None, **which: Unpack[Which]) -> Fault:
        """The broker does nothing, like a stopped process; connections stay. After `cancel()` it continues."""
        return self.add(api, Pause(), **which)

    def pause_brokers(self, **which: Unpack[Which]) -> Fault:
        """The same for requests of brokers and controllers to each other."""
        return self.add(None, Pause(), brokers=True, **which)

    def disk_full(self, **which: Unpack[WhichWrite]) -> Fault:
        """The disk has no room: an append to a partition fails, and its log directory goes offline (KAFKA_STORAGE_ERROR).

        A broker without another directory halts. `restart()` or `reset()` starts it again.
        """
        return self._add_disk(DiskFull(), which, appends_only=True)

    def slow_disk(self, seconds: float, **which: Unpack[WhichWrite]) -> Fault:
        """Each append to a partition, and each flush, takes `seconds` longer. The broker waits for its appends."""
        return self._add_disk(SlowDisk(_checked(seconds)), which)

    def _add_disk(self, effect: DiskFull | SlowDisk, which: WhichWrite, *, appends_only: bool = False) -> Fault:
        times = which.get("times", 1 if "nth" in which else None)
        criteria = {name: value for name, value in which.items() if name != "times"}
        match = built(WriteMatch, "a fault of disks", {"appends_only": appends_only, **criteria})
        fault = Fault(match, effect, times, self._remove)
        with self._lock:
            self.active += (fault,)
            self.disks.switch(is_on=True)
        return fault

    def add(self, api: ApiNames, effect: Effect, *, brokers: bool = False, **which: Unpack[Which]) -> Fault:
        """Adds a fault with any effect. `brokers`: the fault applies to requests of other brokers instead of clients."""
        times = which.get("times", 1 if "nth" in which else None)
        criteria = {name: value for name, value in which.items() if name != "times"}
        match = built(Match, "a fault", {"apis": keys_of(api), "brokers": brokers, **criteria})
        fault = Fault(match, effect, times, self._remove)
        with self._lock:
            self.active += (fault,)
        return fault

    def clear(self) -> None:
        """Cancels all faults."""
        for fault in self.active:
            fault.cancel()

    def _remove(self, fault: Fault) -> None:
        with self._lock:
            self.active = tuple(one for one in self.active if one is not fault)
            if not any(isinstance(one.match, WriteMatch) for one in self.active):
                self.disks.switch(is_on=False)

    def __iter__(self) -> Iterator[Fault]:
        """The faults that are on."""
        return iter(self.active)

    def __len__(self) -> int:
        return len(self.active)

    def __repr__(self) -> str:
        return f"<Faults {list(self.active)}>"


def _checked(seconds: float) -> float:
    """Raises ValueError for what is no duration."""
    if not 0 <= seconds < math.inf:
        raise ValueError(f"seconds must be 0 or more, not {seconds}")
    return seconds
