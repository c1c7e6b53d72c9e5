"""A worker of Kafka Connect for tests: the part of its REST interface that lists and changes the state of connectors."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

TRACE = (
    "org.apache.kafka.connect.errors.ConnectException: Exiting WorkerSinkTask due to unrecoverable exception.\n\tat a"
)
_STATES = {"pause": "PAUSED", "resume": "RUNNING"}


class ConnectWorker:
    """`states`: those of the connectors. `restarts`: names of connectors that were restarted."""

    def __init__(self) -> None:
        self.states = {"orders-to-s3": "RUNNING", "a-source.with/a-very-long-name" + "-and-parts" * 9: "FAILED"}
        self.restarts: list[str] = []
        worker = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = urlsplit(self.path).path
                if path == "/connectors":
                    self._send(200, {name: {"status": worker.status(name)} for name in worker.states})
                elif path.endswith("/config"):
                    self._send(200, {"connector.class": "S3Sink", "aws.secret.access.key": "hunter2", "tasks.max": "2"})
                else:
                    self._send(404, {"error_code": 404, "message": "not found"})

            def _change(self) -> None:
                _, _, name, word = urlsplit(self.path).path.split("/")
                name = unquote(name)
                if name not in worker.states:
                    self._send(404, {"error_code": 404, "message": f"Unknown connector {name}"})
                    return
                if word == "restart":
                    worker.restarts.append(name)
                    worker.states[name] = "RUNNING"
                else:
                    worker.states[name] = _STATES[word]
                self._send(202, None)

            do_PUT = do_POST = _change

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
