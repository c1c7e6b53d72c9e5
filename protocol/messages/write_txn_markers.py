"""WriteTxnMarkers (key 27): the transaction coordinator tells leaders to end transactions.

Between brokers only. Each marker becomes a control batch in its partitions; for `__consumer_offsets` the pending
commits are applied or dropped. A coordinator epoch older than the last seen is TRANSACTION_COORDINATOR_FENCED.

Versions 1-2, all flexible. Additions by version:
- 2: transaction version of each marker, which decides how the epoch is checked (KIP-1228)
"""

from __future__ import annotations

from ..schema import BOOL, INT8, INT16, INT32, INT64, STRING, Message, Request, array, message, struct, wire


@struct
class WritableTxnMarkerTopic(Message):
    name: str = wire(STRING)
    partition_indexes: list[int] = wire(array(INT32))


@struct
class WritableTxnMarker(Message):
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    transaction_result: bool = wire(BOOL)
    topics: list[WritableTxnMarkerTopic] = wire(array(WritableTxnMarkerTopic))
    coordinator_epoch: int = wire(INT32)
    transaction_version: int = wire(INT8, "2+")


@message("1-2", flexible="1+", key=27)
class WriteTxnMarkersRequest(Request["WriteTxnMarkersResponse"]):
    markers: list[WritableTxnMarker] = wire(array(WritableTxnMarker))


@struct
class WritableTxnMarkerPartitionResult(Message):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)


@struct
class WritableTxnMarkerTopicResult(Message):
    name: str = wire(STRING)
    partitions: list[WritableTxnMarkerPartitionResult] = wire(array(WritableTxnMarkerPartitionResult))


@struct
class WritableTxnMarkerResult(Message):
    producer_id: int = wire(INT64)
    topics: list[WritableTxnMarkerTopicResult] = wire(array(WritableTxnMarkerTopicResult))


@message("1-2", flexible="1+", key=27)
class WriteTxnMarkersResponse(Message):
    markers: list[WritableTxnMarkerResult] = wire(array(WritableTxnMarkerResult))
