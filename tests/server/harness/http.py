"""Requests to the HTTP port of a broker."""

from __future__ import annotations

import asyncio

import odradek

Samples = dict[str, float]


_DEADLINE_S = 60


async def http(broker: odradek.Broker, request: str) -> tuple[str, str, str]:
    """Sends one request. Returns status, headers and body."""
    assert broker.server.observability is not None
    reader, writer = await asyncio.open_connection(*broker.server.observability.address)
    writer.write(request.encode())
    response = (await asyncio.wait_for(reader.read(), _DEADLINE_S)).decode()
    writer.close()
    head, _, body = response.partition("\r\n\r\n")
    status, _, headers = head.partition("\r\n")
    return status, headers, body


async def scrape(broker: odradek.Broker) -> Samples:
    status, _, body = await http(broker, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    assert status == "HTTP/1.1 200 OK"
    lines = (line.rpartition(" ") for line in body.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}
