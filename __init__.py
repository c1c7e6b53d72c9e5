"""Odradek: a Kafka-compatible broker in Python.

`Broker` runs one inside the process that imports it; the `odradek` command runs one as a process of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .server.embedded import Broker

__version__ = "0.1.0"
__all__ = ["Broker", "__version__"]


def __getattr__(name: str) -> Any:
    # Imported on demand: `odradek --help` and the pytest plugin need not pay for the whole server.
    if name == "Broker":
        from .server.embedded import Broker

        return Broker
    raise AttributeError(name)
