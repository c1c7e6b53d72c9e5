"""The update modes of broker configs: which can change while the broker runs, and for which scope (KIP-226).

A read-only key cannot. A per-broker key can be set for one broker, not as the default of all. A TLS key can be set
only with a listener prefix, as `listener.name.<listener>.<key>`. An unknown key can be set: it is for a plug-in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from .broker import LISTENER_ONLY
from .broker_values import LISTENER_PREFIX
from .key import Scope
from .resources import BROKER
from .values import InvalidConfig

_CLUSTER_WIDE_OF_LISTENERS = ("max.connections", "max.connection.creation.rate", "num.network.threads")


def _of_type(name: str, text: str) -> str | None:
    found = LISTENER_PREFIX.fullmatch(name)
    key = BROKER.get(found.group(1) if found else name)
    if key is None or key.scope is Scope.READ_ONLY:
        return None
    try:
        key.parse(text)
    except InvalidConfig as rejected:
        return str(rejected)
    return None


def _is_read_only(name: str) -> bool:
    return name in BROKER and BROKER[name].scope is Scope.READ_ONLY


def _is_per_broker(name: str) -> bool:
    found = LISTENER_PREFIX.fullmatch(name)
    if found:
        return found.group(1) not in _CLUSTER_WIDE_OF_LISTENERS
    return name in BROKER and BROKER[name].scope is Scope.PER_BROKER


def validate_dynamic_names(configs: Mapping[str, str], *, per_broker: bool) -> None:
    """Raises InvalidConfig if a key cannot be set in this scope, with Kafka's texts and order."""
    _reject("Cannot update these configs dynamically", filter(_is_read_only, configs))
    _reject(
        "These security configs can be dynamically updated only per-listener using the listener prefix",
        (name for name in configs if name in LISTENER_ONLY),
    )
    for name, text in configs.items():
        broken = _of_type(name, text)
        if broken:
            raise InvalidConfig(broken)
    if not per_broker:
        _reject(
            "Cannot update these configs at default cluster level, broker id must be specified",
            filter(_is_per_broker, configs),
        )


def _reject(words: str, names: Iterable[str]) -> None:
    found = list(names)
    if found:
        raise InvalidConfig(f"{words}: [{', '.join(found)}]")


def usable_dynamic_configs(
    configs: Mapping[str, str], *, per_broker: bool, rejected: Callable[[str, str], None]
) -> dict[str, str]:
    """Returns the stored values that can be applied; calls `rejected(name, why)` for each of the others."""
    usable: dict[str, str] = {}
    for name, text in configs.items():
        try:
            validate_dynamic_names({name: text}, per_broker=per_broker)
            usable[name] = text
        except InvalidConfig as why:
            rejected(name, str(why))
    return usable
