"""Options of a console, as its operator gives them at the start."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(slots=True)
class Settings:
    """`users` is the file of `odradek console --add-user`, `oidc` that of an issuer of logins; without both everybody on
    this machine is an administrator."""

    host: str = "127.0.0.1"
    port: int = 8080
    read_only: bool = False
    users: Path | None = None
    masks: tuple[str, ...] = ()
    schema_registry: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    audit_file: Path | None = None
    is_tls: bool = False
    #: Addresses of nodes' /metrics, for client connections and telemetry.
    metrics: tuple[str, ...] = field(default_factory=tuple)
    oidc: Path | None = None

    @property
    def has_logins(self) -> bool:
        return self.users is not None or self.oidc is not None
