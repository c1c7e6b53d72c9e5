"""The budget of file descriptors: which of them connections may take, and which are kept for other work.

A process that has no descriptor left cannot roll a segment or write a checkpoint, and an acceptor that finds none left
spins. So descriptors are counted before they run out. A connection is admitted while its descriptor leaves the reserve
whole; one more is closed as soon as it is accepted. Open data files give way to connections down to a few, since they can
be opened again.

Descriptors belong to the process, so their budget does too: all brokers of a process share `DESCRIPTORS`.
"""

from __future__ import annotations

import contextlib
import os
import resource
from collections import Counter
from typing import NamedTuple
from weakref import WeakKeyDictionary

from ...storage.files.descriptors import SPARE_DESCRIPTORS, SPARES
from ...storage.files.open_files import FEWEST_DATA_FILES, MOST_DATA_FILES, OPEN_FILES, OpenFile
from ..runtime.thread_pools import MOST_THREADS

#: A broker needs some 20 to begin with, the reserve below, and a few connections to be of use.
FEWEST_DESCRIPTORS = 48

#: Files that are open for the time of one call: segments being rolled, indexes, checkpoints, snapshots, and the directory
#: that is synced with each. The loop and the threads of the pools open two at a time.
WORKER_THREADS = MOST_THREADS
SHORT_LIVED_FILES = 2 * (WORKER_THREADS + 1)
#: The cleaner's process: two pipes with both ends until it has begun, the pipe that tells of a failed start, and its pidfd.
CLEANER_PROCESS = 8
#: Connections that this node opens to each other node, one for each purpose: the quorum's requests and its Fetch, the
#: broker's heartbeat, forwarding, two fetchers, transaction markers, the coordinators' questions.
CONNECTIONS_PER_PEER = 8
#: Scrapers of odradek.metrics.port; each asks once and leaves.
METRICS_CONNECTIONS = 8
#: Data files that stay open are this part of what was free at the start; without a share of their own every append under a
#: flood would open its file anew. All shares together take half of what was free at most.
DATA_FILES_PART = 8
#: The part of the connections that is kept for controllers, and for a listener of brokers alone: a flood of clients on
#: another listener leaves it.
GUARANTEED_SHARE = 4
#: Classes of listeners: those of the quorum, those of brokers alone, and all others.
CONTROLLERS, BROKERS, CLIENTS = "controllers", "brokers", "clients"
#: Where the number of open descriptors cannot be found out.
_ASSUMED_OPEN = 32


class Shares(NamedTuple):
    """Descriptors kept from connections, by what they are kept for."""

    spare: int
    short_lived_files: int
    cleaner_process: int
    peers: int
    metrics: int
    data_files: int


class TooFewDescriptors(Exception):
    """The limit of the process is below what a broker needs."""


class DescriptorBudget:
    """Counts the descriptors of connections, and has data files closed to make room for them."""

    def __init__(self) -> None:
        self.limit = 0
        #: Open when the broker began to serve, connections and data files apart.
        self.open_at_start = 0
        #: Other nodes of the cluster, by broker of this process. Weak: one that was never stopped has no connections either.
        self._peers: WeakKeyDictionary[object, int] = WeakKeyDictionary()
        self._serves_metrics = False
        self.shares = Shares(0, 0, 0, 0, 0, 0)
        #: Connections by the class of their listener, and the classes that are guaranteed a part.
        self._connections: Counter[str] = Counter()
        self._guaranteed: Counter[str] = Counter()
        #: Second descriptors of connections (file_sender.py).
        self._extra = 0
        #: The number of descriptors that connections have, and the number that they may have.
        self._taken = self._most = 0

    def measure(self) -> None:
        """Looks what is open now; called when a broker is about to accept connections."""
        self.limit = _soft_limit()
        SPARES.fill()
        counted = OpenFile.count + len(SPARES) + self._taken
        self.open_at_start = max(0, _open_descriptors() - counted)
        self.plan()

    def plan(self) -> None:
        """Divides what is left among the shares."""
        free = max(0, self.limit - self.open_at_start)
        wanted = Shares(
            spare=SPARE_DESCRIPTORS,
            short_lived_files=SHORT_LIVED_FILES,
            cleaner_process=CLEANER_PROCESS,
            peers=CONNECTIONS_PER_PEER * self._other_nodes,
            metrics=METRICS_CONNECTIONS if self._serves_metrics else 0,
            data_files=max(FEWEST_DATA_FILES, min(MOST_DATA_FILES, free // DATA_FILES_PART)),
        )
        total = sum(wanted)
        if total > free // 2:
            wanted = Shares(*(max(2, share * (free // 2) // total) if share else 0 for share in wanted))
        self.shares = wanted
        self._most = max(0, self.limit - self.open_at_start - sum(wanted))
        self._give_data_files_the_rest()

    def peers_are(self, broker: object, count: int) -> None:
        """Keeps descriptors for the connections of a broker to so many other nodes."""
        if count != self._peers.get(broker, 0):
            self._peers[broker] = count
            self.plan()

    def metrics_are_served(self) -> None:
        """Keeps descriptors for scrapers."""
        self._serves_metrics = True
        self.plan()

    def forget(self, broker: object) -> None:
        """The broker has stopped."""
        self._peers.pop(broker, None)

    # Connections.

    @property
    def most_connections(self) -> int:
        """The number of descriptors that all connections together may take."""
        return self._most

    @property
    def taken(self) -> int:
        return self._taken

    def remaining(self, kind: str) -> int:
        """Returns how many more connections a listener of this class may have."""
        most = self.most_connections
        kept_for_others = sum(
            max(0, self._guarantee_of(other) - self._connections[other])
            for other, count in self._guaranteed.items()
            if other != kind and count
        )
        # Each class may have a part, however many nodes the cluster has.
        kept_for_others = min(kept_for_others, most - most // GUARANTEED_SHARE)
        # Responses that are being sent may still hold descriptors that data files were to give back to connections.
        held = max(0, OpenFile.count - max(OPEN_FILES.limit, self.shares.data_files))
        return max(0, most - self.taken - held - kept_for_others)

    def _guarantee_of(self, kind: str) -> int:
        """A part of the connections; of nodes of the cluster as many as these open, if that is more."""
        most = self.most_connections
        needed = 0 if kind == CLIENTS else min(most // 2, CONNECTIONS_PER_PEER * self._other_nodes)
        return max(most // GUARANTEED_SHARE, needed)

    @property
    def _other_nodes(self) -> int:
        return sum(self._peers.values())

    def guarantee(self, kind: str) -> None:
        """Keeps a part of the connections for listeners of this class; `withdraw` ends it."""
        self._guaranteed[kind] += 1

    def withdraw(self, kind: str) -> None:
        self._guaranteed[kind] -= 1

    def has_room(self, kind: str, fd: int) -> bool:
        """Returns True if the connection that was accepted as `fd` may stay.
        The system gives the lowest free number: a number near the limit means that uncounted descriptors are open.
        """
        if not self.has_spares(fd):
            return False
        # Nearly always: all connections together are fewer than one class is guaranteed.
        return self._taken + OpenFile.count < self._most // GUARANTEED_SHARE or self.remaining(kind) > 0

    def has_spares(self, fd: int) -> bool:
        return fd < self.limit - SPARE_DESCRIPTORS

    def enter(self, kind: str) -> None:
        self._connections[kind] += 1
        self._taken += 1
        self._give_data_files_the_rest()

    def leave(self, kind: str) -> None:
        self._connections[kind] -= 1
        self._taken -= 1
        self._give_data_files_the_rest()

    def take_extra(self) -> bool:
        """Counts a second descriptor of a connection; False when there is none to be had."""
        if self.taken >= self.most_connections:
            return False
        self._extra += 1
        self._taken += 1
        return True

    def return_extra(self) -> None:
        self._extra -= 1
        self._taken -= 1

    def _give_data_files_the_rest(self) -> None:
        """Data files may have what connections do not use, and give it back when these come."""
        rest = self._most + self.shares.data_files - self._taken
        limit = MOST_DATA_FILES if rest >= MOST_DATA_FILES else max(FEWEST_DATA_FILES, rest)
        OPEN_FILES.limit = limit
        if len(OPEN_FILES) > limit:
            OPEN_FILES.shrink_to(limit)


#: The budget of this process.
DESCRIPTORS = DescriptorBudget()


def raise_limit() -> None:
    """Raises the soft limit to the hard one, as the JVM does. Raises TooFewDescriptors when that is too few."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):  # a hard limit that the system does not grant, as macOS has one
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if _soft_limit() < FEWEST_DESCRIPTORS:
        raise TooFewDescriptors(
            f"a process may have {_soft_limit()} open files here, and a broker needs {FEWEST_DESCRIPTORS} at least; "
            "raise the hard limit (ulimit -Hn, LimitNOFILE= of systemd, --ulimit nofile of a container)"
        )


def _soft_limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2**31 - 1 if soft == resource.RLIM_INFINITY else soft


def _open_descriptors() -> int:
    for place in ("/proc/self/fd", "/dev/fd"):
        try:
            return len(os.listdir(place)) - 1  # noqa: PTH208 - without the one that lists them; a path makes a call for each
        except OSError:
            continue
    return _ASSUMED_OPEN
