"""Names of the topics in which coordinators store their state, and of other topics that nodes write. Clients may read those
of coordinators, but not write to them.
"""

from __future__ import annotations

GROUP_METADATA_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
SHARE_GROUP_STATE_TOPIC = "__share_group_state"

#: The log of the quorum (KIP-595), which is no topic that a client can create.
CLUSTER_METADATA_TOPIC = "__cluster_metadata"
#: The events of tiered storage (KIP-405): an ordinary topic for Kafka, written by its nodes as clients.
REMOTE_LOG_METADATA_TOPIC = "__remote_log_metadata"
INTERNAL_TOPICS = frozenset({GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_GROUP_STATE_TOPIC})
