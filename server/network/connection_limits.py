"""Limits of the number of connections of a node and of the rate at which they are made."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from ...metadata.configs import connection_overrides
from ..config.listener_prefix import listener_prefix

if TYPE_CHECKING:
    from ..config.broker_config import BrokerConfig

_UNLIMITED = 2**31 - 1
_RATE: Final = "max.connection.creation.rate"
#: Between two connections where the rate is 0.
_AS_GOOD_AS_NEVER_S = 3600.0


class LimitExceeded(NamedTuple):
    """`key` is the configuration key whose limit is reached."""

    key: str
    words: str


class ConnectionLimits:
    """The connections of one broker, counted as they come and go.

    The limits are `max.connections`, `max.connections.per.ip` with its overrides and `max.connection.creation.rate`,
    the first and last also for one listener (`listener.name.<name>.`). The configuration is read for each connection,
    so a dynamic change applies from the next one on (KIP-402, KIP-612).
    """

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._open = 0
        self._by_ip: Counter[str] = Counter()
        self._by_listener: Counter[str] = Counter()
        #: When the next connection is due, of the broker (None) and of each listener that has a rate of its own.
        self._due_s: dict[str | None, float] = {}

    @property
    def open(self) -> int:
        return self._open

    def enter(self, ip: str, listener: str) -> LimitExceeded | None:
        """Counts a connection in, or returns the limit that it would exceed."""
        config = self._config
        most_of_ip = config.get("max.connections.per.ip")
        overrides = config.get("max.connections.per.ip.overrides")
        if overrides:
            most_of_ip = connection_overrides(overrides).get(ip, most_of_ip)
        if self._by_ip[ip] >= most_of_ip:
            return _exceeded("max.connections.per.ip", self._by_ip[ip], most_of_ip)
        if self._open >= (most := config.get("max.connections")):
            return _exceeded("max.connections", self._open, most)
        if self._by_listener[listener] >= (most := self._of(listener, "max.connections")):
            return _exceeded(f"max.connections of {listener}", self._by_listener[listener], most)
        self._by_ip[ip] += 1
        self._by_listener[listener] += 1
        self._open += 1
        return None

    def leave(self, ip: str, listener: str) -> None:
        self._open -= 1
        self._by_listener[listener] -= 1
        self._by_ip[ip] -= 1
        if not self._by_ip[ip]:
            del self._by_ip[ip]

    def pause_s(self, listener: str, now_s: float) -> float:
        """Returns how long a new connection must wait so that the creation rate is not exceeded, in seconds."""
        of_broker = self._turn(None, self._config.get(_RATE), now_s)
        return max(of_broker, self._turn(listener, self._of(listener, _RATE), now_s))

    def _of(self, listener: str, key: str) -> int:
        """The key's value for this listener alone; no limit when it has none."""
        prefixed = listener_prefix(listener) + key
        if not self._config.is_set(prefixed):
            return _UNLIMITED
        value = self._config.value_of(prefixed)
        assert isinstance(value, int)
        return value

    def _turn(self, whose: str | None, per_second: int, now_s: float) -> float:
        if per_second >= _UNLIMITED:
            return 0.0
        due_s = max(now_s, self._due_s.get(whose, 0.0))
        self._due_s[whose] = due_s + (1 / per_second if per_second else _AS_GOOD_AS_NEVER_S)
        return due_s - now_s


def _exceeded(key: str, there: int, limit: int) -> LimitExceeded:
    return LimitExceeded(key, f"{there} connections are open ({key} is {limit})")
