"""The levels of `metadata.version` (KIP-778), and the changes to records in each that matter for writing them.

A new directory gets `DEFAULT`, 4.3-IV0: the highest level that is stable both in Kafka 4.3 and in 4.4, so that brokers
and tools of both open what we write. The three levels above it (CIDR in ACLs, unregistration of controllers) change no
record that we write. We open and serve a directory that has them.
"""

from __future__ import annotations

#: 3.3-IV3, the lowest that Kafka 4.x opens.
MINIMUM = 7
#: 3.4-IV0: RegisterBrokerRecord has a field for migration from ZooKeeper.
ZK_MIGRATION = 8
#: 3.5-IV2: SCRAM credentials (KIP-900).
SCRAM = 11
#: 3.6-IV0: the leader epoch stays when the ISR shrinks (KAFKA-15021).
NO_EPOCH_BUMP_ON_ISR_SHRINK = 12
#: 3.6-IV2: delegation tokens (KIP-900).
DELEGATION_TOKENS = 14
#: 3.7-IV2: partitions list the log directories of their replicas (KIP-858).
DIRECTORY_ASSIGNMENT = 17
#: 4.0-IV1: partitions carry eligible leader replicas (KIP-966).
ELIGIBLE_LEADER_REPLICAS = 23
#: 4.3-IV0: registrations carry cordoned log directories (KIP-1066).
CORDONED_LOG_DIRS = 30
DEFAULT = CORDONED_LOG_DIRS
#: 4.4-IV2, the highest that is stable in Kafka 4.4: controllers can be unregistered (KIP-1312).
CONTROLLER_UNREGISTRATION = 33
MAXIMUM = CONTROLLER_UNREGISTRATION

#: Levels with records, or fields of records, that older levels do not have.
_CHANGED_RECORDS = (7, 8, 11, 13, 14, 15, 17, 23, 30, 32, 33)


def changes_records(older: int, newer: int) -> bool:
    """Returns whether records of `newer` may contain something that `older` cannot."""
    return any(older < level <= newer for level in _CHANGED_RECORDS)
