"""All kinds of groups."""

from __future__ import annotations

from .classic.kind import CLASSIC
from .consumer.kind import CONSUMER
from .shard_state import Kind
from .share.kind import KIND as SHARE
from .streams.kind import KIND as STREAMS

ALL_KINDS: tuple[Kind, ...] = (CLASSIC, CONSUMER, SHARE, STREAMS)
