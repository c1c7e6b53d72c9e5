"""All kinds of groups, as a coordinator of a test has them."""

from __future__ import annotations

from functools import partial

from odradek.coordinator.groups import offsets_topic_records
from odradek.coordinator.groups.all_kinds import ALL_KINDS
from odradek.coordinator.groups.kinds import Kinds
from odradek.coordinator.groups.shard import GroupShard
from odradek.coordinator.groups.shard_loader import ShardLoader
from odradek.coordinator.groups_config import GroupsConfig

KINDS = Kinds(ALL_KINDS)

encode_record = partial(offsets_topic_records.encode_record, KINDS)
decode_record = partial(offsets_topic_records.decode_record, KINDS)


def new_shard(config: GroupsConfig) -> GroupShard:
    return GroupShard(config, KINDS)


def new_loader(config: GroupsConfig, name: str) -> ShardLoader:
    return ShardLoader(config, KINDS, name)
