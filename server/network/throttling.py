"""The lines of the log about clients that are over a quota, and whose connections take no request for a time (KIP-219)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ...client.shown_text import shown

if TYPE_CHECKING:
    from ..runtime.log_lines import RepeatedLines

log = logging.getLogger("odradek.quotas")


def log_throttled(lines: RepeatedLines, client_host: str, client_id: str | None, principal: str) -> None:
    if not log.isEnabledFor(logging.INFO):
        return
    peer, client = client_host.lstrip("/"), shown(client_id)
    words = f"throttling client {client} of {peer} ({principal}), which exceeds a quota"
    lines.log(log, logging.INFO, peer, ("throttled", client, principal), words)
