"""Writes the Grafana dashboard beside this file: `python docs/monitoring/dashboard.py`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DASHBOARD = Path(__file__).parent / "grafana-dashboard.json"
_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
_COLUMNS, _WIDTH, _HEIGHT = 3, 8, 8
#: Of the selected nodes.
_NODES = '{instance=~"$instance"}'


@dataclass(frozen=True)
class Panel:
    """A chart. `queries`: PromQL and the legend of its series."""

    title: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    description: str = ""
    is_stat: bool = False


def _rate(metric: str, by: str = "instance") -> str:
    return f"sum by ({by}) (rate({metric}{_NODES}[$__rate_interval]))"


def _sum(metric: str, by: str = "instance") -> str:
    return f"sum by ({by}) ({metric}{_NODES})"


_TOPICS = "kafka_server_brokertopicmetrics_"
_REPLICAS = "kafka_server_replicamanager_"
_CONTROLLER = "kafka_controller_kafkacontroller_"
_GROUPS = "kafka_server_group_coordinator_metrics_"
_PIPELINES = "odradek_pipeline_"

ROWS: dict[str, tuple[Panel, ...]] = {
    "Health": (
        Panel("Active controllers", ((f"sum({_CONTROLLER}activecontrollercount{_NODES})", ""),), is_stat=True),
        Panel("Brokers that are not fenced", ((f"max({_CONTROLLER}activebrokercount{_NODES})", ""),), is_stat=True),
        Panel(
            "Partitions without a leader", ((f"max({_CONTROLLER}offlinepartitionscount{_NODES})", ""),), is_stat=True
        ),
        Panel("Under-replicated partitions", ((_sum(f"{_REPLICAS}underreplicatedpartitions"), "{{instance}}"),)),
        Panel(
            "Partitions below min.insync.replicas",
            ((_sum(f"{_REPLICAS}underminisrpartitioncount"), "{{instance}}"),),
            description="Producers with acks=all are refused there.",
        ),
        Panel(
            "ISR changes",
            (
                (_rate(f"{_REPLICAS}isrshrinks_total"), "shrinks {{instance}}"),
                (_rate(f"{_REPLICAS}isrexpands_total"), "expands {{instance}}"),
            ),
            "ops",
        ),
    ),
    "Throughput": (
        Panel("Bytes in", ((_rate(f"{_TOPICS}bytesin_total"), "{{instance}}"),), "Bps"),
        Panel("Bytes out", ((_rate(f"{_TOPICS}bytesout_total"), "{{instance}}"),), "Bps"),
        Panel("Records in", ((_rate(f"{_TOPICS}messagesin_total"), "{{instance}}"),), "ops"),
        Panel("Bytes in, by topic", ((f"topk(10, {_rate(_TOPICS + 'bytesin_total', 'topic')})", "{{topic}}"),), "Bps"),
        Panel("Requests", ((_rate("kafka_network_requestmetrics_requests_total", "request"), "{{request}}"),), "reqps"),
        Panel(
            "Failed partitions of requests",
            (
                (_rate(f"{_TOPICS}failedproducerequests_total"), "produce {{instance}}"),
                (_rate(f"{_TOPICS}failedfetchrequests_total"), "fetch {{instance}}"),
            ),
            "ops",
        ),
    ),
    "Latency": (
        Panel(
            "Produce, 99th percentile",
            (
                (
                    'kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.99",instance=~"$instance"}',
                    "{{instance}}",
                ),
            ),
            "ms",
        ),
        Panel(
            "Fetch, 99th percentile",
            (
                (
                    'kafka_network_requestmetrics_totaltimems{request="Fetch",quantile="0.99",instance=~"$instance"}',
                    "{{instance}}",
                ),
            ),
            "ms",
            "A Fetch waits for records, up to the consumer's fetch.max.wait.ms.",
        ),
        Panel(
            "Long turns of the event loop",
            ((_rate("odradek_loop_long_turns_total", "request"), "{{request}}"),),
            "ops",
            "Requests that held the loop for longer than 20 ms.",
        ),
    ),
    "Groups": (
        Panel(
            "Lag, by group",
            ((f"topk(10, {_sum('odradek_group_lag_sum', 'group')})", "{{group}}"),),
            description="Lag of the group in records.",
        ),
        Panel("Groups", ((_sum(f"{_GROUPS}group_count", "protocol"), "{{protocol}}"),)),
        Panel("Offset commits", ((_rate(f"{_GROUPS}offset_commit_count"), "{{instance}}"),), "ops"),
        Panel(
            "Rebalances",
            (
                (_rate(f"{_GROUPS}group_completed_rebalance_count"), "classic {{instance}}"),
                (_rate(f"{_GROUPS}consumer_group_rebalance_count"), "consumer {{instance}}"),
            ),
            "ops",
        ),
    ),
    "Pipelines": (
        Panel(
            "Lag, by pipeline",
            (
                (
                    f"topk(10, {_sum('odradek_group_lag_sum', 'group')} "
                    f"and on (group) {_PIPELINES}progress_timestamp_seconds{_NODES})",
                    "{{group}}",
                ),
            ),
            description="Lag of queries of Spark and archives in records.",
        ),
        Panel(
            "Time since the last batch",
            ((f"topk(10, time() - max by (group) ({_PIPELINES}progress_timestamp_seconds{_NODES}))", "{{group}}"),),
            "s",
            "A pipeline without lag has no batch to end.",
        ),
        Panel(
            "Failed pipelines, and dead letters",
            (
                (f"max by (group) ({_PIPELINES}failed{_NODES}) > 0", "failed {{group}}"),
                (_sum(f"{_PIPELINES}dead_letters_total", "group"), "dead letters {{group}}"),
            ),
        ),
    ),
    "Quorum": (
        Panel("Leader of the quorum", (("kafka_server_raft_metrics_current_leader" + _NODES, "{{instance}}"),)),
        Panel("Leader elections", ((_rate("odradek_leader_elections_total"), "{{instance}}"),), "ops"),
        Panel(
            "Metadata records applied",
            (("kafka_server_broker_metadata_metrics_last_applied_record_offset" + _NODES, "{{instance}}"),),
        ),
    ),
    "Process and disks": (
        Panel("CPU", ((f"rate(process_cpu_seconds_total{_NODES}[$__rate_interval])", "{{instance}}"),), "percentunit"),
        Panel("Memory", (("process_resident_memory_bytes" + _NODES, "{{instance}}"),), "bytes"),
        Panel("Connections", ((_sum("kafka_server_socket_server_metrics_connection_count"), "{{instance}}"),)),
        Panel("Size of the logs", ((_sum("kafka_log_log_size"), "{{instance}}"),), "bytes"),
        Panel("Failed log directories", ((_sum("kafka_log_logmanager_offlinelogdirectorycount"), "{{instance}}"),)),
        Panel(
            "Damaged ranges",
            (
                (_sum("odradek_damage_ranges"), "there are {{instance}}"),
                (_sum("odradek_damage_ranges_healed_total"), "healed {{instance}}"),
            ),
        ),
    ),
}


def dashboard() -> dict[str, Any]:
    """Returns the dashboard as Grafana imports it."""
    return {
        "title": "Odradek",
        "uid": "odradek",
        "schemaVersion": 39,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "tags": ["kafka", "odradek"],
        "templating": {"list": _variables()},
        "panels": list(_panels()),
    }


def _variables() -> list[dict[str, Any]]:
    return [
        {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
        {
            "name": "instance",
            "label": "Node",
            "type": "query",
            "datasource": _DATASOURCE,
            "query": {"query": "label_values(kafka_server_raft_metrics_current_epoch, instance)", "refId": "nodes"},
            "includeAll": True,
            "multi": True,
            "current": {"text": "All", "value": "$__all"},
            "refresh": 2,
        },
    ]


def _panels() -> Iterator[dict[str, Any]]:
    number, top = 0, 0
    for title, panels in ROWS.items():
        number += 1
        yield {
            "id": number,
            "type": "row",
            "title": title,
            "gridPos": {"x": 0, "y": top, "w": 24, "h": 1},
            "panels": [],
        }
        top += 1
        for index, panel in enumerate(panels):
            number += 1
            place = {"x": index % _COLUMNS * _WIDTH, "y": top + index // _COLUMNS * _HEIGHT, "w": _WIDTH, "h": _HEIGHT}
            yield _panel(number, panel, place)
        top += -(-len(panels) // _COLUMNS) * _HEIGHT


def _panel(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    return {
        "id": number,
        "type": "stat" if panel.is_stat else "timeseries",
        "title": panel.title,
        "description": panel.description,
        "datasource": _DATASOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + number), "datasource": _DATASOURCE, "expr": query, "legendFormat": legend}
            for number, (query, legend) in enumerate(panel.queries)
        ],
    }


if __name__ == "__main__":
    DASHBOARD.write_text(json.dumps(dashboard(), indent=1) + "\n")
