"""The choice of a log directory for a new replica."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from .cordoning import cordoned_directories

if TYPE_CHECKING:
    from ...metadata.image import PartitionImage
    from ...storage.directory import LogDirectory
    from ..config.broker_config import BrokerConfig
    from .partitions import Partitions


class DirectoryChoice:
    """Counts the replicas in each directory once for all that come with one image; `begin` starts anew."""

    def __init__(self, node_id: int, config: BrokerConfig, partitions: Partitions) -> None:
        self._node_id = node_id
        self._config = config
        self._partitions = partitions
        self._replicas_in: Counter[LogDirectory] = Counter()

    def begin(self) -> None:
        self._replicas_in.clear()

    def directory_for(self, registration: PartitionImage) -> LogDirectory | None:
        """Returns the directory that the metadata names, or else the one with the fewest partitions. A cordoned one is
        chosen only where no other is online.
        """
        directories = self._partitions.directories
        online = [directory for directory in directories if directory.is_online]
        named = registration.directory(self._node_id)
        for directory in online:
            if directory.directory_id == named:
                return directory
        cordoned = cordoned_directories(self._config, directories)
        counts = self._counted()
        found = min([d for d in online if d not in cordoned] or online, key=counts.__getitem__, default=None)
        if found is not None:
            counts[found] += 1
        return found

    def _counted(self) -> Counter[LogDirectory]:
        if not self._replicas_in:
            self._replicas_in.update(hosted.directory for hosted in self._partitions.values())
        return self._replicas_in
