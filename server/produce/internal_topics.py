"""The rule for clients that write to internal topics, and to `__remote_log_metadata`.

Coordinators write internal topics. A Produce to one is INVALID_TOPIC_EXCEPTION unless it comes from Kafka's admin client
(`ReplicaManager.appendRecords`, `internalTopicsAllowed`). The metadata of tiered storage is no internal topic in Kafka: its
nodes write to it as clients, and so may everyone where there are no rules. A wrong record there makes records of tiered
topics unreachable, so this rule goes beyond Kafka's: the client id must be one of `odradek.remote.log.metadata.client.ids`,
and nodes must be able to read each record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ...metadata.internal_topics import REMOTE_LOG_METADATA_TOPIC
from ...protocol.errors import ErrorCode
from ...protocol.records.batch import HEADER_BYTES, read_header
from ...protocol.records.errors import BatchError
from ...protocol.records.record import decode_batch
from ..partitions.append_result import AppendResult

if TYPE_CHECKING:
    from ...protocol.schema import Records

CLIENT_IDS: Final = "odradek.remote.log.metadata.client.ids"
#: The client id of Kafka's own admin client, which may write to internal topics.
ADMIN_CLIENT_ID = "__admin_client"
#: The most bytes of a batch of metadata, decompressed: a node writes some events of 200 bytes at once.
MOST_METADATA_BYTES = 2 << 20
#: The most events of a batch: each takes 6 us of the loop, and a wrong one has its line in the response. Nodes of Odradek
#: write 100 at once; a producer of Kafka fills 16 KB, and splits a batch that is MESSAGE_TOO_LARGE.
MOST_EVENTS = 1000

_NOT_ALLOWED = AppendResult(ErrorCode.INVALID_TOPIC_EXCEPTION)


def rejection(
    topic: str, client_id: str | None, records: Records, metadata_client_ids: Sequence[str]
) -> AppendResult | None:
    """Returns why a client's batch may not be written to a guarded topic; None if it may."""
    if topic != REMOTE_LOG_METADATA_TOPIC:
        return None if client_id == ADMIN_CLIENT_ID else _NOT_ALLOWED
    if not any(_is_one(client_id or "", pattern) for pattern in metadata_client_ids):
        words = f"client id {client_id or ''!r} is not one of {CLIENT_IDS}"
        return AppendResult(ErrorCode.INVALID_TOPIC_EXCEPTION, error_message=words)
    return _undecodable(records)


def _is_one(client_id: str, pattern: str) -> bool:
    return client_id.startswith(pattern[:-1]) if pattern.endswith("*") else client_id == pattern


def _undecodable(records: Records) -> AppendResult | None:
    from ...tiers.events import DamagedMetadata, decode_event  # few brokers have tiered storage

    if records is None or len(records) < HEADER_BYTES:
        return None
    if len(records) > MOST_METADATA_BYTES:
        return AppendResult(ErrorCode.MESSAGE_TOO_LARGE)
    try:
        header = read_header(records)
        if header.record_count > MOST_EVENTS:
            return AppendResult(ErrorCode.MESSAGE_TOO_LARGE, error_message=f"more than {MOST_EVENTS} events in a batch")
        found = decode_batch(records, header=header, limit=MOST_METADATA_BYTES)
    except BatchError as error:
        return AppendResult(error.error_code, error_message=str(error))
    errors: list[tuple[int, str]] = []
    for number, record in enumerate(found):
        try:
            decode_event(record.value or b"")
        except DamagedMetadata as error:
            errors.append((number, str(error)))
    if not errors:
        return None
    words = f"{len(errors)} records are no metadata of remote segments"
    return AppendResult(ErrorCode.INVALID_RECORD, record_errors=errors, error_message=words)
