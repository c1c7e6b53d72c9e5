"""Quotas by a class of a user's own: `client.quota.callback.class=python:package.module:Name` (KIP-257).

It decides which clients share a quota, and the quota. Without it both follow from the quotas in the metadata of the
cluster.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from .quota_lookup import Quota, Share

if TYPE_CHECKING:
    from ....metadata.image import QuotaEntity

log = logging.getLogger("odradek.quotas")


class QuotaKind(Enum):
    """The kinds of quotas. The units of their limits: bytes a second, percent of a second, partitions a second."""

    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"
    REQUEST = "request_percentage"
    CONTROLLER_MUTATION = "controller_mutation_rate"


@runtime_checkable
class ClientQuotaCallback(Protocol):
    """Decides on the quotas of clients. It runs in the event loop: it must answer at once, from memory.

    A quota that it returns for a client is kept until `quota_reset_required` returns True.
    """

    def quota_tags(self, kind: QuotaKind, principal: str, client_id: str) -> Mapping[str, str]:
        """Returns what names the quota of a client: clients with the same tags share one. `principal`: "User:alice"."""

    def quota_limit(self, kind: QuotaKind, tags: Mapping[str, str]) -> float | None:
        """Returns the limit for these tags; None for no limit."""

    def quota_reset_required(self, kind: QuotaKind) -> bool:
        """Returns whether a limit may have changed since the last call. The broker calls it for each request."""


@runtime_checkable
class FollowsQuotas(Protocol):
    """A callback that uses the quotas in the metadata of the cluster, as `kafka-configs.sh` sets them."""

    def quotas_changed(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Takes all quotas by entity: pairs of "user", "client-id" or "ip" and a name, None for the default."""


class OwnQuotas:
    """The quotas of a callback. An exception is logged, and the client then has no quota."""

    def __init__(self, callback: ClientQuotaCallback) -> None:
        self._callback = callback

    def quota(self, kind: QuotaKind, principal: str, client_id: str) -> Quota | None:
        """Returns the quota of a client, and the clients that share it."""
        try:
            tags = self._callback.quota_tags(kind, principal, client_id)
            limit = self._callback.quota_limit(kind, tags)
            return None if limit is None else Quota(Share(repr(sorted(tags.items())), ""), float(limit))
        except Exception:
            log.exception("%s failed; %s has no quota", type(self._callback).__name__, kind.value)
            return None

    def have_changed(self, kinds: Iterable[QuotaKind]) -> bool:
        """Returns whether a limit of one of the kinds may have changed. It calls the callback for every kind."""
        try:
            return True in [self._callback.quota_reset_required(kind) for kind in kinds]
        except Exception:
            log.exception("%s failed; quotas are unchanged", type(self._callback).__name__)
            return False

    def follow(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Passes on the quotas in the metadata of the cluster."""
        if isinstance(self._callback, FollowsQuotas):
            try:
                self._callback.quotas_changed(quotas)
            except Exception:
                log.exception("%s failed to apply the quotas of the cluster", type(self._callback).__name__)
