"""AddOffsetsToTxn: the partition of `__consumer_offsets` that keeps the group joins a transaction.

Asked of the transaction's coordinator in the form of AddPartitionsToTxn, see coordinator/transaction_shard.py.

Contract: `protocol/messages/add_offsets_to_txn.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...metadata.internal_topics import GROUP_METADATA_TOPIC
from ...protocol.behaviour_versions import WITH_PRODUCER_FENCED
from ...protocol.errors import ErrorCode
from ...protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ...protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ..access.authorization.usual_requirements import on_group, on_transactional_id
from ..coordinators.transaction_coordinator import TRANSACTION_COORDINATOR
from ..network.api_endpoint import ApiEndpoint

if TYPE_CHECKING:
    from ..network.call import Call
    from ..services import Services

#: The client's form of AddPartitionsToTxn.
CLIENT_VERSION = AddPartitionsToTxnRequest.versions_with("v3_and_below_topics")[-1]


def handle(services: Services, call: Call[AddOffsetsToTxnRequest]) -> None:
    request = call.request
    index = services.coordinators.groups.partition_for(request.group_id)
    asked = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=request.transactional_id,
        v3_and_below_producer_id=request.producer_id,
        v3_and_below_producer_epoch=request.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(GROUP_METADATA_TOPIC, [index])],
    )

    def reply(response: AddPartitionsToTxnResponse) -> None:
        error = response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
        if error == ErrorCode.PRODUCER_FENCED and call.version not in WITH_PRODUCER_FENCED["AddOffsetsToTxn"]:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        call.reply(AddOffsetsToTxnResponse(error_code=error))

    services.coordinators.transactions().submit(request.transactional_id, asked, CLIENT_VERSION, call, reply)


ENDPOINT: ApiEndpoint[AddOffsetsToTxnRequest, AddOffsetsToTxnResponse] = ApiEndpoint(
    handle=handle, authorization=(on_transactional_id(), on_group()), place=TRANSACTION_COORDINATOR
)
