"""Makes the parts that decide what clients may do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..security.audit import AuditLog

if TYPE_CHECKING:
    from ..node import Node
    from ..security.authorization.authorization import Authorization


def authorization(node: Node) -> tuple[AuditLog, Authorization | None]:
    """Returns the audit log, and what authorizes clients; None where they may do everything. Raises InvalidConfig."""
    audit = AuditLog(node.clock, as_json=node.config.get("odradek.audit.format") == "json")
    if not node.config.get("authorizer.class.name").strip():
        return audit, None
    from ..security.authorization.authorization import Authorization

    return audit, Authorization(node.config.values.static, audit, node.clock.now_ms())
