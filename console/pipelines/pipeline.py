"""A pipeline as pages show it: something that reads topics and is behind their ends, or is not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from ...admin.lag import sum_of
from ...admin.pipeline_progress import PipelineProgress
from ...admin.places import Place

#: Pipelines of a kind, and partitions of all pipelines of a kind, that are read.
MOST_PIPELINES, MOST_PARTITIONS = 200, 2000


class Kind(StrEnum):
    mirror = "mirror"
    tier = "tier"
    archive = "archive"
    query = "query"
    sink = "sink"
    replay = "replay"


class Reading(NamedTuple):
    """A partition. `position`: the next offset to take; `lag`: offsets from there to `end`. None: unknown."""

    topic: str
    partition: int
    position: int | None
    end: int | None
    lag: int | None
    state: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """`place`: the other side, as the addresses of a source or a folder. `lag`: in offsets; `lag_bytes` of tiers, None
    where nothing tells them. `progress_ms`: the time of the newest progress. `behind_s`: seconds since it was at the end.

    `rate`: offsets per second. `batch`: the number of the last batch, -1 for none. `dead_letters`: records that were set
    aside since its process began. `error`: why it stands. `unknown`: why its lag is not known.
    """

    kind: Kind
    name: str
    place: str
    state: str
    tone: str
    readings: tuple[Reading, ...]
    progress_ms: int | None = None
    behind_s: float | None = None
    lag_bytes: int | None = None
    lag_segments: int | None = None
    #: The group that has its commits, "" for none.
    group: str = ""
    rate: float | None = None
    batch: int = -1
    dead_letters: int | None = None
    error: str = ""
    unknown: str = ""

    def with_progress(self, progress: PipelineProgress, group: str) -> Pipeline:
        """This pipeline with what its newest commit to a group has."""
        state, tone = ("failed", "bad") if progress.error else (self.state, self.tone)
        return replace(
            self, state=state, tone=tone, group=group, batch=progress.batch, dead_letters=progress.dead_letters,
            error=progress.error, progress_ms=self.progress_ms or progress.at_ms or None,
        )  # fmt: skip

    def beside(self, of_group: Pipeline) -> Pipeline:
        """This pipeline, by its table or checkpoint, with what its group alone has."""
        is_failed = bool(of_group.error)
        return replace(
            self, group=of_group.group, batch=of_group.batch, dead_letters=of_group.dead_letters, error=of_group.error,
            state=of_group.state if is_failed else self.state, tone=of_group.tone if is_failed else self.tone,
        )  # fmt: skip

    def with_pace(self, rate: float | None, behind_s: float | None) -> Pipeline:
        return replace(self, rate=rate, behind_s=behind_s)

    @property
    def lag(self) -> int | None:
        return sum_of(one.lag for one in self.readings)

    @property
    def topics(self) -> list[str]:
        return sorted({one.topic for one in self.readings})

    @property
    def series(self) -> str:
        """The name of its series in the history."""
        return f"pipeline/{self.kind}/{self.name}"

    @property
    def charted(self) -> int | None:
        """The lag that its chart shows: in bytes for tiers."""
        return self.lag_bytes if self.kind is Kind.tier else self.lag


def read_until(positions: Mapping[Place, int], ends: Mapping[Place, int]) -> tuple[Reading, ...]:
    """Readings of positions; without an end, which a deleted topic has not, a partition has no lag."""
    return tuple(_reading(place, positions[place], ends.get(place)) for place in sorted(positions))


def _reading(place: Place, position: int, end: int | None) -> Reading:
    return Reading(*place, position, end, None if end is None else max(0, end - position))


def bounded(places: Iterable[Place]) -> list[Place]:
    return sorted(places)[:MOST_PARTITIONS]
