"""Changes of topics that commands and the console make.

Each function returns names of what was changed, or with `dry_run` of what would be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..admin import topic_changes
from ..admin import topics as requests
from ..admin.errors import ResponseError, check
from ..admin.log_offsets import LATEST, partition_offsets
from ..admin.nodes import describe_cluster
from ..admin.reassignments import alter_reassignments
from ..admin.topic_changes import NewTopic
from ..admin.topics import described_topics
from ..client.explained_errors import from_library
from ..client.user_errors import Misused, UserError
from ..client.wording import counted
from .client.config_changes import alter_configs
from .messages import warn
from .progress import Progress

if TYPE_CHECKING:
    from ..admin.session import Admin
    from ..admin.topic_changes import TopicResult
    from ..admin.topics import Topic

_UNKNOWN_TOPIC, _TOPIC_EXISTS = 3, 36
#: Topics in one request.
_AT_ONCE = 100


def create_topics(
    admin: Admin, names: Sequence[str], options: NewTopic, *, if_not_exists: bool, dry_run: bool
) -> list[str]:
    """With `dry_run` the broker validates and creates nothing."""
    outcome = _Outcome("created")
    with Progress("creating topics", len(names)) as progress:
        for some in _batches(names):
            for topic in topic_changes.create_topics(admin, dict.fromkeys(some, options), validate_only=dry_run):
                progress.advance()
                if not (if_not_exists and topic.error_code == _TOPIC_EXISTS):
                    outcome.add(topic.name, topic.error_code, topic.error_message)
    if outcome.done and not dry_run:
        # Other brokers learn of a topic a moment later: the next command may go to one of them.
        topic_changes.wait_for_topics(admin, outcome.done)
    return outcome.result()


class _Outcome:
    """The outcome of a request for each of several topics: some may be done although others have errors."""

    def __init__(self, word: str) -> None:
        self._word = word
        self.done: list[str] = []
        self._errors: list[UserError] = []

    def add(self, name: str, code: int, message: str | None = None) -> None:
        if code:
            error = from_library(ResponseError(f"topic {name}", code, message))
            assert error is not None
            self._errors.append(error)
        else:
            self.done.append(name)

    def result(self) -> list[str]:
        """Raises UserError for the first error; the line names what was done all the same."""
        if not self._errors:
            return self.done
        words = [str(error) for error in self._errors[:3]]
        if len(self._errors) > 3:
            words.append(f"and {counted(len(self._errors) - 3, 'more error')}")
        if self.done:
            words.append(f"{self._word} nevertheless: {', '.join(self.done)}")
        raise UserError("; ".join(words), self._errors[0].kind)


def delete_topics(admin: Admin, names: Sequence[str], *, if_exists: bool, dry_run: bool) -> list[str]:
    outcome = _Outcome("deleted")
    with Progress("deleting topics", len(names)) as progress:
        for some in _batches(names):
            topics: Sequence[Topic | TopicResult]
            if dry_run:
                topics = requests.describe_topics(admin, some)
            else:
                topics = topic_changes.delete_topics(admin, some)
            for topic in topics:
                progress.advance()
                if not (if_exists and topic.error_code == _UNKNOWN_TOPIC):
                    outcome.add(topic.name, topic.error_code)
    return outcome.result()


def _batches(names: Sequence[str]) -> list[list[str]]:
    return [list(names[start : start + _AT_ONCE]) for start in range(0, len(names), _AT_ONCE)]


def alter_topic(
    admin: Admin,
    name: str,
    partitions: int | None,
    replication_factor: int | None,
    configs: Mapping[str, tuple[str, str | None]],
    *,
    dry_run: bool,
) -> list[str]:
    (topic,) = described_topics(admin, [name])
    done = []
    if configs:
        alter_configs(admin, "topic", name, configs, dry_run=dry_run)
        done += [
            f"{name}: {key}" if word == "DELETE" else f"{name}: {key}={value}" for key, (word, value) in configs.items()
        ]
    if partitions is not None:
        for result in topic_changes.create_partitions(admin, {name: partitions}, validate_only=dry_run):
            check(f"topic {name}", result.error_code, result.error_message)
        done.append(f"{name}: {counted(partitions, 'partition')}")
    if replication_factor is not None:
        moved = _placed(admin, topic, replication_factor)
        if not dry_run:
            _reassign(admin, name, moved)
        done += [
            f"{name}-{index}: replicas {','.join(map(str, replicas))}" for index, replicas in sorted(moved.items())
        ]
    return done


def _placed(admin: Admin, topic: Topic, count: int) -> dict[int, list[int]]:
    """New replicas for each partition whose number differs. The first that run stay; new ones go where the fewest are."""
    brokers = [broker.broker_id for broker in describe_cluster(admin).brokers if not broker.is_fenced]
    if not 1 <= count <= len(brokers):
        raise Misused(f"--replication-factor {count}: the cluster has only {counted(len(brokers), 'broker')}")
    held = Counter(node for partition in topic.partitions for node in partition.replica_nodes)
    placed = {}
    for partition in topic.partitions:
        old = list(partition.replica_nodes)
        if len(old) == count:
            continue
        # A dead replica in place of one that runs would leave the partition with fewer live copies than `count`.
        new = sorted(old, key=lambda node: node not in brokers)[:count] if count < len(old) else old
        while len(new) < count:
            node = min((broker for broker in brokers if broker not in new), key=lambda broker: (held[broker], broker))
            held[node] += 1
            new.append(node)
        placed[partition.partition_index] = new
    return placed


def _reassign(admin: Admin, name: str, moved: Mapping[int, list[int]]) -> None:
    if moved:
        alter_reassignments(admin, {(name, index): replicas for index, replicas in moved.items()})


def trim_topic(admin: Admin, name: str, partition: int | None, before: int | None, *, dry_run: bool) -> list[str]:
    """Deletes records before an offset, None for all, of one partition or of all."""
    (topic,) = described_topics(admin, [name])
    chosen = [one.partition_index for one in topic.partitions if partition in (None, one.partition_index)]
    if not chosen:
        raise Misused(f"{name} has no partition {partition}")
    ends = partition_offsets(admin, [topic], LATEST)
    if leaderless := [f"{name}-{index}" for index in chosen if (name, index) not in ends]:
        raise UserError(
            f"{', '.join(leaderless)}: no leader now, and nothing was deleted; start a broker with a replica"
        )
    offsets = {index: ends[name, index] if before is None else min(before, ends[name, index]) for index in chosen}
    for index, offset in offsets.items():
        if before is not None and offset < before:
            warn(f"{name}-{index} ends at {offset}: its records before {offset} are deleted, not before {before}")
    if not dry_run:
        topic_changes.delete_records(admin, {(name, index): offset for index, offset in offsets.items()})
    return [f"{name}-{index}: before offset {offset}" for index, offset in offsets.items()]
