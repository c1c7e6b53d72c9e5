"""The parts of a running console, which pages and actions get."""

from __future__ import annotations

from ..admin.connection import Connection
from ..heap import malloc_trim
from .access.single_sign_on import SingleSignOn, read_settings
from .access.users import Users
from .cluster.connect import ConnectCluster
from .cluster.history import History
from .cluster.links import Links
from .cluster.masks import Masks
from .cluster.model import Snapshot
from .cluster.node_metrics import NodeMetrics
from .cluster.poller import Poller
from .cluster.record_reader import RecordReader
from .cluster.records import RecordMaker
from .cluster.schemas import SchemaCatalog
from .cluster.tails import Tails
from .cluster.topic_rates import TopicRates
from .pipelines.watch import PipelineWatch
from .settings import Settings


class Backend:
    """`context`: the name of the cluster's context, "" where it has none."""

    def __init__(self, connection: Connection, settings: Settings, context: str = "") -> None:
        self.context = context
        self.connection = connection
        self.settings = settings
        self.users = Users(settings.users) if settings.users is not None else None
        self.single_sign_on = SingleSignOn(read_settings(settings.oidc)) if settings.oidc is not None else None
        self.masks = Masks(settings.masks)
        self.links = Links(connection)
        registry = connection.registry_url(settings.schema_registry) or None
        self.schemas = None if registry is None else SchemaCatalog(registry, connection.registry_user_info)
        self.connect = ConnectCluster(settings.connect) if settings.connect else None
        self.metrics = NodeMetrics(settings.metrics)
        self.records = RecordReader(connection, RecordMaker(connection, self.masks, registry), lambda: self.away)
        self.tails = Tails(self.records)
        self.rates = TopicRates()
        folder = settings.history if settings.history_days else None
        self.poller = Poller(connection, self._tidy, History(folder, settings.history_days))
        self.pipelines = PipelineWatch(connection, self.poller, settings.archives, settings.checkpoints, self.metrics)
        self._trim = malloc_trim() or (lambda: None)
        self._is_warm = False

    def _tidy(self) -> None:
        """After each poll: tails without viewers end, and glibc gives freed memory back to the system."""
        if not self._is_warm:
            self._is_warm = True
            self.links.warm()
        self.tails.sweep()
        self._trim()

    @property
    def snapshot(self) -> Snapshot:
        return self.poller.snapshot

    @property
    def away(self) -> frozenset[int]:
        """Brokers that pages do not ask: they are fenced, or gave the poller no response."""
        return self.poller.away

    @property
    def trouble(self) -> str:
        """Why what pages show is old or missing; "" where it is neither."""
        return self.snapshot.error or self.poller.lateness

    @property
    def cluster_name(self) -> str:
        """The name of the context, else the id of the cluster, else the address that leads to it."""
        return self.context or self.snapshot.cluster_id or self.connection.bootstrap

    @property
    def command_options(self) -> list[str]:
        """The words of a command that name this cluster."""
        if self.context:
            return ["--context", self.context]
        return ["-b", self.connection.bootstrap]

    def start(self) -> None:
        self.poller.start()
        self.pipelines.start()

    def stop(self) -> None:
        self.pipelines.stop()
        self.poller.stop()
        self.tails.close()
        self.records.close()
        self.links.close()
