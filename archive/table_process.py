"""The process that keeps the tables of topics with odradek.table.enable=true. A broker starts it (server/tables/).

Standard input has lines of JSON: first the settings, then `{"topics": {NAME: {"id": ID, "configs": CONFIGS}}}` with all
topics, again at each change. Its end ends the process, after the commit in progress. Messages go to standard error.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from ..admin.connection import Connection
from ..admin.table_owner import Owner
from ..cli.messages import complain, warn
from ..cli.stop_signals import stop_on_signals
from ..client.properties import read_client_properties
from ..client.user_errors import UserError
from .archiver import Archiver
from .followed_topic import FollowedTopic, in_words_of_configs
from .iceberg import IcebergTable
from .keyed import Keyed
from .keyed_table import KeyedTable
from .store import ArchiveError, Table
from .table_options import explained, opened_catalog
from .topic_archive import ArchiveOptions, NotAssigned, TopicArchive

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

_CLIENT_ID = "odradek-tables"
#: The broker's requests come first where both want the processor.
_NICENESS = 5
#: A catalog on the network has no lock of a table: the broker that kept it until now ends its commit meanwhile.
_HANDOVER_S = 5.0


@dataclass(frozen=True)
class Settings:
    """One of `warehouse`, a folder, and `catalog`, a file of properties, is there. `client`: a file of properties."""

    bootstrap: str
    warehouse: Path | None
    catalog: Path | None
    client: Path | None
    namespace: str
    freshness_s: float

    @classmethod
    def of_line(cls, line: str) -> Settings:
        fields = json.loads(line)
        return cls(
            str(fields["bootstrap"]), _path(fields["warehouse"]), _path(fields["catalog"]), _path(fields["client"]),
            str(fields["namespace"]), float(fields["freshness_s"]),
        )  # fmt: skip

    def client_properties(self) -> dict[str, str]:
        """Raises Misused for a file that cannot be read. Its own `bootstrap.servers` count."""
        own = {} if self.client is None else read_client_properties(self.client)
        return {"bootstrap.servers": self.bootstrap, "client.id": _CLIENT_ID} | own


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


class Assigned(NamedTuple):
    """A topic of this process: its id, and the configs of its table."""

    id: str
    configs: dict[str, str]


class FollowedTables:
    """The tables of the assigned topics, kept by one archiver."""

    def __init__(self, settings: Settings, catalog: Catalog) -> None:
        """Raises Misused."""
        self._settings = settings
        self._catalog = catalog
        self._connection = Connection(settings.client_properties())
        self._topics: Mapping[str, Assigned] = {}
        self.archiver = Archiver(
            self._connection.properties,
            (),
            self._open_table,
            ArchiveOptions(freshness_s=settings.freshness_s, on_note=warn, table_of=self._table_of),
            on_error=self._show_error,
            open_archive=self._open_archive,
        )

    def assign(self, topics: Mapping[str, Assigned]) -> None:
        """From any thread."""
        self._topics = topics
        self.archiver.assign(topics, 0.0 if self._settings.warehouse is not None else _HANDOVER_S)

    def stop(self) -> None:
        self._topics = {}
        self.archiver.stop()

    def _topic(self, topic: str) -> FollowedTopic:
        """Raises NotAssigned where the topic went just now."""
        assigned = self._topics.get(topic)
        if assigned is None:
            raise NotAssigned(f"topic {topic}: another process keeps its table from now on")
        return FollowedTopic.of_configs(topic, assigned.configs)

    def _table_of(self, topic: str) -> str | None:
        try:
            return f"{self._settings.namespace}.{self._topic(topic).name}"
        except ArchiveError:
            return None

    def _open_table(self, owner: Owner) -> Table:
        followed, folder = self._topic(owner.topic), self._settings.warehouse
        namespace, layout = self._settings.namespace, followed.layout
        if isinstance(layout, Keyed):
            return KeyedTable(self._catalog, owner, layout, namespace=namespace, name=followed.name, lock_folder=folder)
        return IcebergTable(
            self._catalog, owner, namespace=namespace, name=followed.name, partition_by=layout, lock_folder=folder
        )

    def _open_archive(self, topic: str, table: Table, options: ArchiveOptions) -> TopicArchive:
        followed = self._topic(topic)
        own = replace(
            options,
            values=followed.values(self._connection),
            keep_value=followed.keep_value,
            skip_unreadable=followed.skip_unreadable,
            is_assigned=lambda: topic in self._topics,
        )
        return TopicArchive(topic, table, own)

    def _show_error(self, topic: str, error: Exception) -> None:
        if topic in self._topics:
            warn(f"topic {topic}: {in_words_of_configs(str(error), topic)}")


def follow(lines: Iterator[str]) -> None:
    """Keeps tables until the lines end. Raises UserError for settings that do not lead to tables, or a login."""
    settings = Settings.of_line(next(lines))
    with explained():
        catalog_properties = {} if settings.catalog is None else read_client_properties(settings.catalog)
        tables = FollowedTables(settings, opened_catalog(settings.warehouse, catalog_properties))
        tables.assign(_topics(next(lines)))
        stop_on_signals(tables.stop)
        threading.Thread(target=_read, args=(lines, tables), name="assignments", daemon=True).start()
        tables.archiver.run()


def _read(lines: Iterator[str], tables: FollowedTables) -> None:
    try:
        for line in lines:
            tables.assign(_topics(line))
    finally:
        tables.stop()


def _topics(line: str) -> dict[str, Assigned]:
    return {name: Assigned(one["id"], one["configs"]) for name, one in json.loads(line)["topics"].items()}


def _lines(file: IO[str]) -> Iterator[str]:
    """The whole lines of a file: one without an end is of a broker that was killed as it wrote."""
    for line in file:
        if line.endswith("\n"):
            yield line


def main() -> int:
    os.nice(_NICENESS)
    try:
        follow(_lines(sys.stdin))
    except StopIteration:
        return 0  # the broker ended first
    except UserError as error:
        return complain(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
