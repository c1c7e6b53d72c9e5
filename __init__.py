"""Odradek: a Kafka-compatible broker in Python.

`Broker` runs one inside the process that imports it, `Cluster` several; the `odradek` command runs one as a process of its
own.
`Security` says how their clients connect.
`InvalidConfig` is what a broker's start raises for a property that it refuses.
`scan` reads the records of a topic as Arrow, from a data directory or a running broker, `relation` from its table and log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .version import __version__

if TYPE_CHECKING:
    from .archive.relation import relation
    from .columns import scan
    from .metadata.configs import InvalidConfig
    from .server.access.provisioning import Security
    from .testing.broker import Broker
    from .testing.cluster import Cluster


__all__ = ["Broker", "Cluster", "InvalidConfig", "Security", "__version__", "relation", "scan"]


if not TYPE_CHECKING:  # a checker would take every name for one that is here

    def __getattr__(name: str) -> object:
        # Imported on demand: `odradek --help` and the pytest plugin need not pay for the whole server.
        if name == "Broker":
            from .testing.broker import Broker

            return Broker
        if name == "Cluster":
            from .testing.cluster import Cluster

            return Cluster
        if name == "InvalidConfig":
            from .metadata.configs import InvalidConfig

            return InvalidConfig
        if name == "Security":
            from .server.access.provisioning import Security

            return Security
        if name == "relation":
            from .archive.relation import relation

            return relation
        if name == "scan":
            from .columns import scan

            return scan
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
