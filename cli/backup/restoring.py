"""One restore of a backup to another cluster, by the Kafka protocol.

Offsets are kept: the restore fills those that have no record. Where that is too much, or where the user wants no
fillers between records, the records of a partition get the offsets 0, 1, 2 and so on. In both cases the offset of a
group is that of the first record that it has not read.

A restore that was killed is completed by the same command. A journal in the store, written before the first topic
is created, lists the topics of the target that are the restore's own. How far a partition is follows from its end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...admin.config_alteration import alter_configs
from ...admin.configs import own_configs
from ...admin.connection import Connection
from ...admin.groups import list_groups
from ...admin.log_offsets import partition_offsets
from ...admin.nodes import describe_cluster
from ...admin.offset_reset import commit
from ...admin.topics import described_topics
from ...client.user_errors import UserError
from ...protocol.log_places import LATEST
from ...protocol.records.record import Record
from ...tiers.segment_metadata import METADATA_TOPIC
from .chunks import records
from .fillers import Fillers
from .manifests import GroupOffsets, Manifest, Part, Topic
from .sending import Sending
from .settings import SettingsWriter
from .stores import Store
from .target_topics import check_creation, create, delete_fillers, description, restore_configs

if TYPE_CHECKING:
    from ...admin.session import Admin

#: Offsets that are filled below the log start: 5,000,000 a second, with 20 bytes for 1000.
MOST_BELOW_START = 1_000_000_000
#: Offsets of gaps, each filled by a marker: 6000 a second, with 78 bytes for each.
MOST_IN_GAPS = 1_000_000
#: Topics that an error names; it counts the others.
MOST_NAMED = 5
_WITHOUT_MEMBERS = ("Empty", "Dead")
_WITHOUT_GROUPS = "restore no offsets with --no-groups"


@dataclass(slots=True)
class Restored:
    """A partition as it was restored."""

    topic: str
    partition: int
    records: int
    kept: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreOptions:
    """The choice of a restore. `topics`: regular expressions that match whole names; none for all topics.

    `replication_factor`: None for that of the backup. `renumber`: gives records the offsets 0, 1, 2 and so on.
    """

    topics: Sequence[str]
    replication_factor: int | None
    with_groups: bool
    with_settings: bool
    renumber: bool


class Restoring:
    """One restore."""

    def __init__(
        self,
        connection: Connection,
        store: Store,
        manifest: Manifest,
        options: RestoreOptions,
    ) -> None:
        self._connection = connection
        self._store = store
        self._manifest = manifest
        patterns = [re.compile(one) for one in options.topics]
        # Backups of older versions have it. Its events are of the store of the cluster that wrote them: another cluster with
        # the same store would take that cluster's segments for those of deleted topics.
        matching = [one for one in manifest.topics if not patterns or any(it.fullmatch(one.name) for it in patterns)]
        self.topics = [one for one in matching if one.name != METADATA_TOPIC]
        self._options = options
        self.warnings: list[str] = []
        if len(self.topics) != len(matching):
            self.warnings.append(
                f"{METADATA_TOPIC} is not restored: its records are of the other cluster's remote store"
            )
        #: (topic, partition) -> offset of a group in the backup -> its offset in the target.
        self._mapped: dict[tuple[str, int], dict[int, int]] = {}

    def restore(self, progress: Callable[[int], None] = lambda _: None) -> list[Restored]:
        """Restores the topics. Raises UserError; the next try continues where this one stopped."""
        with self._connection.admin() as admin:
            cluster = describe_cluster(admin)
            brokers = len(cluster.brokers)
            journal = f"restores/{cluster.cluster_id}-{self._manifest.number:010}.json"
            writer = SettingsWriter(admin, self._manifest.settings)
            self._check(admin, writer, self._own_topics(journal), brokers)
            self._begin_journal(journal)
            for topic in self.topics:
                create(admin, topic, self._replicas(topic, brokers))
            done = [self._partition(admin, topic, part, progress) for topic in self.topics for part in topic.parts]
            for topic in self.topics:
                delete_fillers(admin, topic, [part for part in topic.parts if self.keeps_offsets(part)])
                self._configure(admin, topic)
            if self._options.with_settings:
                writer.write()
                self.warnings += writer.warnings
            if self._options.with_groups:
                self._commit(admin)
        return done

    def check(self) -> None:
        """Raises UserError for what would end the restore, before anything is written."""
        with self._connection.admin() as admin:
            cluster = describe_cluster(admin)
            journal = f"restores/{cluster.cluster_id}-{self._manifest.number:010}.json"
            writer = SettingsWriter(admin, self._manifest.settings)
            self._check(admin, writer, self._own_topics(journal), len(cluster.brokers))

    def _check(self, admin: Admin, writer: SettingsWriter, own: set[str], brokers: int) -> None:
        there = {str(topic.name) for topic in described_topics(admin, None)}
        foreign = sorted(there & {topic.name for topic in self.topics} - own)
        if foreign:
            named = ", ".join(foreign[:MOST_NAMED])
            more = f" and {len(foreign) - MOST_NAMED} more" if len(foreign) > MOST_NAMED else ""
            raise UserError(
                f"the target has {len(foreign)} of the topics already: {named}{more}; delete them, or choose others with "
                "--topic"
            )
        for topic in self.topics:
            if topic.name not in there:
                check_creation(admin, topic, self._replicas(topic, brokers))
        if self._options.with_groups:
            self._check_groups(admin)
        if self._options.with_settings:
            writer.check()

    def _check_groups(self, admin: Admin) -> None:
        """Raises UserError for a group that has members, or is of another kind in the target."""
        restored = {topic.name for topic in self.topics}
        wanted = {
            group.group: is_share
            for groups, is_share in ((self._manifest.groups, False), (self._manifest.share_groups, True))
            for group in groups
            if any(topic in restored for topic, *_ in group.offsets)
        }
        for one in list_groups(admin):
            is_share = wanted.get(one.group_id)
            if is_share is None:
                continue
            if (one.kind == "share") != is_share:
                raise UserError(f"group {one.group_id} is of another kind in the target: {_WITHOUT_GROUPS}")
            if (one.group_state or "Empty") not in _WITHOUT_MEMBERS:
                raise UserError(f"group {one.group_id} has members: stop them first, or {_WITHOUT_GROUPS}")

    def _replicas(self, topic: Topic, brokers: int) -> int:
        return min(self._options.replication_factor or topic.replication_factor, brokers)

    def _own_topics(self, journal: str) -> set[str]:
        """The topics of the target that an earlier try has created."""
        if journal not in self._store.names("restores"):
            return set()
        return set(json.loads(self._store.read(journal))["topics"])

    def _begin_journal(self, name: str) -> None:
        names = self._own_topics(name) | {topic.name for topic in self.topics}
        self._store.write(name, json.dumps({"topics": sorted(names)}).encode())

    # ---- records

    def _partition(self, admin: Admin, topic: Topic, part: Part, progress: Callable[[int], None]) -> Restored:
        where = (topic.name, part.partition)
        described = description(admin, topic)
        end = partition_offsets(admin, described, LATEST).get(where)
        if end is None:
            raise UserError(f"{topic.name}-{part.partition} has no leader: try again when it has one")
        kept = self.keeps_offsets(part)
        sending = Sending(self._connection, topic.name, part.partition)
        if kept:
            total = part.end
            self._map_kept(where, part)
            self._write_kept(sending, Fillers(admin, topic.name, part.partition), part, end, progress)
        else:
            total = part.records
            for position, record in self._numbered(where, part):
                if position >= end:
                    sending.send(record)
                    progress(1)
            sending.flush()
        now = partition_offsets(admin, described, LATEST)[where]
        if now != total:
            raise UserError(
                f"{topic.name}-{part.partition} ends at {now}, but the restore wrote up to {total}: another client writes "
                "to it; delete the topic and restore it again"
            )
        return Restored(topic.name, part.partition, part.records, kept)

    def keeps_offsets(self, part: Part) -> bool:
        if part.gaps and (self._options.renumber or part.gaps > MOST_IN_GAPS):
            return False
        return part.base <= MOST_BELOW_START

    def _write_kept(
        self, sending: Sending, fillers: Fillers, part: Part, position: int, progress: Callable[[int], None]
    ) -> None:
        """Writes the records at their own offsets; `position` is the end of the partition in the target."""
        fillers.fill_below_start(part.base - position)
        position = max(position, part.base)
        for record in records(self._store, part):
            if record.offset < position:
                continue
            if record.offset > position:
                sending.flush()
                fillers.fill_gap(record.offset - position)
            sending.send(record)
            progress(1)
            position = record.offset + 1
        sending.flush()
        fillers.fill_gap(part.end - position)

    def _wanted_offsets(self, where: tuple[str, int]) -> list[int]:
        """Offsets of groups in the backup, in order."""
        return sorted(
            {
                offset
                for group in (*self._manifest.groups, *self._manifest.share_groups)
                for topic, index, offset, _ in group.offsets
                if (topic, index) == where
            }
        )

    def _map_kept(self, where: tuple[str, int], part: Part) -> None:
        self._mapped[where] = {offset: min(offset, part.end) for offset in self._wanted_offsets(where)}

    def _numbered(self, where: tuple[str, int], part: Part) -> Iterator[tuple[int, Record]]:
        """Records with their offsets in the target. Notes where the offsets of groups are."""
        wanted = self._wanted_offsets(where)
        mapped = self._mapped[where] = {}
        position = 0
        for record in records(self._store, part):
            while wanted and wanted[0] <= record.offset:
                mapped[wanted.pop(0)] = position
            yield position, record
            position += 1
        mapped.update(dict.fromkeys(wanted, position))

    # ---- configs and groups

    def _configure(self, admin: Admin, topic: Topic) -> None:
        """The configs of the backup, in place of those that let old records be written."""
        there = own_configs(admin, topic.name)
        changes: dict[str, tuple[str, str | None]] = {key: ("SET", value) for key, value in topic.configs.items()}
        changes |= {
            key: ("DELETE", None) for key in there if key in restore_configs(topic) and key not in topic.configs
        }
        if changes:
            alter_configs(admin, "topic", topic.name, changes, dry_run=False)

    def _commit(self, admin: Admin) -> None:
        for group in self._manifest.groups:
            metadata = {(topic, index): text for topic, index, _, text in group.offsets}
            offsets = self._mapped_offsets(group)
            if offsets:
                commit(admin, group.group, offsets, metadata=metadata)
        for group in self._manifest.share_groups:
            offsets = self._mapped_offsets(group)
            if offsets:
                commit(admin, group.group, offsets, shares=True)

    def _mapped_offsets(self, group: GroupOffsets) -> dict[tuple[str, int], int]:
        """Offsets in the topics that are restored."""
        return {
            (topic, index): self._mapped[topic, index][offset]
            for topic, index, offset, _ in group.offsets
            if (topic, index) in self._mapped
        }
