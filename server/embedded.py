"""`odradek.Broker`: a broker inside the process that uses it.

In a program of coroutines it shares the loop; in a plain program it runs on a thread of its own::

    async with odradek.Broker() as broker:
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers)

    with odradek.Broker() as broker:
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)

Several may run in one process, each with its own port and data.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from .broker import BrokerServer
from .config import BrokerConfig
from .reset import delete_everything

#: How long a thread may take to start or stop its broker before that is called a failure, in seconds.
THREAD_DEADLINE_S = 60

#: What a test wants rather than a long-running broker: rebalances begin at once, deleted files go at once.
EMBEDDED_DEFAULTS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "5",
    "log.segment.delete.delay.ms": "0",
}


class Broker:
    """One broker with its controller.

    `port`: 0 picks a free one. `data_dir`: where data is kept; a temporary folder that goes with it, unless said.
    `config`: Kafka's broker properties, over the defaults. Starting twice, or with a port in use, raises OSError or
    RuntimeError; a wrong property raises InvalidConfig.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        data_dir: str | Path | None = None,
        config: Mapping[str, str | int | bool] | None = None,
    ) -> None:
        self._listener = f"PLAINTEXT://[{host}]:{port}" if ":" in host else f"PLAINTEXT://{host}:{port}"
        self._data_dir = Path(data_dir) if data_dir is not None else None
        self._config = {key: _text(value) for key, value in (config or {}).items()}
        self._temporary: Path | None = None
        self._server: BrokerServer | None = None
        self._thread: _LoopThread | None = None

    @property
    def server(self) -> BrokerServer:
        """The running broker itself, for tests that look inside. Raises RuntimeError when it does not run."""
        if self._server is None:
            raise RuntimeError("this broker is not running: use it as `async with Broker() as broker` or call start()")
        return self._server

    @property
    def bootstrap_servers(self) -> str:
        """`host:port`, to be given to any client."""
        return ",".join(self.server.addresses)

    async def start(self) -> Self:
        if self._server is not None:
            raise RuntimeError("this broker runs already")
        if self._data_dir is None:
            self._temporary = Path(tempfile.mkdtemp(prefix="odradek-"))
        directory = self._data_dir or self._temporary
        properties = {**EMBEDDED_DEFAULTS, "listeners": self._listener, "log.dirs": str(directory), **self._config}
        server = BrokerServer(BrokerConfig(properties))
        try:
            await server.start()
        except BaseException:
            self._remove_temporary()
            raise
        self._server = server
        return self

    async def stop(self) -> None:
        server, self._server = self._server, None
        try:
            if server is not None:
                await server.stop()
        finally:
            self._remove_temporary()

    async def reset(self) -> None:
        """Deletes every topic and group, as if the broker were new, in milliseconds."""
        await delete_everything(self.server)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *exception: object) -> None:
        await self.stop()

    # The same for programs without a loop of their own.

    def __enter__(self) -> Self:
        self._thread = _LoopThread()
        try:
            self._thread.run(self.start())
        except BaseException:
            self._thread.end()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        assert self._thread is not None
        try:
            self._thread.run(self.stop())
        finally:
            self._thread.end()
            self._thread = None

    def reset_from_thread(self) -> None:
        """`reset` for a broker that was entered with a plain `with`."""
        assert self._thread is not None, "entered with `async with`: await reset() instead"
        self._thread.run(self.reset())

    def _remove_temporary(self) -> None:
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class _LoopThread:
    """An event loop on a thread; `run` has it do one coroutine and hands over the result."""

    def __init__(self) -> None:
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="odradek", daemon=True)
        self._thread.start()

    def run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(THREAD_DEADLINE_S)

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(THREAD_DEADLINE_S)
        self._loop.close()


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where there is one, else asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop
