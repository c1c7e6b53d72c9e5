"""DescribeClientQuotas: the quotas of the entities that match a filter (KIP-546).

Contract: `protocol/messages/describe_client_quotas.py`.
"""

from __future__ import annotations

from ...metadata.acls import Operation
from ...metadata.quota_filters import Component, InvalidFilter, QuotaFilter, describe
from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntryData,
    ValueData,
)
from ...protocol.messages.quota_entities import EntityData
from ..access.authorization.usual_requirements import on_cluster
from ..network.api_endpoint import ApiEndpoint
from ..network.call import Call
from ..network.work_in_turns import work_in_turns
from ..runtime.sliced_work import Steps
from ..services import Services


def handle(services: Services, call: Call[DescribeClientQuotasRequest]) -> DescribeClientQuotasResponse | None:
    request = call.request
    components = [Component(one.entity_type, one.match_type, one.match) for one in request.components]
    try:
        wanted = QuotaFilter(components, strict=request.strict)
    except InvalidFilter as invalid:
        code = ErrorCode.UNSUPPORTED_VERSION if invalid.is_unsupported else ErrorCode.INVALID_REQUEST
        return DescribeClientQuotasResponse(error_code=code, error_message=str(invalid), entries=None)
    work_in_turns(call, _described(services, wanted), call.reply)
    return None


def _described(services: Services, wanted: QuotaFilter) -> Steps[DescribeClientQuotasResponse]:
    entries = []
    for found in describe(services.metadata.image, wanted):
        if found is not None:
            entity, quotas = found
            entries.append(
                EntryData(
                    entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                    values=[ValueData(key=key, value=value) for key, value in sorted(quotas.items())],
                )
            )
        yield
    return DescribeClientQuotasResponse(entries=entries)


def _rejected(
    call: Call[DescribeClientQuotasRequest], error: ErrorCode, message: str | None
) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=error, error_message=None, entries=None)


ENDPOINT: ApiEndpoint[DescribeClientQuotasRequest, DescribeClientQuotasResponse] = ApiEndpoint(
    handle=handle, authorization=(on_cluster(Operation.DESCRIBE_CONFIGS),), reject=_rejected
)
