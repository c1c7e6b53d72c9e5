"""A worker of Kafka Connect for tests: the part of its REST interface that lists and changes the state of connectors.

It takes only what a worker takes: compat_tests/ecosystem/connect has the same client with Apache Kafka's.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

CONFIG = {"connector.class": "S3Sink", "aws.secret.access.key": "hunter2", "tasks.max": "2"}
TRACE = (
    "org.apache.kafka.connect.errors.ConnectException: Exiting WorkerSinkTask due to unrecoverable exception.\n\tat a"
)
#: Method and word -> the state that follows.
_CHANGES = {("PUT", "pause"): "PAUSED", ("PUT", "resume"): "RUNNING", ("POST", "restart"): "RUNNING"}


class ConnectWorker:
    """`states`: those of the connectors. `restarts`: names of connectors that were restarted."""

    def __init__(self) -> None:
        self.states = {"orders-to-s3": "RUNNING", "a-source.with/a-very-long-name" + "-and-parts" * 9: "FAILED"}
        self.restarts: list[str] = []
        worker = self

        class Handler(BaseHTTPRequestHandler):
            def _respond(self) -> None:
                url = urlsplit(self.path)
                options = parse_qs(url.query)
                match [self.command, *(unquote(word) for word in url.path.split("/")[1:])]:
                    case ["GET", "connectors"] if options.get("expand") == ["status"]:
                        self._send(200, {name: {"status": worker.status(name)} for name in worker.states})
                    case ["GET", "connectors"]:
                        self._send(200, list(worker.states))
                    case ["GET", "connectors", name, "config"] if name in worker.states:
                        self._send(200, CONFIG)
                    case [method, "connectors", name, word] if name in worker.states and (method, word) in _CHANGES:
                        self._change(name, _CHANGES[method, word], word, options)
                    case [_, "connectors", name, *_] if name not in worker.states:
                        self._send(404, {"error_code": 404, "message": f"Unknown connector {name}"})
                    case _:
                        self._send(405, {"error_code": 405, "message": "HTTP 405 Method Not Allowed"})

            def _change(self, name: str, state: str, word: str, options: dict[str, list[str]]) -> None:
                if word == "restart":
                    worker.restarts.append(name)
                    if options.get("includeTasks") != ["true"]:
                        self._send(204, None)  # the connector alone: its tasks stay as they are
                        return
                worker.states[name] = state
                self._send(202, worker.status(name) if word == "restart" else None)

            do_GET = do_PUT = do_POST = _respond

            def _send(self, status: int, body: Any) -> None:
                data = b"" if body is None else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def status(self, name: str) -> dict[str, Any]:
        state = self.states[name]
        tasks = [{"id": number, "state": state, "worker_id": "10.0.0.1:8083"} for number in range(2)]
        if state == "FAILED":
            tasks[1]["trace"] = TRACE
        return {
            "name": name,
            "type": "sink",
            "connector": {"state": state, "worker_id": "10.0.0.1:8083"},
            "tasks": tasks,
        }

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextlib.contextmanager
def connect_worker() -> Iterator[ConnectWorker]:
    made = ConnectWorker()
    try:
        yield made
    finally:
        made.close()
