"""Responses of a node's HTTP port, errors included."""

from __future__ import annotations

import urllib.error
import urllib.request

DEADLINE_S = 60


def answered(port: int, path: str, host: str = "127.0.0.1") -> tuple[int, str]:
    """Returns status and body of one GET. Raises OSError if no process listens."""
    try:
        with urllib.request.urlopen(f"http://{host}:{port}{path}", timeout=DEADLINE_S) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()
