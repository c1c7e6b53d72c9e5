"""A chain: copies of a topic in transactions, with the offsets of the group in them.

aiokafka's group members commit offsets of a transaction without their generation, so no broker could fence an old member.
The one copier therefore assigns its partitions: the producer's epoch fences its predecessors (KIP-98).
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from compat_tests.histories.client import Identity, Key
from compat_tests.histories.coordinator_client import CoordinatorClient
from compat_tests.histories.operation import ASSIGN
from compat_tests.histories.session import Session
from compat_tests.histories.workloads import CHAIN_GROUP, COPIES, SOURCE, Maker, Setting, Worker, keys_of

_PAUSE_S = 0.2
_CRASH_SHARE, _CRASH_AFTER_ABORT_SHARE, _ABORTED_SHARE = 0.02, 0.3, 0.1


class _ChainSession(Session):
    """Each client goes on after the committed offsets, which no earlier one can change any more."""

    def _take_up(self) -> None:
        self.positions = {key: offset or 0 for key, offset in committed(self._identity.bootstrap).items()}
        self._assign()


def committed(bootstrap: str) -> Mapping[Key, int | None]:
    """Returns the offsets of the chain's group. Raises Refused or Unknown, also while a transaction holds one."""
    client = CoordinatorClient(bootstrap, CHAIN_GROUP)
    try:
        return {key: client.committed(key.topic, key.partition) for key in keys_of(SOURCE)}
    finally:
        client.close()


def chain_copier(make: Maker) -> Worker:
    def work(setting: Setting, rng: Random) -> None:
        identity = Identity(setting.bootstrap, CHAIN_GROUP, transactional_id="chain")
        session = _ChainSession(make, identity, setting.recorder, setting.caught_up)
        while not setting.caught_up.wait(rng.random() * _PAUSE_S):
            commits = rng.random() > _ABORTED_SHARE
            session.transact([None], commits=commits, joins=True, copies=COPIES)
            # After an abort, only a new client shows which offsets are committed.
            if rng.random() < (_CRASH_SHARE if commits else _CRASH_AFTER_ABORT_SHARE) and not setting.stopped.is_set():
                session.crash()
        session.close()

    return Worker(f"copy {SOURCE} to {COPIES}", work, (ASSIGN,), catches_up=True)
