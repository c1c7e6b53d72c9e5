"""Tables that follow topics, as their cluster shows them: the broker of each, its state and its lag. Reads no table."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from ..admin.configs import describe_topic_configs
from ..admin.group_lag import lags_of
from ..admin.group_offsets import committed
from ..admin.lag import GroupProgress, sum_of
from ..admin.pipeline_progress import ARCHIVE_GROUPS, PipelineProgress, newest_progress
from ..admin.topics import Topic, describe_topics
from .followed_topic import CONFIGS, FollowedTopic, in_words_of_configs, is_enabled
from .store import ArchiveError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..admin.configs import ConfigValue
    from ..admin.group_offsets import Committed
    from ..admin.lag import Lag
    from ..admin.places import Place
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
    enabled = [name for name in sorted(texts) if is_enabled(texts[name])]
    commits = {name: _commits(admin, name, texts[name], namespace) for name in enabled}
    positions = {
        name: {place: GroupProgress(one.offset) for place, one in found.items() if place[0] == name}
        for name, found in commits.items()
    }
    lags = lags_of(admin, positions, {}, ())
    return [_status(topics[name], texts[name], namespace, commits[name], lags[name]) for name in enabled]


def _texts(values: Mapping[str, ConfigValue]) -> dict[str, str]:
    return {key: one.value for key, one in values.items() if one.value is not None}


def _table(topic: str, configs: Mapping[str, str], namespace: str) -> str:
    """Raises ArchiveError."""
    return f"{namespace}.{FollowedTopic.of_configs(topic, configs).name}"


def _commits(admin: Admin, topic: str, configs: Mapping[str, str], namespace: str) -> Mapping[Place, Committed]:
    """The commits of the group of a topic's table; none where its configs make no table."""
    try:
        return committed(admin, ARCHIVE_GROUPS + _table(topic, configs, namespace))
    except ArchiveError:
        return {}


def _status(
    topic: Topic, configs: Mapping[str, str], namespace: str, commits: Mapping[Place, Committed], lags: Sequence[Lag]
) -> FollowedStatus:
    leader = topic.leaders.get(0, -1)
    broker = leader if leader >= 0 else None
    try:
        table = _table(topic.name, configs, namespace)
    except ArchiveError as error:
        return FollowedStatus(topic.name, "", broker, FAILING, None, None, str(error))
    progress = newest_progress(one.metadata for one in commits.values())
    if progress is None:
        return FollowedStatus(topic.name, table, broker, WAITING, None, None, "")
    lag = sum_of(one.lag for one in lags)
    reason = in_words_of_configs(progress.error, topic.name)
    return FollowedStatus(topic.name, table, broker, _state(progress, lag), lag, progress.at_ms or None, reason)


def _state(progress: PipelineProgress, lag: int | None) -> str:
    if progress.error:
        return FAILING
    return UP_TO_DATE if lag == 0 else BEHIND
