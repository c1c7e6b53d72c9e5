"""A seeded sequence of faults for a group, and its members, each a process."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from compat_tests.asking import coordinator_of
from compat_tests.broker_process import BrokerProcess
from compat_tests.exactly_once.cluster import ThreeBrokers
from compat_tests.fault_scenario import FaultScenario, WatchedProcess

from .ledger import SESSION_S, Freeze, Ledger, Life
from .member import CONSUMER

_ROOT = Path(__file__).resolve().parents[2]
Brokers = BrokerProcess | ThreeBrokers

MOST_MEMBERS = 4
#: A killed broker stays down for up to this.
LONGEST_ABSENCE_S = 1.0
#: Longer than a member's session, or well within it.
LONG_FREEZE_S, SHORT_FREEZE_S = SESSION_S + 2.5, SESSION_S / 3
#: A new coordinator starts every session anew, so no other fault happens meanwhile.
BEYOND = "a member frozen beyond its session"
#: Time in which a member leaves, though its coordinator may be down.
_LEAVING_S = 60.0
#: Each fault occurs as often as it is listed before any is repeated.
_DECK = (
    *["a broker killed", "one joins", "one leaves", "a member killed"] * 2,
    "the coordinator killed",
    BEYOND,
    "a member frozen for long",
    "a member frozen briefly",
)
#: The client's error for a member of the consumer protocol in a group that stays classic.
_IS_CLASSIC = "group id does not exist"


class MemberProcess(WatchedProcess):
    """The successive processes of one client."""

    def __init__(self, module: str, words: list[str], name: str, ledger: Ledger, folder: Path) -> None:
        super().__init__()
        self.name = name
        self.is_consumer = words[-1] == CONSUMER
        self.lives: list[Life] = []
        #: Set when the member leaves in good order: it is not started again.
        self.is_leaving = False
        self.has_failed = False
        self._command = [sys.executable, "-m", f"compat_tests.group_faults.{module}", *words]
        self._ledger = ledger
        self._folder = folder

    @property
    def life(self) -> Life:
        return self.lives[-1]

    @property
    def has_ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    @property
    def is_frozen(self) -> bool:
        return bool(self._frozen_until)

    def begin(self) -> subprocess.Popen[bytes]:
        file = self._folder / f"{self.name}-{len(self.lives)}.jsonl"
        with file.open("w") as notes, (self._folder / f"{self.name}.log").open("a") as log:
            process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=notes, stderr=log, cwd=_ROOT)
        self.lives.append(Life(file.stem, file, self.is_consumer))
        self._ledger.lives.append(self.life)
        return process

    def look(self) -> None:
        if self._process is not None and self.has_ended:
            self.life.read()
            self.has_failed = not self.is_leaving and self.life.rejected is None
            return
        super().look()

    def freeze(self, seconds: float) -> None:
        if not self.is_frozen and not self.has_ended:
            self.life.freezes.append(Freeze(time.monotonic()))
            super().freeze(seconds)

    def thaw(self) -> None:
        if self.is_frozen:
            self.life.freezes[-1].end = time.monotonic()
        super().thaw()

    def kill(self) -> None:
        now = time.monotonic()
        if self.lives and not self.has_ended:
            self.life.killed_at = now
            if self.is_frozen:
                self.life.freezes[-1].end = now
        super().kill()

    def leave(self) -> None:
        assert self._process is not None and not self.is_frozen
        self._process.terminate()
        self.is_leaving = True


class Faults(FaultScenario):
    """The members of a group, and the faults that hit them."""

    def __init__(self, brokers: Brokers, topic: str, group: str, assignor: str, seed: int, folder: Path) -> None:
        self.members: list[MemberProcess] = []
        super().__init__(seed, self.members)
        self._brokers = brokers
        self._words = [brokers.bootstrap, topic, group]
        self._group = group
        self._assignor = assignor
        self._folder = folder
        self._joined = 0
        self._deck = [*self.rng.sample(_DECK, len(_DECK)), BEYOND]
        self.ledger = Ledger()
        self.problems: list[str] = []

    def join(self, kind: str) -> None:
        """Adds a member: `kind` is "consumer", "classic" or "kafka-python", which is classic, too."""
        self._joined += 1
        module = "kafka_python_member" if kind == "kafka-python" else "member"
        words = [*self._words, CONSUMER if kind == CONSUMER else self._assignor]
        member = MemberProcess(module, words, f"{kind}-{self._joined}", self.ledger, self._folder)
        self.members.append(member)
        self.done[f"{kind} joins"] += 1

    def kinds(self) -> list[str]:
        """Returns the kinds of members. kafka-python and librdkafka do not read each other's sticky user data."""
        return [CONSUMER, "classic", *(["kafka-python"] if self._assignor == "range" else [])]

    def one(self) -> None:
        self._deck = self._deck or self.rng.sample(_DECK, len(_DECK))
        fault = self._deck.pop()
        chosen = self.rng.choice([one for one in self.members if not one.is_leaving and not one.is_frozen] or [None])
        seconds = self.rng.random()
        if fault == "one joins":
            if sum(not one.is_leaving for one in self.members) < MOST_MEMBERS:
                self.join(self.rng.choice(self.kinds()))
        elif fault.endswith(("broker killed", "coordinator killed")):
            self._kill_broker(fault, seconds * LONGEST_ABSENCE_S)
        elif chosen is not None:
            self._befalls(chosen, fault, seconds)

    def _befalls(self, member: MemberProcess, fault: str, seconds: float) -> None:
        if fault == "one leaves":
            # A member that was frozen for long leaves before it learns of its expiry, and reports a revocation.
            may_leave = not any(_is_long(freeze) for freeze in member.life.freezes) if member.lives else False
            if not may_leave or sum(not one.is_leaving for one in self.members) < 2:
                return
            member.leave()
        elif fault == "a member killed":
            member.kill()
        else:
            member.freeze(seconds * SHORT_FREEZE_S if fault.endswith("briefly") else LONG_FREEZE_S)
        self.done[fault] += 1
        if fault == BEYOND:
            self.peace(LONG_FREEZE_S + 0.5)

    def _kill_broker(self, fault: str, absence_s: float) -> None:
        self.done[fault] += 1
        if isinstance(self._brokers, ThreeBrokers):
            asked = fault.startswith("the coordinator")
            found = coordinator_of(self._brokers.bootstrap, self._group) if asked else None
            self._brokers.kill(None if found is None else found.node_id)
        else:
            self._brokers.kill()
        self.peace(absence_s)
        self._brokers.start()

    def peace(self, seconds: float) -> None:
        super().peace(seconds)
        self.ledger.read()
        self._drop_ended()

    def _drop_ended(self) -> None:
        """Drops members that left, and members that the broker rejects as Apache Kafka does. A group becomes classic when
        its last member of the consumer protocol exceeds its session timeout; that member's client then gives up. Also,
        librdkafka's cooperative-sticky leader puts user data into assignments, and no joining member upgrades such a group.
        """
        for member in [one for one in self.members if one.lives and one.has_ended and one.life.killed_at is None]:
            if member.life.rejected is not None:
                assert member.is_consumer and _IS_CLASSIC in member.life.rejected, member.life.rejected
                self.done["one is refused"] += 1
            if member.has_failed:
                self.problems.append(f"{member.name} ended by itself: see its log")
            self.members.remove(member)
        if not any(not one.is_leaving for one in self.members):
            self.join("classic")

    def is_quiet(self) -> bool:
        return not any(one.is_frozen or one.is_leaving for one in self.members)

    def end(self) -> None:
        for member in self.members:
            member.kill()


def _is_long(freeze: Freeze) -> bool:
    return freeze.end is None or freeze.end - freeze.begin > SESSION_S / 2
