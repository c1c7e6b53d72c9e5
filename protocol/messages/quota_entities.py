"""Users, client ids and addresses with quotas, in DescribeClientQuotas and AlterClientQuotas (KIP-546)."""

from __future__ import annotations

from ..schema import STRING, Message, struct, wire


@struct
class EntityData(Message):
    entity_type: str = wire(STRING)
    entity_name: str | None = wire(STRING, nullable="0+")
