"""Restores a backup to another cluster, by the Kafka protocol.

Offsets are kept where the partition of the backup has no gaps between its first record and its end: records of no content
fill the offsets below the first, and are deleted at the end. Otherwise (compaction, transactions), and where there is too
much to fill, records get the offsets 0, 1, 2 and so on. In both cases the offset of a group is that of the first record
that it has not read.

A restore that was killed is completed by the same command. A journal in the store, written before the first topic is
created, lists the topics of the target that are the restore's own. How far a partition is follows from its end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ...protocol.records.record import Record
from ..client.admin_calls import LATEST, alter_configs, described_topics, partition_offsets
from ..client.connection import Connection
from ..client.errors import CommandError
from ..groups.offsets import commit
from .chunks import records
from .manifests import Manifest, Part, Topic
from .sending import Sending
from .stores import Store
from .target_topics import RESTORE_CONFIGS, create, delete_fillers, own_configs

#: Offsets that are filled to keep those of the records; a million takes some seconds.
MOST_FILLED = 1_000_000


@dataclass(slots=True)
class Restored:
    """A partition as it was restored."""

    topic: str
    partition: int
    records: int
    kept: bool


class Restoring:
    """One restore. `topics`: regular expressions that match whole names."""

    def __init__(
        self,
        connection: Connection,
        store: Store,
        manifest: Manifest,
        topics: Iterable[str],
        *,
        replication_factor: int | None,
        with_groups: bool,
    ) -> None:
        self._connection = connection
        self._store = store
        self._manifest = manifest
        patterns = [re.compile(one) for one in topics]
        self.topics = [
            topic for topic in manifest.topics if not patterns or any(one.fullmatch(topic.name) for one in patterns)
        ]
        self._replication_factor = replication_factor
        self._with_groups = with_groups
        #: (topic, partition) -> offset of a group in the backup -> its offset in the target.
        self._mapped: dict[tuple[str, int], dict[int, int]] = {}

    def restore(self, progress: Callable[[int], None] = lambda _: None) -> list[Restored]:
        """Restores the topics. Raises CommandError; the next try continues where this one stopped."""
        with self._connection.admin() as admin:
            cluster = admin.describe_cluster()
            self._begin_journal(admin, f"restores/{cluster['cluster_id']}-{self._manifest.number:010}.json")
            brokers = len(cluster["brokers"])
            for topic in self.topics:
                create(admin, topic, min(self._replication_factor or topic.replication_factor, brokers))
            done = [self._partition(admin, topic, part, progress) for topic in self.topics for part in topic.parts]
            for topic in self.topics:
                delete_fillers(self._connection, topic, [part for part in topic.parts if is_kept(part)])
                self._configure(admin, topic)
            if self._with_groups:
                self._commit(admin)
        return done

    def _begin_journal(self, admin: Any, name: str) -> None:
        """Raises CommandError for topics that were there before."""
        names = [topic.name for topic in self.topics]
        own: list[str] = []
        if name in self._store.names("restores"):
            own = json.loads(self._store.read(name))["topics"]
        there = {str(topic["name"]) for topic in described_topics(admin, None)}
        foreign = sorted(there & set(names) - set(own))
        if foreign:
            raise CommandError(
                f"the target has {len(foreign)} of the topics already: {', '.join(foreign[:5])}; delete them, or choose "
                "others with --topic"
            )
        self._store.write(name, json.dumps({"topics": sorted({*own, *names})}).encode())

    # ---- records

    def _partition(self, admin: Any, topic: Topic, part: Part, progress: Callable[[int], None]) -> Restored:
        where = (topic.name, part.partition)
        described = described_topics(admin, [topic.name])
        end = partition_offsets(admin, described, LATEST).get(where)
        if end is None:
            raise CommandError(f"{topic.name}-{part.partition} has no leader now: try again when it has")
        kept = is_kept(part)
        fillers = part.first if kept else 0
        total = fillers + part.records
        sending = Sending(self._connection, topic.name, part.partition)
        try:
            sending.fill(max(0, fillers - end))
            for position, record in self._numbered(where, part, fillers, kept):
                if position >= end:
                    sending.send(record)
                    progress(1)
        finally:
            sending.end()
        now = partition_offsets(admin, described, LATEST)[where]
        if now != total:
            raise CommandError(
                f"{topic.name}-{part.partition} ends at {now}, where the restore wrote up to {total}: something else writes "
                "to it; delete the topic and restore it again"
            )
        return Restored(topic.name, part.partition, part.records, kept)

    def _numbered(self, where: tuple[str, int], part: Part, fillers: int, kept: bool) -> Iterator[tuple[int, Record]]:
        """Records with their offsets in the target. Notes where the offsets of groups are."""
        wanted = sorted(
            {o for group in self._manifest.groups for topic, index, o in group.offsets if (topic, index) == where}
        )
        mapped = self._mapped[where] = {}
        if kept:
            mapped.update({offset: max(0, min(offset, part.end)) for offset in wanted})
            wanted = []
        position = fillers
        for record in records(self._store, part):
            while wanted and wanted[0] <= record.offset:
                mapped[wanted.pop(0)] = position
            yield position, record
            position += 1
        mapped.update(dict.fromkeys(wanted, position))

    # ---- configs and groups

    def _configure(self, admin: Any, topic: Topic) -> None:
        """The configs of the backup, in place of those that let old records be written."""
        there = own_configs(admin, topic.name)
        changes: dict[str, tuple[str, str | None]] = {key: ("SET", value) for key, value in topic.configs.items()}
        changes |= {key: ("DELETE", None) for key in there if key in RESTORE_CONFIGS and key not in topic.configs}
        if changes:
            alter_configs(admin, "topic", topic.name, changes, dry_run=False)

    def _commit(self, admin: Any) -> None:
        for group in self._manifest.groups:
            offsets = {
                (topic, index): self._mapped[topic, index][offset]
                for topic, index, offset in group.offsets
                if (topic, index) in self._mapped
            }
            if offsets:
                commit(admin, group.group, offsets)


def is_kept(part: Part) -> bool:
    return not part.has_gaps and part.first <= MOST_FILLED
