"""The progress of a pipeline beside its committed offsets: a JSON text in the metadata of one commit of its group.

Queries of Spark and archives keep their offsets in a checkpoint or a table, which alone decide where they continue. The
commits show those offsets to every Kafka tool. Nothing reads them back to continue.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum

#: The beginnings of the names of groups, by which pages find them.
QUERY_GROUPS, ARCHIVE_GROUPS, REPLAY_GROUPS = "odradek-query-", "odradek-archive-", "odradek-replay-"
#: The value of an option for the name of a group that turns commits off.
NO_GROUP = "none"
#: Limits of texts: the metadata of a commit has 4,096 bytes at most (`offset.metadata.max.bytes`).
_MOST_NAME, _MOST_ERROR = 300, 500
#: Version of the text of a commit.
_VERSION = 1
#: Each text begins so.
_BEGINNING = '{"odradek":'
#: Limit of numbers: those of other programs are not taken for times and counts.
_MOST_NUMBER = 2**53


class PipelineKind(StrEnum):
    query = "query"
    archive = "archive"


@dataclass(frozen=True, slots=True)
class PipelineProgress:
    """`at_ms`: when the last batch was done, 0 before the first. `batch`: its number, -1 where it is not known.

    `rows_per_s`: of that batch. `dead_letters`: records that were set aside since the process began. `error`: why the
    pipeline stands, "" where it does not.
    """

    kind: PipelineKind
    name: str
    at_ms: int
    batch: int = -1
    rows_per_s: float | None = None
    dead_letters: int | None = None
    error: str = ""

    def text(self) -> str:
        """The metadata of a commit."""
        fields = asdict(self)
        fields |= {"name": self.name[:_MOST_NAME], "error": self.error[:_MOST_ERROR]}
        present = {name: value for name, value in fields.items() if value not in (None, "", -1)}
        return json.dumps({"odradek": _VERSION, **present}, separators=(",", ":"), ensure_ascii=True)


def is_pipeline_progress(text: str) -> bool:
    """Returns whether the metadata of a commit may be a progress, for readers of many commits."""
    return text.startswith(_BEGINNING)


def parse_pipeline_progress(text: str) -> PipelineProgress:
    """Raises ValueError for the metadata of another program."""
    try:
        fields = json.loads(text)
        rate, dead_letters = fields.get("rows_per_s"), fields.get("dead_letters")
        progress = PipelineProgress(
            PipelineKind(fields["kind"]),
            str(fields["name"]),
            int(fields["at_ms"]),
            int(fields.get("batch", -1)),
            None if rate is None else float(rate),
            None if dead_letters is None else int(dead_letters),
            str(fields.get("error", "")),
        )
    except (AttributeError, KeyError, OverflowError, RecursionError, TypeError) as error:
        raise ValueError(f"not the progress of a pipeline: {error}") from None
    numbers = (progress.at_ms, progress.batch + 1, progress.rows_per_s or 0, progress.dead_letters or 0)
    if not all(0 <= number <= _MOST_NUMBER for number in numbers):
        raise ValueError(f"not the progress of a pipeline: its numbers are {numbers}"[:_MOST_ERROR])
    return progress


def newest_progress(texts: Iterable[str]) -> PipelineProgress | None:
    """The newest progress in the metadata of a group's commits; None where none has any."""
    known = []
    for text in texts:
        try:
            known.append(parse_pipeline_progress(text))
        except ValueError:
            continue
    return max(known, key=lambda one: one.at_ms, default=None)
