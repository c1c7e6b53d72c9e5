"""Records that a test puts into a topic without a client of its own; faults do not strike them."""

from __future__ import annotations

import socket
import struct
from typing import Any

from ...protocol.apis import APIS
from ...protocol.codec import decode, encode
from ...protocol.errors import ErrorCode
from ...protocol.internal.headers import RequestHeader
from ...protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ...protocol.records.record import Record, encode_batch
from ..faults.matching import OWN_CLIENT_ID

_VERSION = 9
_TIMEOUT_S = 30.0


def send(address: str, topic: str, partition: int, records: list[Record]) -> int:
    """Sends records to the leader of a partition. Returns the offset of the first. Blocks. Raises RuntimeError, OSError."""
    for offset, record in enumerate(records):
        record.offset = offset
    part = PartitionProduceData(index=partition, records=encode_batch(records))
    request = ProduceRequest(
        acks=-1, timeout_ms=int(_TIMEOUT_S * 1000), topic_data=[TopicProduceData(name=topic, partition_data=[part])]
    )
    result = _ask(address, request).responses[0].partition_responses[0]
    if result.error_code:
        raise RuntimeError(f"{topic}-{partition}: {ErrorCode(result.error_code).name} {result.error_message or ''}")
    return int(result.base_offset)


def _ask(address: str, request: ProduceRequest) -> Any:
    api = APIS[0]
    header = RequestHeader(
        request_api_key=api.key, request_api_version=_VERSION, correlation_id=1, client_id=OWN_CLIENT_ID
    )
    data = encode(header, api.request_header_version(_VERSION)) + encode(request, _VERSION)
    host, _, port = address.rpartition(":")
    with socket.create_connection((host.strip("[]"), int(port)), timeout=_TIMEOUT_S) as connection:
        connection.sendall(struct.pack(">i", len(data)) + data)
        with connection.makefile("rb") as answers:
            (size,) = struct.unpack(">i", answers.read(4))
            return decode(api.response, _VERSION, answers.read(size), 5)[0]
