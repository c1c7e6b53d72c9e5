"""Tables that follow topics, as their cluster shows them: the broker of each, its state and its lag. Reads no table."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from ..admin.configs import describe_topic_configs
from ..admin.group_lag import lags
from ..admin.group_offsets import committed
from ..admin.lag import sum_of
from ..admin.pipeline_progress import ARCHIVE_GROUPS, PipelineProgress, newest_progress
from ..admin.topics import Topic, describe_topics
from .followed_topic import CONFIGS, FollowedTopic, in_words_of_configs, is_enabled
from .store import ArchiveError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..admin.configs import ConfigValue
    from ..admin.session import Admin

#: States: no commit so far; the last turn failed; records are left; none are.
WAITING, FAILING, BEHIND, UP_TO_DATE = "waiting", "failing", "behind", "up to date"


@dataclass(frozen=True)
class FollowedStatus:
    """`broker`: keeps the table; None without a leader of partition 0. `commit_ms`: of the last commit, None before it.

    `error`: why the last turn failed, "" where it did not.
    """

    topic: str
    table: str
    broker: int | None
    state: str
    lag: int | None
    commit_ms: int | None
    error: str

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def followed_tables(admin: Admin, namespace: str) -> list[FollowedStatus]:
    """The tables of all topics with odradek.table.enable=true that the user may see, by topic. Raises RequestFailed."""
    topics = {one.name: one for one in describe_topics(admin, None) if not one.error_code}
    configs = describe_topic_configs(admin, sorted(topics), CONFIGS, without_denied=True)
    texts = {name: _texts(values) for name, values in configs.items()}
    return [_status(admin, topics[name], texts[name], namespace) for name in sorted(texts) if is_enabled(texts[name])]


def _texts(values: Mapping[str, ConfigValue]) -> dict[str, str]:
    return {key: one.value for key, one in values.items() if one.value is not None}


def _status(admin: Admin, topic: Topic, configs: Mapping[str, str], namespace: str) -> FollowedStatus:
    leader = next((one.leader_id for one in topic.partitions if one.partition_index == 0), -1)
    broker = leader if leader >= 0 else None
    try:
        table = f"{namespace}.{FollowedTopic.of_configs(topic.name, configs).name}"
    except ArchiveError as error:
        return FollowedStatus(topic.name, "", broker, FAILING, None, None, str(error))
    group = ARCHIVE_GROUPS + table
    commits = committed(admin, group)
    progress = newest_progress(one.metadata for one in commits.values())
    if progress is None:
        return FollowedStatus(topic.name, table, broker, WAITING, None, None, "")
    lag = sum_of(one.lag for one in lags(admin, {group: "classic"}).get(group, []) if one.topic == topic.name)
    reason = in_words_of_configs(progress.error, topic.name)
    return FollowedStatus(topic.name, table, broker, _state(progress, lag), lag, progress.at_ms or None, reason)


def _state(progress: PipelineProgress, lag: int | None) -> str:
    if progress.error:
        return FAILING
    return UP_TO_DATE if lag == 0 else BEHIND
