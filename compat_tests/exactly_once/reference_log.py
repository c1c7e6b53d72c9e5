"""The contents of a partition, computed from its raw batches: independent of the broker's view of stable and aborted.

It fetches all batches (read_uncommitted), and adds each to its producer's open transaction until a marker ends that. The
result shows independently which records a read_committed reader may see, and where it must stop.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from odradek.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.protocol.records.batch import BatchHeader
from odradek.protocol.records.control import ControlType, control_type
from odradek.protocol.records.record import Record

from compat_tests.batches import leader_of, read_batches
from compat_tests.wire import WireClient

_LIST_OFFSETS_VERSION = 7
_LATEST, _READ_COMMITTED = -1, 1

#: offset -> value
Records = dict[int, bytes]


@dataclass
class ReferenceLog:
    """The contents of a partition: `everything` for read_uncommitted, `committed` for read_committed."""

    everything: Records = field(default_factory=dict)
    committed: Records = field(default_factory=dict)
    aborted: Records = field(default_factory=dict)
    #: Producer id -> the records of its open transaction.
    open: dict[int, Records] = field(default_factory=dict)
    end_offset: int = 0


def reference_log_of(bootstrap: str, topic: str, partition: int) -> ReferenceLog:
    """Computes the current contents; there must be no writers."""
    reference = ReferenceLog()
    for header, records in read_batches(bootstrap, topic, partition):
        _follow(reference, header, records)
        reference.end_offset = header.next_offset
    return reference


def last_stable_offset(bootstrap: str, topic: str, partition: int) -> int:
    """Returns the broker's last stable offset."""
    asked = ListOffsetsPartition(partition_index=partition, timestamp=_LATEST)
    request = ListOffsetsRequest(-1, _READ_COMMITTED, [ListOffsetsTopic(topic, [asked])])
    with WireClient(leader_of(bootstrap, topic, partition)) as client:
        (response,) = client.call(request, _LIST_OFFSETS_VERSION).topics[0].partitions
    assert response.error_code == 0, response
    found: int = response.offset
    return found


def _follow(reference: ReferenceLog, header: BatchHeader, records: list[Record]) -> None:
    if header.is_control:
        ended = reference.open.pop(header.producer_id, {})
        kind = control_type(records[0].key)
        (reference.committed if kind is ControlType.COMMIT else reference.aborted).update(ended)
        return
    values = {record.offset: bytes(record.value or b"") for record in records}
    reference.everything.update(values)
    if header.is_transactional:
        reference.open.setdefault(header.producer_id, {}).update(values)
    else:
        reference.committed.update(values)
