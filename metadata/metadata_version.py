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
#: 4.4-IV2, the highest that is stable in Kafka 4.4.
MAXIMUM = 33

_NAMES = {
    7: "3.3-IV3",
    8: "3.4-IV0",
    9: "3.5-IV0",
    10: "3.5-IV1",
    11: "3.5-IV2",
    12: "3.6-IV0",
    13: "3.6-IV1",
    14: "3.6-IV2",
    15: "3.7-IV0",
    16: "3.7-IV1",
    17: "3.7-IV2",
    18: "3.7-IV3",
    19: "3.7-IV4",
    20: "3.8-IV0",
    21: "3.9-IV0",
    22: "4.0-IV0",
    23: "4.0-IV1",
    24: "4.0-IV2",
    25: "4.0-IV3",
    26: "4.1-IV0",
    27: "4.1-IV1",
    28: "4.2-IV0",
    29: "4.2-IV1",
    30: "4.3-IV0",
    31: "4.4-IV0",
    32: "4.4-IV1",
    33: "4.4-IV2",
}


def level_name(level: int) -> str:
    """4.3-IV0 for 30; the number itself for a level that we do not know."""
    return _NAMES.get(level, str(level))


#: Levels that brought records, or fields of records, that older ones do not have.
_CHANGED_RECORDS = (7, 8, 11, 13, 14, 15, 17, 23, 30, 32, 33)


def changes_records(older: int, newer: int) -> bool:
    """Whether the records of `newer` may hold what `older` cannot."""
    return any(older < level <= newer for level in _CHANGED_RECORDS)
