"""Named points at which a simulation has the server do what is allowed and rare: late, in small pieces, uncached.

Outside of simulations `active` is None, and a point costs the comparison with it. A simulation sets it while it runs
(`odradek.testing.simulation`).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection
from random import Random

#: Work of a thread, such as a flush, begins late.
LATE_DISK_WORK = "late disk work"
#: A read of several batches returns the first.
SPLIT_READ = "split read"
#: A broker applies committed metadata late: it leads or follows later than others.
HESITANT_PUBLISHER = "hesitant publisher"
#: A leader proposes a change of the ISR late.
HESITANT_LEADER = "hesitant leader"
#: A read finds nothing in the page cache.
COLD_CACHE = "cold cache"
#: A log begins a new segment before it must.
EARLY_ROLL = "early roll"
#: A coordinator begins to load its partition late.
LATE_LOAD = "late load"
POINTS = (LATE_DISK_WORK, SPLIT_READ, HESITANT_PUBLISHER, HESITANT_LEADER, COLD_CACHE, EARLY_ROLL, LATE_LOAD)

#: Set by a simulation while it runs.
active: Buggify | None = None

#: How often a point acts, and for how long at most.
_LIKELIHOODS = (0.02, 0.2)
_DELAYS_S = (0.05, 1.0, 5.0)


class Buggify:
    """The points that act in a simulation: each in `names`, with a likelihood and a longest delay of its own.

    They act in the thread that makes this object: other threads may have brokers of their own.
    """

    def __init__(self, rng: Random, names: Collection[str]) -> None:
        self._rng = rng
        self._thread = threading.get_ident()
        self._likelihoods = {name: rng.choice(_LIKELIHOODS) for name in POINTS if name in names}
        self._longest_s = {name: rng.choice(_DELAYS_S) for name in self._likelihoods}
        #: How often each point has acted.
        self.counts: Counter[str] = Counter()

    def acts(self, name: str) -> bool:
        likelihood = self._likelihoods.get(name)
        if likelihood is None or threading.get_ident() != self._thread or self._rng.random() >= likelihood:
            return False
        self.counts[name] += 1
        return True

    def delay_s(self, name: str) -> float:
        """Returns the seconds by which something begins late; 0 if the point does not act."""
        return self._rng.uniform(0.0, self._longest_s[name]) if self.acts(name) else 0.0
