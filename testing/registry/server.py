"""The registry's HTTP server: one request at a time."""

from __future__ import annotations

import json
import logging
import threading
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

from ..loopback_http import BadBody, JsonHandler, LoopbackServer
from .errors import RegistryError
from .operations import Asked, route
from .store import Store

log = logging.getLogger("odradek.testing.registry")


class SchemaRegistry(LoopbackServer):
    """Serves until `close`. `port`: 0 picks a free one. Raises OSError where the port is taken."""

    def __init__(self, port: int = 0) -> None:
        self.store = Store()
        self.lock = threading.Lock()
        registry = self

        class Handler(_Handler):
            def __init__(self, *arguments: Any) -> None:
                self.registry = registry
                super().__init__(*arguments)

        super().__init__(Handler, port, "odradek-registry")

    def clear(self) -> None:
        """Forgets all subjects, schemas, levels and modes."""
        with self.lock:
            self.store.clear()

    def save(self, path: str | Path) -> None:
        """Writes all subjects, schemas, levels and modes into a file. Raises OSError."""
        with self.lock:
            state = self.store.state()
        Path(path).write_text(json.dumps(state), encoding="utf-8")

    def restore(self, path: str | Path) -> None:
        """Returns to what was saved. Raises ValueError for a file that `save` did not write, OSError."""
        try:
            state = json.loads(Path(path).read_text(encoding="utf-8"))
            with self.lock:
                self.store.load(state)
        except (ValueError, KeyError, TypeError, RegistryError) as wrong:
            raise ValueError(f"{path} is not a file of schemas that save() wrote: {wrong}") from None


class _Handler(JsonHandler):
    content_type: ClassVar[str] = "application/vnd.schemaregistry.v1+json"
    most_body_bytes: ClassVar[int] = 4 << 20
    registry: SchemaRegistry

    def handle_request(self) -> None:
        try:
            body = self.parsed(self.body())
            parts = urlsplit(self.path)
            function, path = route(self.command, parts.path.rstrip("/") or "/")
            with self.registry.lock:
                content = function(self.registry.store, Asked(path, dict(parse_qsl(parts.query)), body))
            self.answer(200, content)
        except BadBody as bad:
            self.answer(bad.status, {"error_code": bad.status, "message": bad.words})
        except RegistryError as error:
            self.answer(error.status, {"error_code": error.code, "message": error.words})
        except Exception:  # a defect here is the answer to this request, and no end of the connection without a word
            log.exception("%s %s", self.command, self.path)
            self.answer(500, {"error_code": 50001, "message": "Error in the backend data store"})
