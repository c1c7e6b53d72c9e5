"""Makes the parts that decide what clients may do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...replication.controller.security.policies import Policies
from ..access.audit import AuditLog

if TYPE_CHECKING:
    from ..access.authorization.authorization import Authorization
    from ..access.quotas.client_quotas import OwnQuotas
    from ..config.broker_config import BrokerConfig
    from ..node import Node


def authorization(node: Node) -> tuple[AuditLog, Authorization | None]:
    """Returns the audit log, and what authorizes clients; None where they may do everything. Raises InvalidConfig."""
    audit = AuditLog(node.clock, as_json=node.config.get("odradek.audit.format") == "json")
    if not node.config.get("authorizer.class.name").strip():
        return audit, None
    from ..access.authorization.authorization import Authorization

    return audit, Authorization(node.config.values.static, audit, node.clock.now_ms())


def quota_callback(config: BrokerConfig) -> OwnQuotas | None:
    """Returns the class of a user's own that decides on quotas, if there is one. Raises InvalidConfig."""
    name = config.get("client.quota.callback.class")
    if name is None:
        return None
    from ..access.plugins import load_class
    from ..access.quotas.client_quotas import ClientQuotaCallback, OwnQuotas

    return OwnQuotas(load_class("client.quota.callback.class", name, ClientQuotaCallback, config.values.static))


def policies(config: BrokerConfig) -> Policies:
    """Returns the policies of a node's controller. Raises InvalidConfig."""
    properties = config.values.static
    if not any(properties.get(f"{name}.policy.class.name", "").strip() for name in ("create.topic", "alter.config")):
        return Policies()
    from ..access.policies import read_policies

    return read_policies(properties)
