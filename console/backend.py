"""The parts of a running console, which pages and actions get."""

from __future__ import annotations

import contextlib
import ctypes

from ..cli.client.connection import Connection
from .access.masking import Masks
from .access.single_sign_on import SingleSignOn, read_settings
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
        self.single_sign_on = SingleSignOn(read_settings(settings.oidc)) if settings.oidc is not None else None
        self.masks = Masks(settings.masks)
        self.links = Links(connection)
        self.records = RecordReader(connection, self.masks, settings.schema_registry)
        self.tails = Tails(self.records)
        self.poller = Poller(connection, self._tidy)
        self._is_warm = False

    def _tidy(self) -> None:
        """After each poll: tails without viewers end, and glibc gives freed memory back to the system."""
        if not self._is_warm:
            self._is_warm = True
            self.links.warm()
        self.tails.sweep()
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)

    @property
    def snapshot(self) -> Snapshot:
        return self.poller.snapshot

    def start(self) -> None:
        self.poller.start()

    def stop(self) -> None:
        self.poller.stop()
        self.tails.close()
        self.links.close()
