"""Decisions about quotas of clients (KIP-546)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...metadata.client_quotas import entity_error, value_error
from ...metadata.image import QuotaEntity
from ...protocol.errors import ErrorCode
from ...protocol.internal.cluster_metadata import ClientQuotaRecord, QuotaRecordEntity
from ...protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntryDataResponse,
    OpData,
)
from ...protocol.messages.quota_entities import EntityData
from .result import ControllerResult
from .state import ControllerState

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
    response = AlterClientQuotasResponse(entries=[_respond(key, words) for key, words in errors.items()])
    return ControllerResult(records, response, validate_only=request.validate_only)


def named(entity: Sequence[EntityData]) -> dict[str, str | None]:
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


def _parts(key: QuotaEntity) -> list[QuotaRecordEntity]:
    return [QuotaRecordEntity(entity_type=kind, entity_name=name) for kind, name in key]


def _respond(key: QuotaEntity, words: str | None) -> EntryDataResponse:
    return EntryDataResponse(
        error_code=ErrorCode.NONE if words is None else ErrorCode.INVALID_REQUEST,
        error_message=words,
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in key],
    )


def _shown(entity: Entity) -> str:
    """Returns an entity as Kafka's error messages show it."""
    parts = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in sorted(entity.items()))
    return f"ClientQuotaEntity(entries={{{parts}}})"
