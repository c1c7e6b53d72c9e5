"""Partitions of a response that have nothing new, encoded one beside the other."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...protocol.codec import stepwise_element_encoder
from ...protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from ...protocol.tree import remembered
from ..runtime.sliced_work import run_to_completion

if TYPE_CHECKING:
    from ..runtime.counters import TopicMetrics

#: The fields of a partition in a response up to the log start offset, from the version on that has this.
WITH_LOG_START = PartitionData.versions_with("log_start_offset")
_FLEXIBLE = FetchResponse.flexible_versions()
_BEGINNING = ">ihqqq"


@remembered
def packer(version: int, *, isolated: bool) -> tuple[Callable[..., bytes], bytes]:
    """Returns the function that packs a partition without records or an error, and its last argument. The others are the
    index, 0, the high watermark, the last stable offset and the log start offset.
    """
    encode = stepwise_element_encoder(FetchResponse, "responses", version)

    def encoded(partitions: list[PartitionData]) -> bytes:
        pieces: list[bytes] = []
        run_to_completion(encode(FetchableTopicResponse(partitions=partitions), pieces.append))
        return b"".join(pieces)

    tags = 1 if version in _FLEXIBLE else 0  # behind the partitions of a topic
    data = PartitionData(aborted_transactions=[] if isolated else None, records=b"")
    whole, without = encoded([data]), encoded([])
    end = whole[len(without) - tags + struct.calcsize(_BEGINNING) : len(whole) - tags]
    return struct.Struct(f"{_BEGINNING}{len(end)}s").pack, end


class QuietPartitions:
    """Encoded partitions of one topic, which have nothing new."""

    __slots__ = ("contents", "counters")

    def __init__(self, counters: TopicMetrics) -> None:
        self.contents: list[bytes] = []
        self.counters = counters
