"""Delegation tokens (KIP-48): what the requests about them share, and their expiry on the active controller."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from ...metadata.configs import Password
from ...protocol.errors import ErrorCode
from ...replication.controller.security import RemoveExpiredTokensRequest

if TYPE_CHECKING:
    from ..config.broker_config import BrokerConfig
    from ..network.call import Call
    from ..runtime.clock import Clock
    from .driver import QuorumDriver

_ANONYMOUS = "User:ANONYMOUS"


class TokenServices(Protocol):
    """The parts of a node that these functions use."""

    @property
    def config(self) -> BrokerConfig: ...


def tokens_precondition(services: TokenServices, call: Call) -> ErrorCode:
    """Returns DELEGATION_TOKEN_REQUEST_NOT_ALLOWED unless the client is authenticated, and not by a token itself."""
    protocol = services.config.listeners.protocols.get(call.listener, "PLAINTEXT")
    is_anonymous = protocol == "PLAINTEXT" or (protocol == "SSL" and call.principal == _ANONYMOUS)
    if is_anonymous or call.connection.is_token_authenticated:
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return ErrorCode.NONE


def token_secret(config: BrokerConfig) -> str:
    """Returns `delegation.token.secret.key`; empty without one."""
    password = config.get("delegation.token.secret.key")
    return password.value if isinstance(password, Password) else ""


# ---- expiry


class TokenExpiry:
    """Removes the tokens that have expired, on the active controller, at each
    `delegation.token.expiry.check.interval.ms` from `start` to `stop`.
    """

    def __init__(self, config: BrokerConfig, clock: Clock, controller: QuorumDriver) -> None:
        self._interval_ms: int = config.get("delegation.token.expiry.check.interval.ms")
        self._clock = clock
        self._controller = controller
        self._timer: asyncio.TimerHandle

    def start(self) -> None:
        self._timer = self._clock.call_at(self._clock.now_ms() + self._interval_ms, self._due)

    def stop(self) -> None:
        self._timer.cancel()

    def _due(self) -> None:
        self.start()
        if self._controller.is_active:
            self._controller.decide(RemoveExpiredTokensRequest(), 0, _done)


def _done(_response: object) -> None:
    """The tokens that are left expire at the next check."""
