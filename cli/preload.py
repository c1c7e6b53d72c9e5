"""Modules that the first requests of clients would load: they are loaded once a broker serves.

An object that is made while a large request is at work, and stays, stands amid the objects of that request. When
they are gone it keeps an arena of the interpreter's memory, 1 MB, from going back to the system. So what every
broker needs sooner or later is made while its memory is small: the route of the first request of every client, the
modules for large requests, and the thread that loads all this.
"""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..server.broker import BrokerServer

_MODULES = (
    "server.fetch.fetch_opening",
    "server.endpoints.api_versions",
    "server.network.large_requests",
    "server.network.portioned_call",
    "server.partitions.append_queue",
    "server.partitions.replica_flush",
    "storage.repair.verification",
)
#: Versions of ApiVersions that clients have sent since 2019.
_VERSIONS = (3, 4)


async def preload(broker: BrokerServer) -> None:
    from ..protocol.apis import API_VERSIONS_KEY
    from ..server.runtime.late_imports import TRANSACTION_MODULES, load

    await asyncio.get_running_loop().run_in_executor(None, _load)
    if not broker.controller.driver.is_alone:  # its first image with transactions may come at any time
        await asyncio.get_running_loop().run_in_executor(None, load, TRANSACTION_MODULES)
    for dispatcher in broker.network.dispatchers.values():
        for version in _VERSIONS:
            dispatcher.prepare(API_VERSIONS_KEY, version)


def _load() -> None:
    """Runs on a thread: some 15 ms of work, of which clients notice little."""
    from ..protocol.codec import decode, encode, lowered_decoder, lowered_encoder
    from ..protocol.headers import RequestHeader
    from ..protocol.messages.api_versions import (
        ApiVersion,
        ApiVersionsRequest,
        ApiVersionsResponse,
        FinalizedFeatureKey,
        SupportedFeatureKey,
    )
    from ..server.runtime import memory

    memory.prepare()
    for name in _MODULES:
        import_module(f"..{name}", __package__)
    response = ApiVersionsResponse(
        api_keys=[ApiVersion()], supported_features=[SupportedFeatureKey()], finalized_features=[FinalizedFeatureKey()]
    )
    for version in _VERSIONS:
        lowered_decoder(ApiVersionsRequest, version)(encode(ApiVersionsRequest("preloading", "1"), version), 0)
        lowered_encoder(ApiVersionsResponse, version)(response, [].append)
    decode(RequestHeader, 2, encode(RequestHeader(client_id="preloading"), 2))
