"""Metrics and health of a service of several processes on one port.

`/metrics` has the metrics of every process, each sample with the label `node_id`. `/health/live` is 200 while the service
runs: it starts a process again that has ended. `/health/ready` is 200 when every process is ready.
"""

from __future__ import annotations

import json
import threading
import urllib.error
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPException
from typing import TYPE_CHECKING, ClassVar

from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector, CollectorRegistry

from ...bounded_http import IDLE, RECEIVING, RESPONDING, BoundedHandler, BoundedServer
from ...http_exchange import opened

if TYPE_CHECKING:
    from ...protocol.json_value import JsonObject


LABEL = "node_id"
#: Connections at once, and those of them that may have metrics: the others are left for the health.
_MOST_CONNECTIONS, _MOST_SCRAPES = 16, 8
#: Limits of a request, of its response, and of the response of a process.
_REQUEST_S, _SCRAPE_S = 10.0, 30.0
_RESPONSE_S = 5.0
#: A stop waits for so long.
_POLL_S = 0.2

#: The metrics port of each process, by node id; None for a process that does not run.
Ports = Mapping[int, int | None]


class ServiceEndpoint:
    """Serves until `stop`. Raises OSError when the address cannot be had."""

    def __init__(self, host: str, port: int, ports: Callable[[], Ports]) -> None:
        self._ports = ports
        self._server = _Server((host, port), type("Handler", (_Handler,), {"ports": staticmethod(ports)}))
        self._server.begin("metrics", _POLL_S)

    @property
    def port(self) -> int:
        return self._server.port

    def stop(self) -> None:
        self._server.end()


class _Server(BoundedServer):
    most_connections = _MOST_CONNECTIONS
    deadlines_s: ClassVar[dict[str, float]] = dict.fromkeys((IDLE, RECEIVING), _REQUEST_S) | {RESPONDING: _SCRAPE_S}

    def __init__(self, address: tuple[str, int], handler: type[BoundedHandler]) -> None:
        self.scrapes = threading.BoundedSemaphore(_MOST_SCRAPES)
        super().__init__(address, handler)


class _Handler(BoundedHandler):
    timeout = _REQUEST_S
    ports: Callable[[], Ports]
    server: _Server

    def do_GET(self) -> None:
        self.received()
        path = self.path.partition("?")[0]
        if path == "/metrics":
            self._respond_metrics()
        elif path == "/health/live":
            self._respond(200, "application/json", b'{"live": true}\n')
        elif path == "/health/ready":
            found = health(self.ports())
            is_ready = all(one["ready"] for one in found.values())
            body = json.dumps({"ready": is_ready, "nodes": {str(node): one for node, one in found.items()}})
            self._respond(200 if is_ready else 503, "application/json", f"{body}\n".encode())
        else:
            self._respond(404, "text/plain", b"metrics are at /metrics, health at /health/live and /health/ready\n")

    def _respond_metrics(self) -> None:
        if not self.server.scrapes.acquire(blocking=False):
            self._respond(503, "text/plain", b"too many scrapes at once\n")
            return
        try:
            self._respond(200, CONTENT_TYPE_LATEST, merged(scraped(self.ports())))
        finally:
            self.server.scrapes.release()

    def _respond(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _read(port: int, path: str) -> tuple[int, str]:
    """Status and text of a process's response; status 0 when it does not respond."""
    try:
        with opened(f"http://127.0.0.1:{port}{path}", _RESPONSE_S, _RESPONSE_S) as response:
            return response.status, response.read().decode("utf-8")
    except urllib.error.HTTPError as error:
        return _text_of(error)
    except (OSError, HTTPException, ValueError):
        return 0, ""


def _text_of(error: urllib.error.HTTPError) -> tuple[int, str]:
    try:
        return error.code, error.read().decode("utf-8", errors="replace")
    except (OSError, HTTPException):
        return 0, ""


def scraped(ports: Ports) -> dict[int, str]:
    """The metrics of each process that has some."""
    found = {node: _read(port, "/metrics") for node, port in ports.items() if port is not None}
    return {node: text for node, (status, text) in found.items() if status == 200}


def merged(texts: Mapping[int, str]) -> bytes:
    """One exposition of several, each sample with its process."""
    return generate_latest(_Found(texts))


class _Found(CollectorRegistry):
    """The families of all processes, as `generate_latest` reads them."""

    def __init__(self, texts: Mapping[int, str]) -> None:
        super().__init__()
        self._texts = texts

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        for node, text in self._texts.items():
            for family in text_string_to_metric_families(text):
                known = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                known.samples += [one._replace(labels={**one.labels, LABEL: str(node)}) for one in family.samples]
        yield from families.values()

    def register(self, collector: Collector) -> None:
        raise NotImplementedError


def health(ports: Ports) -> dict[int, JsonObject]:
    """The response of each process to `/health/ready`; one that does not respond is not ready."""
    found = {}
    for node, port in ports.items():
        status, text = _read(port, "/health/ready") if port is not None else (0, "")
        try:
            body = json.loads(text) if status else None
        except (ValueError, RecursionError):
            body = None
        silent: JsonObject = {
            "ready": False,
            "not_ready": {"process": "it does not run" if port is None else "it does not respond"},
        }
        found[node] = body if isinstance(body, dict) and "ready" in body else silent
    return found


def under_replicated(texts: Mapping[int, str]) -> int:
    """Partitions that processes of the service lead, and that lack a replica in the ISR."""
    name = "kafka_server_replicamanager_underreplicatedpartitions"
    return sum(
        int(one.value)
        for text in texts.values()
        for family in text_string_to_metric_families(text)
        for one in family.samples
        if one.name == name
    )
