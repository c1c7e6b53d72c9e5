"""The keys of tables that follow topics: their place, and the login of the process that keeps them."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ...client.properties import read_client_properties
from ...client.user_errors import Misused
from ...metadata.configs import InvalidConfig
from ...metadata.configs.table_rules import CATALOG, WAREHOUSE

if TYPE_CHECKING:
    from .broker_config import BrokerConfig

CLIENT = "odradek.table.client.config"
#: Finding them imports nothing.
_PACKAGES = ("pyiceberg", "pyarrow", "numba", "confluent_kafka")
_PLAINTEXT = "PLAINTEXT"


@dataclass(frozen=True)
class TableSettings:
    """One of `warehouse` and `catalog` is set. Paths are absolute. `protocol`: of the listener for the login."""

    warehouse: Path | None
    catalog: Path | None
    client: Path | None
    protocol: str
    namespace: str
    freshness_s: float


def table_settings(config: BrokerConfig) -> TableSettings | None:
    """None where this node has no place for tables. Raises InvalidConfig, also for files that cannot be read."""
    warehouse, catalog = config.get("odradek.table.warehouse"), config.get("odradek.table.catalog.config")
    if warehouse is None and catalog is None:
        return None
    if warehouse is not None and catalog is not None:
        raise InvalidConfig(f"{WAREHOUSE} and {CATALOG} name two places for tables: set one of them")
    if not config.is_broker:  # a controller checks the configs of topics alone
        return None
    _check_packages(WAREHOUSE if catalog is None else CATALOG)
    if catalog is not None:
        _properties(CATALOG, catalog)
    client = config.get("odradek.table.client.config")
    return TableSettings(
        None if warehouse is None else Path(warehouse).absolute(),
        None if catalog is None else Path(catalog).absolute(),
        None if client is None else Path(client).absolute(),
        _protocol(config, client),
        config.get("odradek.table.namespace"),
        config.get("odradek.table.freshness.ms") / 1000,
    )


def _check_packages(key: str) -> None:
    if any(find_spec(name) is None for name in _PACKAGES):
        from ...extras import install_command  # it imports much

        raise InvalidConfig(f"{key} needs packages that are not installed: {install_command('tables')}")


def _protocol(config: BrokerConfig, client: str | None) -> str:
    advertised = {one.name for one in config.listeners.advertised}
    protocols = [one.protocol for one in config.listeners.brokers if one.name in advertised]
    if client is None:
        if _PLAINTEXT not in protocols:
            raise InvalidConfig(
                f"tables that follow topics need a login: no listener is {_PLAINTEXT}, so set {CLIENT}=FILE with the "
                "security properties of a client"
            )
        return _PLAINTEXT
    protocol = _properties(CLIENT, client).get("security.protocol", _PLAINTEXT).strip().upper()
    if protocol not in protocols:
        raise InvalidConfig(
            f"{CLIENT}: {client} has security.protocol={protocol}, and the advertised listeners are "
            f"{', '.join(sorted(set(protocols)))}"
        )
    return protocol


def _properties(key: str, file: str) -> dict[str, str]:
    try:
        return read_client_properties(Path(file))
    except Misused as error:
        raise InvalidConfig(f"{key}: {error}") from None
