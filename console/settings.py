"""Options of a console, as its operator gives them at the start."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

#: Days that the history behind the charts is kept, and the most that may be chosen.
DAYS, MOST_DAYS = 7, 31


@dataclass(frozen=True, slots=True)
class Archives:
    """Options of `odradek archive` that name its tables: a folder of Iceberg tables, a catalog, or a folder of Parquet."""

    warehouse: Path | None = None
    catalog: tuple[str, ...] = ()
    parquet: Path | None = None
    namespace: str = ""

    def __bool__(self) -> bool:
        return self.warehouse is not None or bool(self.catalog) or self.parquet is not None

    @property
    def place(self) -> str:
        folder = self.warehouse or self.parquet
        return str(folder) if folder is not None else "the catalog"


@dataclass(slots=True)
class Settings:
    """`users` is the file of `odradek console --add-user`, `oidc` that of an issuer of logins; without both everybody on
    this machine is an administrator."""

    host: str = "127.0.0.1"
    port: int = 8080
    read_only: bool = False
    users: Path | None = None
    masks: tuple[str, ...] = ()
    #: "": none, whatever the environment has.
    schema_registry: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    audit_file: Path | None = None
    is_tls: bool = False
    #: Addresses of nodes' /metrics, for client connections and telemetry.
    metrics: tuple[str, ...] = field(default_factory=tuple)
    oidc: Path | None = None
    #: The address of a Kafka Connect cluster's REST interface.
    connect: str | None = None
    #: Tables of `odradek archive`, and checkpoints of Spark's queries, whose lag is shown.
    archives: Archives = field(default_factory=Archives)
    checkpoints: tuple[Path, ...] = ()
    #: The folder of the files behind the charts, and the days that these keep; 0: nothing is kept on disk.
    history: Path | None = None
    history_days: int = DAYS

    @property
    def has_logins(self) -> bool:
        return self.users is not None or self.oidc is not None
