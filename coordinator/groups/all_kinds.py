"""All kinds of groups."""

from __future__ import annotations

from .classic.kind import CLASSIC
from .consumer.kind import CONSUMER
from .kind import Kind
from .shard_state import ShardState
from .share.kind import KIND as SHARE
from .streams.kind import KIND as STREAMS

ALL_KINDS: tuple[Kind[ShardState], ...] = (CLASSIC, CONSUMER, SHARE, STREAMS)
