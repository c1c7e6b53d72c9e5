"""ClientQuotaRecords: the changes of AlterClientQuotas (KIP-546).

The changes of one entity are made together or not at all; the entities of a request are independent. An entity that a
request names twice is changed by its first entry and answered with an error, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ....metadata.client_quotas import entity_error, value_error
from ....metadata.image import QuotaEntity
from ....protocol.errors import ErrorCode
from ....protocol.internal.cluster_metadata import ClientQuotaRecord
from ....protocol.internal.cluster_metadata import EntityData as RecordEntity
from ....protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityDataRequest,
    EntityDataResponse,
    EntryDataResponse,
    OpData,
)
from ..result import ControllerResult
from ..state import ControllerState

Entity = Mapping[str, str | None]


def alter_client_quotas(state: ControllerState, request: AlterClientQuotasRequest, version: int) -> ControllerResult:
    records: list[ClientQuotaRecord] = []
    errors: dict[QuotaEntity, str | None] = {}
    for entry in request.entries:
        entity = named(entry.entity)
        key = tuple(sorted(entity.items()))
        if key in errors or len({op.key for op in entry.ops}) < len(entry.ops):
            errors[key] = f"Ignoring duplicate entity {_shown(entity)}"
            continue
        errors[key] = entity_error(entity)
        if errors[key] is None:
            made = _altered(state, entity, key, entry.ops)
            if isinstance(made, str):
                errors[key] = made
            else:
                records += made
    response = AlterClientQuotasResponse(entries=[_answer(key, words) for key, words in errors.items()])
    return ControllerResult(records, response, validate_only=request.validate_only)


def named(entity: Sequence[EntityDataRequest]) -> dict[str, str | None]:
    """Returns the name of each kind in an entity; if a kind comes twice, the last one."""
    return {part.entity_type: part.entity_name for part in entity}


def _altered(
    state: ControllerState, entity: Entity, key: QuotaEntity, ops: Sequence[OpData]
) -> list[ClientQuotaRecord] | str:
    """Returns the records of what changes, or the error."""
    current: Mapping[str, float] = state.image.client_quotas.get(key, {})
    records = []
    for op in ops:
        if op.remove:
            if op.key in current:
                records.append(ClientQuotaRecord(entity=_parts(key), key=op.key, value=0.0, remove=True))
            continue
        wrong = value_error(entity, op.key, op.value)
        if wrong is not None:
            return wrong
        if current.get(op.key) != op.value:
            records.append(ClientQuotaRecord(entity=_parts(key), key=op.key, value=op.value, remove=False))
    return records


def _parts(key: QuotaEntity) -> list[RecordEntity]:
    return [RecordEntity(entity_type=kind, entity_name=name) for kind, name in key]


def _answer(key: QuotaEntity, words: str | None) -> EntryDataResponse:
    return EntryDataResponse(
        error_code=ErrorCode.NONE if words is None else ErrorCode.INVALID_REQUEST,
        error_message=words,
        entity=[EntityDataResponse(entity_type=kind, entity_name=name) for kind, name in key],
    )


def _shown(entity: Entity) -> str:
    """Returns an entity as Kafka's error messages show it."""
    parts = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in sorted(entity.items()))
    return f"ClientQuotaEntity(entries={{{parts}}})"
