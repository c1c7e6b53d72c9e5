"""A workload of the OpenMessaging Benchmark, as its YAML file describes it."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import yaml

#: Upstream's rate for "as fast as possible": no machine reaches it. Files with more records a second do not exist.
MAX_RATE = 10_000_000
KEY_DISTRIBUTORS = ("NO_KEY", "KEY_ROUND_ROBIN", "RANDOM_NANO")
#: A record carries the time at which it was due.
_LEAST_MESSAGE_SIZE = 8
_BYTES_PER_GB = 1024**3
#: Upstream reads these, but they decide nothing here: the durations are those of the command, and without compression the
#: content of a payload does not matter.
_UNUSED = {"payloadFile", "testDurationMinutes", "warmupDurationMinutes", "backlogDrainRatio"}


class WorkloadError(ValueError):
    """The file of a workload or driver cannot be used; the text has the reason."""


@dataclass(frozen=True)
class Workload:
    """Upstream's fields. `name` is the file's, by which upstream's reports call a workload, not the title in it.

    `producer_rate` is in records a second of all producers together, 0 for as many as the consumers keep up with.
    """

    name: str
    topics: int
    partitions_per_topic: int
    message_size: int
    subscriptions_per_topic: int
    consumer_per_subscription: int
    producers_per_topic: int
    producer_rate: float
    key_distributor: str = "NO_KEY"
    use_randomized_payloads: bool = False
    random_bytes_ratio: float = 1.0
    randomized_payload_pool_size: int = 1
    consumer_backlog_size_gb: float = 0

    @classmethod
    def read(cls, file: Path) -> Workload:
        """Reads a file. Raises WorkloadError."""
        found = read_yaml(file)
        named = {upstream_name(field.name): field for field in fields(cls) if field.name != "name"}
        unknown = set(found) - set(named) - _UNUSED - {"name"}
        if unknown:
            raise WorkloadError(f"{file}: unknown fields {', '.join(sorted(unknown))}")
        try:
            values = {field.name: _typed(found[key], str(field.type)) for key, field in named.items() if key in found}
            workload = cls(name=file.stem, **values)
        except (TypeError, ValueError) as error:
            raise WorkloadError(f"{file}: {error}") from None
        workload._check(file)
        return workload

    def _check(self, file: Path) -> None:
        counts = (self.topics, self.partitions_per_topic, self.subscriptions_per_topic, self.producers_per_topic)
        if min(*counts, self.consumer_per_subscription, self.randomized_payload_pool_size) < 1:
            raise WorkloadError(f"{file}: topics, partitions, subscriptions, consumers and producers must be 1 or more")
        if self.message_size < _LEAST_MESSAGE_SIZE:
            raise WorkloadError(f"{file}: messageSize must be {_LEAST_MESSAGE_SIZE} or more")
        if self.key_distributor not in KEY_DISTRIBUTORS:
            raise WorkloadError(f"{file}: keyDistributor must be one of {', '.join(KEY_DISTRIBUTORS)}")
        if self.has_backlog and not self.producer_rate:
            raise WorkloadError(f"{file}: a backlog needs a producerRate")

    @property
    def is_rated(self) -> bool:
        """Returns whether the records have due times: latencies of a workload at the highest rate tell of its buffers."""
        return 0 < self.producer_rate < MAX_RATE

    @property
    def has_backlog(self) -> bool:
        return self.consumer_backlog_size_gb > 0

    @property
    def backlog_bytes(self) -> int:
        return int(self.consumer_backlog_size_gb * _BYTES_PER_GB)

    def divided(self, rate: float, backlog: float) -> Workload:
        """Returns the workload with its rate and its backlog divided; the highest rate stays."""
        return replace(
            self,
            producer_rate=self.producer_rate / rate if self.is_rated else self.producer_rate,
            consumer_backlog_size_gb=self.consumer_backlog_size_gb / backlog,
        )


def read_yaml(file: Path) -> dict[str, Any]:
    try:
        found = yaml.safe_load(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        known = ", ".join(sorted(other.stem for other in file.parent.glob("*.yaml"))) or "none"
        raise WorkloadError(f"there is no {file}; the folder has: {known}") from None
    except yaml.YAMLError as error:
        raise WorkloadError(f"{file}: {error}") from None
    if not isinstance(found, dict):
        raise WorkloadError(f"{file}: fields are expected")
    return found


def upstream_name(name: str) -> str:
    """Returns upstream's name of a field: `consumerBacklogSizeGB` of `consumer_backlog_size_gb`."""
    return re.sub(r"_(gb$|.)", lambda found: found[1].upper(), name)


def _typed(value: object, kind: str) -> Any:
    expected = {"int": int, "float": (int, float), "bool": bool, "str": str}[kind]
    if not isinstance(value, expected) or (isinstance(value, bool) and kind != "bool"):  # type: ignore[arg-type]
        raise ValueError(f"{value!r} is not of type {kind}")
    return value
