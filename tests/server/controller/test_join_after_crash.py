"""A node of several starts after a crash: a thread flushes what its metadata log has, and the event loop serves on."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from pathlib import Path

import pytest
from odradek.server.broker import BrokerServer
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.controller.formatting import format_directories
from odradek.storage.files.failures import LogDirectoryFailure
from odradek.storage.log.flushing import PendingFlush

from tests.server.harness.remote_broker import controller_endpoint, first_node

pytestmark = pytest.mark.usefixtures("sockets")

#: Limit of the wait for the turn of the event loop that ends a flush.
_DEADLINE_S = 30


async def crashed(folder: Path, first: BrokerServer) -> BrokerConfig:
    """Returns the configuration of a broker that joined the cluster, on its directory as it was before it stopped."""
    endpoint = controller_endpoint(first)

    def config_of(directory: Path) -> BrokerConfig:
        return BrokerConfig(
            {
                "node.id": "7",
                "process.roles": "broker",
                "listeners": "PLAINTEXT://127.0.0.1:0",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": f"1@{endpoint.host}:{endpoint.port}",
                "log.dirs": str(directory),
            }
        )

    config = config_of(folder / "before")
    format_directories(config, first.node.identity.cluster_id)
    broker = BrokerServer(config)
    await broker.start()
    shutil.copytree(folder / "before", folder / "after", ignore=shutil.ignore_patterns("*.lock", ".lock"))
    await broker.stop()
    return config_of(folder / "after")


async def test_the_event_loop_runs_while_a_joining_node_flushes_its_metadata_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, run, turned = asyncio.get_running_loop(), PendingFlush.run, []

    def waits_for_a_turn(flush: PendingFlush) -> None:
        turn = threading.Event()
        loop.call_soon_threadsafe(turn.set)
        turned.append(turn.wait(_DEADLINE_S if not turned else 0))
        run(flush)

    with first_node() as first:
        assert first.server is not None
        config = await crashed(tmp_path, first.server)
        monkeypatch.setattr(PendingFlush, "run", waits_for_a_turn)
        broker = BrokerServer(config)
        await broker.start()
        await broker.stop()
    assert turned and turned[0]


async def test_a_disk_that_fails_this_flush_fails_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(fd: int) -> None:
        raise OSError(5, "Input/output error")

    with first_node() as first:
        assert first.server is not None
        config = await crashed(tmp_path, first.server)
        broker = BrokerServer(config)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", fail)
            with pytest.raises(LogDirectoryFailure):
                await broker.start()
        broker = BrokerServer(config)
        await broker.start()
        await broker.stop()
