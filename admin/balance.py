"""A plan that balances replicas, bytes and leaders over brokers, and spreads the replicas of a partition over racks.

The plan begins with the placement of now and moves one replica at a time, so it moves little. First go replicas on
brokers that may have none and replicas that share a rack, then counts of replicas, then bytes, then leaders, which
only changes the order of the replicas.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping

from ..client.wording import counted
from .places import Place

Placement = dict[Place, list[int]]
#: Exchanges of replicas for bytes; each takes a pass over the replicas of two brokers.
_MOST_EXCHANGES = 1000


class Balance:
    """`racks` has the rack of each broker that may hold replicas, None without one. `sizes`: bytes of a replica."""

    def __init__(
        self, replicas: Mapping[Place, list[int]], racks: Mapping[int, str | None], sizes: Mapping[Place, int]
    ) -> None:
        self.replicas: Placement = {place: list(held) for place, held in sorted(replicas.items())}
        self._racks = racks
        self._sizes = sizes
        self._held = Counter(dict.fromkeys(racks, 0))
        self._bytes = Counter(dict.fromkeys(racks, 0))
        for place, held in self.replicas.items():
            for broker in held:
                self._held[broker] += 1
                self._bytes[broker] += sizes.get(place, 0)

    def plan(self) -> Placement:
        """The new placement of all partitions. Raises ValueError where a partition has more replicas than brokers are."""
        for place, held in self.replicas.items():
            if len(held) > len(self._racks):
                have, most = counted(len(held), "replica"), counted(len(self._racks), "broker")
                raise ValueError(f"{place[0]}-{place[1]} has {have}, and only {most}")
            self._leave_others(place)
            self._spread(place)
        self._even_counts()
        self._even_bytes()
        self._even_leaders()
        return self.replicas

    # ---- single replicas

    def _leave_others(self, place: Place) -> None:
        for broker in list(self.replicas[place]):
            if broker not in self._racks:
                self._move(place, broker, self._best(place, self._free(place), broker))

    def _spread(self, place: Place) -> None:
        """Moves replicas that share a rack to racks without one."""
        held = self.replicas[place]
        for broker in reversed(list(held)):
            if self._shared(place, broker):
                free = [one for one in self._free(place) if self._racks[one] not in map(self._racks.get, held)]
                if free:
                    self._move(place, broker, self._best(place, free, broker))

    def _shared(self, place: Place, broker: int) -> bool:
        rack = self._racks[broker]
        return rack is not None and [self._racks.get(one) for one in self.replicas[place]].count(rack) > 1

    def _free(self, place: Place) -> list[int]:
        return [broker for broker in self._racks if broker not in self.replicas[place]]

    def _best(self, place: Place, among: Iterable[int], instead_of: int) -> int:
        """The emptiest broker, one in a rack of no other replica first."""
        others = {self._racks.get(one) for one in self.replicas[place] if one != instead_of}
        return min(among, key=lambda one: (self._racks[one] in others, self._held[one], self._bytes[one], one))

    def _move(self, place: Place, old: int, new: int) -> None:
        held = self.replicas[place]
        held[held.index(old)] = new
        size = self._sizes.get(place, 0)
        for broker, sign in ((old, -1), (new, 1)):
            self._held[broker] += sign
            self._bytes[broker] += sign * size

    def _may_move(self, place: Place, old: int, new: int) -> bool:
        """Whether no rack gets a second replica by it that had one before."""
        held = self.replicas[place]
        if old not in held or new in held:
            return False
        rack = self._racks[new]
        return rack is None or rack == self._racks[old] or rack not in {self._racks[one] for one in held}

    # ---- counts, bytes, leaders

    def _even_counts(self) -> None:
        while self._move_one():
            pass

    def _move_one(self) -> bool:
        """Moves one replica from a broker to one with at least two less; False if none can."""
        for old in sorted(self._racks, key=lambda one: (-self._held[one], one)):
            for new in sorted(self._racks, key=lambda one: (self._held[one], one)):
                if self._held[old] - self._held[new] < 2:
                    break
                gap = (self._bytes[old] - self._bytes[new]) / 2
                able = [place for place in self.replicas if self._may_move(place, old, new)]
                if able:
                    self._move(min(able, key=lambda place: (abs(gap - self._sizes.get(place, 0)), place)), old, new)
                    return True
        return False

    def _even_bytes(self) -> None:
        for _ in range(_MOST_EXCHANGES):
            full = max(self._racks, key=lambda one: (self._bytes[one], one))
            if not any(self._exchange(full, empty) for empty in sorted(self._racks, key=lambda one: self._bytes[one])):
                return

    def _exchange(self, full: int, empty: int) -> bool:
        """Exchanges a large replica of one broker for a small one of another, where the two come closer by it."""
        gap = self._bytes[full] - self._bytes[empty]
        large = [place for place in self.replicas if self._may_move(place, full, empty)]
        small = [place for place in self.replicas if self._may_move(place, empty, full)]
        best = min(
            ((abs(gap - 2 * (self._sizes.get(a, 0) - self._sizes.get(b, 0))), a, b) for a in large for b in small),
            default=None,
        )
        if best is None or best[0] >= gap:
            return False
        self._move(best[1], full, empty)
        self._move(best[2], empty, full)
        return True

    def _even_leaders(self) -> None:
        leads = Counter(dict.fromkeys(self._racks, 0))
        leads.update(held[0] for held in self.replicas.values())
        while True:
            most = max(leads.values(), default=0)
            chains = (self._chain(one, leads) for one in sorted(leads) if leads[one] == most)
            chain = next((found for found in chains if found), None)
            if chain is None:
                return
            for place, broker in chain:
                held = self.replicas[place]
                leads[held[0]] -= 1
                leads[broker] += 1
                held.remove(broker)
                held.insert(0, broker)

    def _chain(self, start: int, leads: Mapping[int, int]) -> list[tuple[Place, int]]:
        """Partitions and their new leaders, which together take one leader from `start` for a broker with two less."""
        followers: dict[int, list[tuple[Place, int]]] = {}
        for place, held in self.replicas.items():
            followers.setdefault(held[0], []).extend((place, one) for one in held[1:])
        came: dict[int, tuple[int, Place]] = {start: (start, ("", 0))}
        waiting = deque([start])
        while waiting:
            broker = waiting.popleft()
            if leads[broker] <= leads[start] - 2:
                chain = []
                while broker != start:
                    before, place = came[broker]
                    chain.append((place, broker))
                    broker = before
                return chain
            for place, following in followers.get(broker, ()):
                if following not in came:
                    came[following] = broker, place
                    waiting.append(following)
        return []
