"""Connectors of a Kafka Connect cluster, through its REST interface."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from urllib.parse import quote

from ...client.error_kinds import ErrorKind
from ...client.reasons import reason_of
from ...client.user_errors import UserError
from ...client.user_info import apart, basic_login
from ..texts import escaped
from .exchanges import exchanged
from .unreachable import Unreachable

#: Limit of a whole response: each page asks for the states of all connectors.
_TIMEOUT_S = 10.0
_MOST_BYTES = 16 << 20
#: Connectors that are shown, and characters of a trace.
MOST_CONNECTORS, _MOST_TRACE = 1000, 2000
#: Changes of a connector: the word in the address, the request, and its path after the connector's.
ACTIONS = {
    "pause": ("PUT", "/pause"),
    "resume": ("PUT", "/resume"),
    "restart": ("POST", "/restart?includeTasks=true&onlyFailed=false"),
}


@dataclass(frozen=True, slots=True)
class Task:
    id: int
    state: str
    worker: str
    trace: str = ""


@dataclass(frozen=True, slots=True)
class Connector:
    name: str
    kind: str
    state: str
    worker: str
    tasks: tuple[Task, ...]
    trace: str = ""


class ConnectCluster:
    """Raises UserError where the workers do not respond."""

    def __init__(self, url: str) -> None:
        plain = apart(url)
        self.url = plain.url.rstrip("/")
        self._headers = {"Accept": "application/json"} | basic_login(plain.user_info)
        self._unreachable = Unreachable()

    def connectors(self) -> list[Connector]:
        found = self._asked("GET", "/connectors?expand=status")
        if not isinstance(found, dict):
            raise UserError(f"the response of {self.url} has no connectors")
        names = sorted(str(name) for name in found)[:MOST_CONNECTORS]
        return [_connector(name, found[name]) for name in names]

    def config(self, name: str) -> dict[str, str]:
        found = self._asked("GET", f"/connectors/{quote(name, safe='')}/config")
        return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}

    def act(self, name: str, action: str) -> None:
        method, path = ACTIONS[action]
        self._asked(method, f"/connectors/{quote(name, safe='')}{path}")

    def _asked(self, method: str, path: str) -> object:
        with self._unreachable.noted():
            return self._response(method, path)

    def _response(self, method: str, path: str) -> object:
        request = urllib.request.Request(f"{self.url}{path}", method=method, headers=self._headers)
        try:
            data = exchanged(request, _TIMEOUT_S, _MOST_BYTES)
            return json.loads(data) if data.strip() else None
        except urllib.error.HTTPError as error:
            kind = ErrorKind.NOT_FOUND if error.code == 404 else ErrorKind.FAILED
            raise UserError(f"Kafka Connect: {_reason(error)}", kind) from None
        except (OSError, ValueError, RecursionError, http.client.HTTPException) as error:
            raise UserError(
                f"no response from Kafka Connect at {self.url}: {reason_of(error)}", ErrorKind.UNREACHABLE
            ) from None


def _reason(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(error.read(64 << 10))["message"])[:500]
    except (OSError, ValueError, KeyError, TypeError, RecursionError, http.client.HTTPException):
        return f"HTTP status {error.code}"


def _connector(name: str, content: object) -> Connector:
    status = _of(content, "status")
    own = _of(status, "connector")
    listed = status.get("tasks")
    tasks = [_task(one) for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    return Connector(
        name,
        str(status.get("type") or ""),
        str(own.get("state") or "UNKNOWN"),
        str(own.get("worker_id") or ""),
        tuple(tasks),
        escaped(str(own.get("trace") or "")[:_MOST_TRACE]),
    )


def _task(content: dict[str, object]) -> Task:
    number = content.get("id")
    return Task(
        number if isinstance(number, int) else -1,
        str(content.get("state") or "UNKNOWN"),
        str(content.get("worker_id") or ""),
        escaped(str(content.get("trace") or "")[:_MOST_TRACE]),
    )


def _of(content: object, name: str) -> dict[str, object]:
    inner = content.get(name) if isinstance(content, dict) else None
    return inner if isinstance(inner, dict) else {}
