"""Two simulated clusters, one of which follows the other, and the commands that change the direction.

Partitions are lists of batches, and the mirror follows by the machine of `replication/mirror/partition.py`. Commands do the
effects of `replication/mirror/change.py` one at a time; they end after any of them and are run again. Leaders change, and a
source may lose its newest records. After each step the invariants are checked.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from odradek.replication.mirror.change import FAIL_OVER, REVERSE, SWITCH, Effect
from odradek.replication.mirror.partition import Batch, Ends, MirroredLog, MirrorState

_MOST_BATCHES = 30


class InvariantBroken(AssertionError):
    """The text has the seed's step."""


@dataclass
class Cluster:
    """A cluster with one partition. `follows`: whether its topic is a mirror. `is_closed`: switched from, read-only."""

    name: str
    batches: list[Batch] = field(default_factory=list)
    kept: list[Batch] = field(default_factory=list)
    follows: bool = False
    is_closed: bool = False
    #: The state of its link: none, active, paused, stopped or promoted.
    link: str = "none"
    is_up: bool = True
    machine: MirroredLog = field(default_factory=lambda: MirroredLog(0, None))

    @property
    def end(self) -> int:
        return self.batches[-1].next_offset if self.batches else 0

    @property
    def is_writable(self) -> bool:
        return not self.follows and not self.is_closed

    def lead_again(self, *, cuts: bool) -> None:
        self.machine = MirroredLog(self.end, self.batches[-1] if self.batches else None, cuts=cuts)


class Simulation:
    """`changes`: the effects of the commands, in their order. `compares`: False for a follower that trusts its log."""

    def __init__(
        self,
        seed: int,
        changes: dict[str, Sequence[Effect]] | None = None,
        *,
        compares: bool = True,
        keeps: bool = True,
    ) -> None:
        self.rng = random.Random(seed)
        self.changes = changes or {"switch": SWITCH, "fail-over": FAIL_OVER, "reverse": REVERSE}
        self.compares = compares
        self.keeps = keeps
        self.primary, self.mirror = Cluster("a"), Cluster("b", follows=True, link="active")
        self.cuts = False
        self.crc = 0
        #: Acknowledged batches, and those that an unclean election at a source, or a fail-over, may have lost.
        self.acknowledged: set[Batch] = set()
        self.excused: set[Batch] = set()
        self.command: tuple[str, int] | None = None
        #: Whether a fail-over was started since the last reversal: only then two sides may be writable.
        self.is_forced = False
        self.log: list[str] = []

    # ---- steps

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()
            self.check()
        self.settle()
        self.check()

    def step(self) -> None:
        steps = [self._produce, self._fetch, self._fetch, self._effect, self._effect, self._crash, self._lead_again]
        steps += [self._unclean, self._start, self._restart_cluster, self._pause]
        self.rng.choice(steps)()

    def _produce(self) -> None:
        """A client writes to a side that takes it: it has both addresses."""
        sides = [one for one in (self.primary, self.mirror) if one.is_writable and one.is_up]
        if not sides:
            return
        side = self.rng.choice(sides)
        if len(side.batches) < _MOST_BATCHES:
            self.crc += 1
            batch = Batch(side.end, side.end + self.rng.randint(1, 3), 70, self.crc)
            side.batches.append(batch)
            self.acknowledged.add(batch)

    def _fetch(self) -> None:
        mirror, source = self.mirror, self.primary
        if not mirror.follows or mirror.link != "active" or not source.is_up:
            return
        machine = mirror.machine
        if machine.state is MirrorState.CUTTING:
            self._cut(mirror)
            return
        if not self.compares and machine.state is MirrorState.COMPARING:
            machine.state = MirrorState.FOLLOWING
        offset = machine.fetch_offset
        if offset is None:
            return
        if offset > source.end:
            if self.compares:
                machine.ends_known(Ends(0, source.end))
                self._search(mirror)
            return
        found = [batch for batch in source.batches if batch.next_offset > offset][:2]
        first = found[0] if found else None
        if machine.state is MirrorState.COMPARING:
            if machine.compared(first, source.end):
                machine.ends_known(Ends(0, source.end))
            self._search(mirror)
        elif machine.state is MirrorState.SEARCHING:
            machine.probed(first, source.end)
            self._search(mirror)
        elif self.compares and machine.source_shrank(source.end):
            return
        if machine.state is MirrorState.FOLLOWING:
            self._append(mirror, [batch for batch in found if batch.next_offset > mirror.end])

    def _append(self, mirror: Cluster, found: Sequence[Batch]) -> None:
        for batch in found:
            if batch.base_offset < mirror.end:
                if self.compares:
                    mirror.machine.overlapped(batch)
                    self._search(mirror)
                return
            mirror.batches.append(batch)
            mirror.machine.appended(mirror.end, batch)

    def _search(self, mirror: Cluster) -> None:
        while (offset := mirror.machine.wanted_probe) is not None:
            here = next((batch for batch in mirror.batches if batch.next_offset > offset), None)
            mirror.machine.probe_at(offset, here)

    def _cut(self, mirror: Cluster) -> None:
        end = mirror.machine.end
        if self.keeps:
            mirror.kept += [batch for batch in mirror.batches if batch.next_offset > end]
        mirror.batches = [batch for batch in mirror.batches if batch.next_offset <= end]
        mirror.machine.cut(mirror.end, mirror.batches[-1] if mirror.batches else None, "")

    def _lead_again(self) -> None:
        self.mirror.lead_again(cuts=self.cuts)

    def _unclean(self) -> None:
        """The primary loses its newest batches: an unclean election, or a restored backup."""
        if self.rng.random() < 0.15 and self.primary.is_writable and self.primary.batches:
            at = self.rng.randrange(len(self.primary.batches))
            self.excused |= set(self.primary.batches[at:])
            self.primary.batches = self.primary.batches[:at]
            self.mirror.machine.compare_again()

    def _restart_cluster(self) -> None:
        self.primary.is_up = not self.primary.is_up if self.rng.random() < 0.3 else True

    def _pause(self) -> None:
        """An operator pauses the link, or resumes it."""
        changes = {"active": "paused", "paused": "active"}
        if self.rng.random() < 0.3:
            self.mirror.link = changes.get(self.mirror.link, self.mirror.link)

    # ---- commands

    def _start(self) -> None:
        """An operator runs a command that fits what there is, or one that ended early again."""
        if self.command is not None or self.rng.random() < 0.5:
            return
        if self.mirror.follows:
            name = "switch" if self.primary.is_up and self.rng.random() < 0.7 else "fail-over"
            if self.mirror.machine.state is MirrorState.DIVERGED:
                self._decide()
                return
        elif self.primary.is_up:
            name = "reverse"
        else:
            return
        self.command = name, 0

    def _decide(self) -> None:
        """The operator of a diverged mirror follows the source, or keeps what is here."""
        if self.rng.random() < 0.5:
            self.cuts = True
            self.mirror.machine.allow_cut(cuts=True)
        else:
            self.command = "fail-over", 0

    def _crash(self) -> None:
        """The command ends."""
        if self.rng.random() < 0.2:
            self.command = None

    def _effect(self) -> None:
        if self.command is None:
            return
        name, done = self.command
        effects = self.changes[name]
        if self._does(effects[done]):
            self.command = (name, done + 1) if done + 1 < len(effects) else None

    def _does(self, effect: Effect) -> bool:
        """Does an effect. Returns whether the command goes on."""
        mirror, primary = self.mirror, self.primary
        match effect:
            case Effect.CLOSE_SOURCE:
                if not primary.is_up:
                    return False
                primary.is_closed = True
            case Effect.COMPARE_LAST:
                if not primary.is_up:
                    return False
                last = mirror.batches[-1] if mirror.batches else None
                same = next((one for one in primary.batches if last and one.next_offset >= last.next_offset), last)
                if same != last:
                    # The command fails, and the operator has the link compare.
                    self.command = None
                    mirror.link = "active" if mirror.link == "paused" else mirror.link
                    return False
            case Effect.AWAIT_EQUAL:
                # A paused link reports no other state, and compares nothing.
                is_equal = mirror.machine.state is MirrorState.FOLLOWING or mirror.link == "paused"
                return primary.is_up and primary.end == mirror.end and is_equal
            case Effect.STOP:
                if mirror.link in ("active", "paused"):
                    mirror.link = "stopped"
                if self.command is not None and self.command[0] == "fail-over":
                    self.is_forced = True
                    self.excused |= set(primary.batches) - set(mirror.batches)
            case Effect.PROMOTE:
                mirror.link = "promoted"
            case Effect.OPEN_HERE:
                mirror.follows = False
            case Effect.CLOSE_FORMER:
                if not primary.is_up:
                    return False
                primary.follows, primary.is_closed = True, False
            case Effect.LINK_BACK:
                primary.link = "active"
                primary.lead_again(cuts=True)
            case Effect.DELETE_LINK:
                mirror.link = "none"
                self.primary, self.mirror = mirror, primary
                self.cuts, self.is_forced = True, False
            case Effect.COPY_GROUPS | Effect.AWAIT_STOPPED | Effect.AWAIT_PROMOTED | Effect.RAISE_FLOOR:
                pass
        return True

    # ---- invariants

    def check(self) -> None:
        both = [self.primary, self.mirror]
        if sum(one.is_writable for one in both) > 1 and not self.is_forced:
            raise InvariantBroken("two sides are writable, and no fail-over was asked for")
        if self.mirror.follows is False and self.primary.is_closed and not self.is_forced:
            missing = set(self.primary.batches) - set(self.mirror.batches)
            if missing and not missing <= self.excused:
                raise InvariantBroken(f"the switch lost {missing}")
        for one in both:
            for first, second in zip(one.batches, one.batches[1:], strict=False):
                if first.next_offset != second.base_offset:
                    raise InvariantBroken(f"{one.name} has a gap or an overlap")
        held = {batch for one in both for batch in (*one.batches, *one.kept)}
        lost = self.acknowledged - held - self.excused
        if lost:
            raise InvariantBroken(f"acknowledged batches are nowhere: {lost}")

    def settle(self) -> None:
        """Everything runs, and commands that began end. Then a mirror equals its source, or has stopped with a reason."""
        self.primary.is_up = self.mirror.is_up = True
        for _ in range(400):
            if self.command is not None:
                self._effect()
            self._fetch()
        mirror = self.mirror
        is_following = mirror.follows and mirror.link == "active" and mirror.machine.state is not MirrorState.DIVERGED
        if is_following and self.mirror.batches != self.primary.batches:
            raise InvariantBroken(f"{mirror.machine} is following: {mirror.batches}, {self.primary.batches}")
