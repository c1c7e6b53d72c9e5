"""Access to a node, as one subsystem: who clients are, what they may do, and how much of it."""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import TYPE_CHECKING

from ...metadata.image import EMPTY_IMAGE
from ...replication.controller.policies import Policies
from ..config.broker_config import BrokerConfig
from ..config.own_classes import load_class
from ..runtime.subsystem import Subsystem, stop_each
from .audit import AuditLog
from .authentication.sasl_listeners import SaslListeners
from .quotas.client_quotas import ClientQuotas

if TYPE_CHECKING:
    from ...metadata.delta import MetadataDelta, Part
    from ...metadata.image import MetadataImage
    from ..runtime.clock import Clock
    from ..runtime.node import Node
    from .authorization.authorization import Authorization
    from .quotas.quota_callback import OwnQuotas


class AccessSubsystem(Subsystem):
    """Logins, authorization with its audit log, quotas of clients, and a user's own policies. Raises InvalidConfig."""

    name = "access"
    interest: Set[Part] = frozenset({"client_quotas", "acls"})

    def __init__(self, node: Node) -> None:
        config, clock, metadata = node.config, node.clock, node.metadata
        self._metadata = metadata
        self.audit = AuditLog(clock, as_json=config.get("odradek.audit.format") == "json")
        #: None where every client may do everything.
        self.authorizer = _authorizer(config, self.audit, clock)
        self.policies = _policies(config)
        self.quotas = ClientQuotas(config, _quota_callback(config))
        self.sasl = SaslListeners(config, metadata)

    async def start(self) -> None:
        """Raises InvalidConfig."""
        self.sasl.check()

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> Iterable[None]:
        """Follows the access rules and the quotas of a new image. The rules are followed whatever becomes of the quotas."""
        try:
            self.quotas.apply(delta.client_quotas, image.client_quotas)
        finally:
            if self.authorizer is not None:
                published = self._metadata.image
                yield from self.authorizer.steps(published.acls, delta.acls, is_first=published is EMPTY_IMAGE)

    async def stop(self) -> None:
        await stop_each((self.sasl.stop, self.audit.stop))


def _authorizer(config: BrokerConfig, audit: AuditLog, clock: Clock) -> Authorization | None:
    if not config.get("authorizer.class.name").strip():
        return None
    from .authorization.authorization import Authorization

    return Authorization(config.values.static, audit, clock.now_ms())


def _quota_callback(config: BrokerConfig) -> OwnQuotas | None:
    """Returns the class of a user's own that decides on quotas, if there is one."""
    name = config.get("client.quota.callback.class")
    if name is None:
        return None
    from .quotas.quota_callback import ClientQuotaCallback, OwnQuotas

    return OwnQuotas(load_class("client.quota.callback.class", name, ClientQuotaCallback, config.values.static))


def _policies(config: BrokerConfig) -> Policies:
    """Returns the policies of a node's controller."""
    properties = config.values.static
    if not any(properties.get(f"{name}.policy.class.name", "").strip() for name in ("create.topic", "alter.config")):
        return Policies()
    from .policies import read_policies

    return read_policies(properties)
