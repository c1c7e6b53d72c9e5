"""The figures of `odradek top`: records a second by topic, lag of groups, state of replicas, slow requests."""

from __future__ import annotations

import re
import time
import urllib.request
from typing import TYPE_CHECKING, Any

from ..admin.group_lag import lags
from ..admin.groups import list_groups
from ..admin.lag import total_of
from ..admin.log_offsets import partition_offsets
from ..admin.nodes import describe_cluster
from ..admin.places import sum_by_topic
from ..admin.rates import growth, per_second
from ..admin.readings import partition_states, replica_sizes
from ..admin.replicas import ReplicaCounts
from ..admin.topics import described_topics
from ..client.error_kinds import ErrorKind
from ..client.reasons import reason_of
from ..client.user_errors import Misused, UserError
from ..client.user_info import apart, basic_login
from ..http_exchange import opened
from ..protocol.log_places import LATEST

if TYPE_CHECKING:
    from ..admin.session import Admin
    from ..admin.topics import Topic

Sample = dict[str, Any]
#: Limits of a /metrics page.
_MOST_METRICS_BYTES = 32 << 20
_METRICS_S = 5.0
_REQUEST_TIME = re.compile(r'^kafka_network_requestmetrics_totaltimems_(sum|count)\{request="(\w+)"[^}]*\}\s+(\S+)')


class Sampler:
    """Each `sample` compares with the one before it; rates of the first are None."""

    def __init__(self, admin: Admin, metrics: str | None) -> None:
        if metrics is not None and not metrics.startswith(("http://", "https://")):
            raise Misused("--metrics needs the http:// URL of a node's /metrics")
        self._admin = admin
        self._metrics = metrics
        self._ends: dict[tuple[str, int], int] = {}
        self._sizes: dict[str, int] = {}
        self._requests: dict[str, tuple[float, float]] = {}
        self._at: float | None = None

    def sample(self) -> Sample:
        topics = described_topics(self._admin, None)
        visible = [topic for topic in topics if not topic.is_internal]
        ends = partition_offsets(self._admin, visible, LATEST)
        now = time.monotonic()
        elapsed = None if self._at is None else now - self._at
        counts = ReplicaCounts().add(partition_states(topics))
        made = {
            "time": time.strftime("%H:%M:%S"),
            "brokers": sum(not one.is_fenced for one in describe_cluster(self._admin).brokers),
            "under_replicated": counts.under_replicated,
            "without_leader": counts.without_leader,
            "topics": self._topics(visible, ends, elapsed),
            "groups": self._groups(),
            "requests": self._slow_requests(),
        }
        self._ends, self._at = ends, now
        return made

    def _topics(self, topics: list[Topic], ends: dict[tuple[str, int], int], elapsed: float | None) -> list[Sample]:
        sizes = sum_by_topic(replica_sizes(self._admin))
        records, grown = sum_by_topic(growth(self._ends, ends)), growth(self._sizes, sizes)
        found = []
        for topic in topics:
            name = topic.name
            found.append(
                {
                    "topic": name,
                    "records_per_s": per_second(records.get(name, 0), elapsed) if elapsed else None,
                    "bytes_per_s": round(grown.get(name, 0) / elapsed) if elapsed else None,
                    "bytes": sizes.get(name, 0),
                    "partitions": len(topic.partitions),
                }
            )
        self._sizes = sizes
        return sorted(found, key=lambda one: (-(one["records_per_s"] or 0), one["topic"]))

    def _groups(self) -> list[Sample]:
        listed = {one.group_id: one for one in list_groups(self._admin)}
        kinds = {name: one.kind for name, one in listed.items()}
        found = [
            {"group": group, "state": listed[group].group_state, "lag": total_of(behind).lag}
            for group, behind in lags(self._admin, kinds).items()
        ]
        return sorted(found, key=lambda one: (-(one["lag"] or 0), one["group"]))

    def _slow_requests(self) -> list[Sample]:
        """Mean times by kind of request since the last sample, from one Odradek node's /metrics; the slowest first. A node
        measures one request in 64.
        """
        if self._metrics is None:
            return []
        plain = apart(self._metrics)
        try:
            request = urllib.request.Request(plain.url, headers=basic_login(plain.user_info))
            with opened(request, _METRICS_S, _METRICS_S) as response:
                text = response.read(_MOST_METRICS_BYTES).decode(errors="replace")
        except (OSError, ValueError) as error:
            raise UserError(f"no response from {plain.url}: {reason_of(error)}", ErrorKind.UNREACHABLE) from None
        now = request_times(text)
        found = []
        for name, (total_ms, count) in now.items():
            before = self._requests.get(name, (0.0, 0.0))
            if count > before[1]:
                mean_ms = round((total_ms - before[0]) / (count - before[1]), 3)
                found.append({"request": name, "count": int(count - before[1]), "mean_ms": mean_ms})
        self._requests = now
        return sorted(found, key=lambda one: -one["mean_ms"])


def request_times(text: str) -> dict[str, tuple[float, float]]:
    """Sums of milliseconds and counts by kind of request, of an Odradek node's page."""
    sums: dict[str, list[float]] = {}
    for line in text.splitlines():
        matched = _REQUEST_TIME.match(line)
        if matched is not None:
            sums.setdefault(matched[2], [0.0, 0.0])[matched[1] == "count"] = float(matched[3])
    return {name: (kept[0], kept[1]) for name, kept in sums.items()}
