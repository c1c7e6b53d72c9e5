"""The throttle of replicas that move: rates of brokers, and the replicas that have them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ..admin.balance import Placement
from ..admin.config_alteration import alter_configs
from ..admin.nodes import describe_cluster
from ..admin.places import Place

if TYPE_CHECKING:
    from ..admin.session import Admin

_RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
_REPLICAS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


def set_throttle(admin: Admin, before: Placement, moved: Mapping[Place, list[int]], rate: int) -> None:
    """Leaders are those that have a replica before, followers those that get one, as Kafka's tool has it."""
    brokers = {node for place, held in moved.items() for node in (*held, *before[place])}
    for node in sorted(brokers):
        changes = {key: ("SET", str(rate)) for key in _RATES}
        alter_configs(admin, "broker", str(node), changes, dry_run=False)
    for name in sorted({topic for topic, _ in moved}):
        places = [place for place in moved if place[0] == name]
        leading = [f"{place[1]}:{node}" for place in places for node in before[place]]
        following = [f"{place[1]}:{node}" for place in places for node in moved[place] if node not in before[place]]
        values = dict(zip(_REPLICAS, (",".join(leading), ",".join(following)), strict=True))
        alter_configs(admin, "topic", name, {key: ("SET", value) for key, value in values.items()}, dry_run=False)


def remove_throttle(admin: Admin, topics: Iterable[str]) -> None:
    for node in [one.broker_id for one in describe_cluster(admin).brokers]:
        alter_configs(admin, "broker", str(node), dict.fromkeys(_RATES, ("DELETE", None)), dry_run=False)
    for name in sorted(topics):
        alter_configs(admin, "topic", name, dict.fromkeys(_REPLICAS, ("DELETE", None)), dry_run=False)
