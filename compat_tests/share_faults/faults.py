"""A seeded sequence of faults for a share group, and the processes that they hit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from compat_tests.broker_process import BrokerProcess
from compat_tests.exactly_once.cluster import ThreeBrokers
from compat_tests.fault_scenario import FaultScenario, WatchedProcess
from compat_tests.java.program import JVM_FLAGS, java_command

from .group import SharedTopic

_JAVA_MEMBER = Path(__file__).with_name("ShareMember.java")
_ROOT = Path(__file__).resolve().parents[2]
Brokers = BrokerProcess | ThreeBrokers

#: A killed broker stays down for up to this.
LONGEST_ABSENCE_S = 1.5
#: Longer than a lock: the broker rejects acknowledgements of a member that resumes after it.
LONGEST_FREEZE_S = 6.0


def python_member() -> list[str]:
    """Returns the command for a member with librdkafka's share consumer."""
    return [sys.executable, "-m", "compat_tests.share_faults.member"]


def java_member() -> list[str]:
    """Returns the command for a member with Apache's share consumer."""
    return java_command(_JAVA_MEMBER, jvm=(*JVM_FLAGS, "-Xmx128m"))


class MemberProcess(WatchedProcess):
    """The successive processes of one named member, each with its own history."""

    def __init__(
        self, program: list[str], bootstrap: str, shared: SharedTopic, name: str, seed: int, folder: Path
    ) -> None:
        super().__init__()
        self.name = name
        self.files: list[Path] = []
        self._program = program
        self._words = [bootstrap, shared.topic, shared.group]
        self._seed = seed
        self._folder = folder
        self._leaving: list[subprocess.Popen[bytes]] = []

    @property
    def has_been_given(self) -> bool:
        return any('["given"' in file.read_text() for file in self.files)

    def begin(self) -> subprocess.Popen[bytes]:
        self.files.append(self._folder / f"{self.name}-{len(self.files)}.jsonl")
        command = [*self._program, *self._words, str(self._seed + 10 * len(self.files))]
        with self.files[-1].open("w") as history, (self._folder / f"{self.name}.log").open("a") as log:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=history, stderr=log, cwd=_ROOT)

    def leave(self) -> None:
        """Ends the process with SIGTERM. This may take a while: its successor starts meanwhile."""
        self.thaw()
        if self._process is not None:
            self._process.terminate()
            self._leaving.append(self._process)
            self._process = None

    def end(self) -> None:
        self.kill()
        for process in self._leaving:
            process.kill()
            process.wait()


class Faults(FaultScenario):
    """Draws faults: kill -9 of a broker (any, or a coordinator) or of a member; a member leaves or is frozen."""

    def __init__(self, seed: int, brokers: Brokers, members: list[MemberProcess], shared: SharedTopic) -> None:
        super().__init__(seed, members)
        self._brokers = brokers
        self.members = members
        self._shared = shared

    def one(self) -> None:
        kinds = {
            "a broker killed": 2,
            "the group's coordinator killed": 2,
            "a state's coordinator killed": 2,
            "a member killed": 3,
            "a member frozen": 2,
            "a member leaves": 1,
        }
        kind = self.rng.choices(list(kinds), list(kinds.values()))[0]
        member = self.rng.choice(self.members)
        seconds = self.rng.random()
        self.done[kind] += 1
        if kind == "a broker killed":
            self._kill(None, seconds * LONGEST_ABSENCE_S)
        elif kind.endswith("coordinator killed"):
            of_group = kind.startswith("the group")
            node = self._shared.coordinator() if of_group else self._shared.coordinator_of_state(0)
            self._kill(node, seconds * LONGEST_ABSENCE_S)
        elif kind == "a member killed":
            member.kill()
        elif kind == "a member frozen":
            member.freeze(seconds * LONGEST_FREEZE_S)
        else:
            member.leave()

    def _kill(self, node: int | None, absence_s: float) -> None:
        if isinstance(self._brokers, ThreeBrokers):
            self._brokers.kill(node)
        else:
            self._brokers.kill()
        self.peace(absence_s)
        self._brokers.start()
