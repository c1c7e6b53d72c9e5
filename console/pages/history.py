"""The points of a chart for a long range, which the browser requests when its viewer chooses one."""

from __future__ import annotations

import json

from starlette.requests import Request
from starlette.responses import Response

from ..addresses import number_of
from ..backend import Backend

_DAY_S = 86_400
#: Characters of a name: a group, a topic and a partition.
_MOST_NAME = 600


def history(backend: Backend, request: Request) -> Response:
    """`series`: its name; `days`: how far back. Returns times in seconds and values as JSON."""
    name = request.query_params.get("series", "")[:_MOST_NAME]
    days = max(1, min(number_of(request, "days", 1), backend.settings.history_days or 1))
    times, values = backend.poller.history.since(name, days * _DAY_S)
    text = json.dumps({"times": list(times), "values": list(values)}, separators=(",", ":"))
    return Response(text, media_type="application/json")
