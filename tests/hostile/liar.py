"""A server of HTTP whose responses all are the same."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Liar:
    """Responses of this server all are `body`, with `status`."""

    def __init__(self) -> None:
        self.body: bytes = b"{}"
        self.status = 200
        liar = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(liar.status)
                self.end_headers()
                self.wfile.write(liar.body)

            do_POST = do_DELETE = do_GET

            def log_message(self, format: str, *arguments: object) -> None:
                """Writes nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
