"""The topics in which coordinators store their state. Clients may read them, but not write to them."""

from __future__ import annotations

GROUP_METADATA_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
SHARE_GROUP_STATE_TOPIC = "__share_group_state"

INTERNAL_TOPICS = frozenset({GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_GROUP_STATE_TOPIC})

#: The client id of Kafka's own admin client, which may write to internal topics.
ADMIN_CLIENT_ID = "__admin_client"
