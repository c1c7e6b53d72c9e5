"""The address of a listener, and the name by which nodes recognise one another."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An entry of `listeners`; the host is "" for every interface."""

    name: str
    host: str
    port: int

    @property
    def address(self) -> str:
        """host:port, as clients take it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
