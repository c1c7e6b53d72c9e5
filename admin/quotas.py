"""Quotas of users, client ids and addresses (KIP-546)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntryDataRequest, OpData
from ..protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from ..protocol.messages.quota_entities import EntityData
from .errors import check
from .session import Admin

_EXACT, _DEFAULT = 0, 1

#: Names by kind (user, client-id, ip); None is the default of the kind.
Entity = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Quota:
    entity: dict[str, str | None]
    values: dict[str, float]


def describe_quotas(admin: Admin, entity: Entity) -> list[Quota]:
    """Quotas whose entity has these names; all for an empty one."""
    components = [
        ComponentData(entity_type=kind, match_type=_EXACT if name is not None else _DEFAULT, match=name)
        for kind, name in entity.items()
    ]
    request = DescribeClientQuotasRequest(components=components, strict=False)
    response = admin.repeated(lambda: admin.ask(request))
    check("quotas", response.error_code, response.error_message)
    return [
        Quota({one.entity_type: one.entity_name for one in entry.entity}, {one.key: one.value for one in entry.values})
        for entry in response.entries or ()
    ]


def alter_quotas(
    admin: Admin, entity: Entity, changes: Mapping[str, float | None], *, validate_only: bool = False
) -> None:
    """Sets quotas; None deletes one. Raises ResponseError."""
    entry = EntryDataRequest(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in changes.items()],
    )
    response = admin.ask_controller(AlterClientQuotasRequest(entries=[entry], validate_only=validate_only))
    words = " ".join(f"{kind}={'<default>' if name is None else name}" for kind, name in sorted(entity.items())[::-1])
    for one in response.entries:
        check(f"quota of {words}", one.error_code, one.error_message)
