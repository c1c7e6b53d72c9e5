"""The parts of a running console, which pages and actions get."""

from __future__ import annotations

from ..cli.client.connection import Connection
from .access.masking import Masks
from .access.users import Users
from .cluster.links import Links
from .cluster.model import Snapshot
from .cluster.poller import Poller
from .cluster.records import RecordReader
from .cluster.tails import Tails
from .settings import Settings


class Backend:
    def __init__(self, connection: Connection, settings: Settings) -> None:
        self.connection = connection
        self.settings = settings
        self.users = Users(settings.users) if settings.users is not None else None
        self.masks = Masks(settings.masks)
        self.links = Links(connection)
        self.records = RecordReader(connection, self.masks, settings.schema_registry)
        self.tails = Tails(self.records)
        self.poller = Poller(connection, self.tails.sweep)

    @property
    def snapshot(self) -> Snapshot:
        return self.poller.snapshot

    def start(self) -> None:
        self.poller.start()

    def stop(self) -> None:
        self.poller.stop()
        self.tails.close()
        self.links.close()
