"""The levels of `metadata.version` (KIP-778), and what each brought that we must know to write records.

A new directory gets `DEFAULT`, 4.3-IV0: the highest level that is stable in Kafka 4.3 as well as in 4.4, so that
brokers and tools of both open what we write. The three levels above it (CIDR in ACLs, controllers that can be
unregistered) change no record that we write; we open and serve a directory that has them.
"""

from __future__ import annotations

#: 3.3-IV3, the lowest that Kafka 4.x opens.
MINIMUM = 7
#: 3.4-IV0: RegisterBrokerRecord says whether a broker migrates from ZooKeeper.
ZK_MIGRATION = 8
#: 3.6-IV0: an ISR that shrinks keeps the leader epoch (KAFKA-15021).
NO_EPOCH_BUMP_ON_ISR_SHRINK = 12
#: 3.7-IV2: partitions know the log directories of their replicas (KIP-858).
DIRECTORY_ASSIGNMENT = 17
#: 4.0-IV1: partitions carry eligible leader replicas (KIP-966).
ELIGIBLE_LEADER_REPLICAS = 23
#: 4.3-IV0: registrations carry cordoned log directories (KIP-1066).
CORDONED_LOG_DIRS = 30
DEFAULT = CORDONED_LOG_DIRS
#: 4.4-IV2, the highest that is stable in Kafka 4.4: registrations of controllers can be removed (KIP-1312).
CONTROLLER_UNREGISTRATION = 33
MAXIMUM = CONTROLLER_UNREGISTRATION

#: Levels that brought records, or fields of records, that older ones do not have.
_CHANGED_RECORDS = (7, 8, 11, 13, 14, 15, 17, 23, 30, 32, 33)


def changes_records(older: int, newer: int) -> bool:
    """Whether the records of `newer` may hold what `older` cannot."""
    return any(older < level <= newer for level in _CHANGED_RECORDS)
