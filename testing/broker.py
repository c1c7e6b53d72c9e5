"""`odradek.Broker`: a broker inside the process that uses it.

In a plain program it runs on a thread of its own, and its methods block; in a program of coroutines it shares the event
loop, and its methods are awaited::

    with odradek.Broker() as broker:
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
        broker.reset()

    async with odradek.Broker() as broker:
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers)
        await broker.reset()

The start decides. `with`, and `start()` where no event loop runs, start it on a thread; `async with`, and `await start()`,
on the running loop. A broker on a thread may be used everywhere, in coroutines too: `await broker.reset()` is then right as
well as `broker.reset()`.

Several may run in one process, each with its own port and data.
"""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, NoReturn, Self, TypeVar

from ..metadata.configs import InvalidConfig
from ..server.broker import BrokerServer
from ..server.config.broker_config import BrokerConfig
from ..server.reset import delete_everything
from .broker_run import EmbeddedRun
from .completion import Completion
from .faults.faults import Faults
from .loop_thread import LoopThread

T = TypeVar("T")
ConfigValue = str | int | float | bool

_DEFAULT_HOST = "127.0.0.1"

#: What a test wants rather than a long-running broker: rebalances begin at once, deleted files go at once.
EMBEDDED_DEFAULTS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "5",
    "log.segment.delete.delay.ms": "0",
}


class Broker:
    """One broker with its controller.

    `host`, `port`: where it listens; port 0 picks a free one. `data_dir`: where data is kept; without it, in a temporary
    folder that is removed when the broker stops. `config`: Kafka's broker properties, over the defaults.

    A start raises `odradek.InvalidConfig` for a property that is refused, OSError where the port is taken, and
    RuntimeError while the broker runs. A stopped broker may be started again.
    """

    def __init__(
        self,
        *,
        host: str = _DEFAULT_HOST,
        port: int = 0,
        data_dir: str | Path | None = None,
        config: Mapping[str, ConfigValue] | None = None,
    ) -> None:
        self._run: EmbeddedRun | None = None
        self._host = host
        self._port = port
        self._data_dir = data_dir
        self._config = {key: _text(value) for key, value in (config or {}).items()}
        #: Faults that a test scripts; `reset` ends them.
        self.faults = Faults()
        #: Held by the one start or stop that is under way.
        self._changing = threading.Lock()

    # What it does. Each blocks, or is awaited.

    def start(self) -> Completion[Self]:
        """Starts it, on the running event loop (`await broker.start()`), or on a thread where none runs."""
        if _running_loop() is None:
            return Completion("start()", value=self._start_on_thread())
        return Completion("start()", work=self._start_here)

    def stop(self) -> Completion[None]:
        """Stops it and removes its temporary data. Does nothing when it does not run."""
        run = self._run
        if run is None or run.is_inherited:
            self._run = None
            return Completion("stop()", value=None)
        if run.thread is None:
            return self._do("stop()", self._stop_here)
        self._stop_thread()
        return Completion("stop()", value=None)

    def reset(self) -> Completion[None]:
        """Deletes every topic and every group and ends all faults, as if the broker were new, in milliseconds."""
        server = self.server
        self.faults.clear()
        return self._do("reset()", lambda: delete_everything(server))

    def __enter__(self) -> Self:
        return self._start_on_thread()

    def __exit__(self, *exception: object) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return await self._start_here()

    async def __aexit__(self, *exception: object) -> None:
        await self.stop()

    def reset_from_thread(self) -> None:
        """`reset()`, by its former name."""
        self.reset()

    # What it is.

    @property
    def is_running(self) -> bool:
        return self._run is not None and not self._run.is_inherited

    @property
    def bootstrap_servers(self) -> str:
        """`host:port`, for any client. Raises RuntimeError when the broker does not run.

        A forked process may use it too: its clients reach the broker of the parent.
        """
        return self._running().bootstrap_servers

    @property
    def server(self) -> BrokerServer:
        """The running broker itself, for tests that look inside. Raises RuntimeError when it does not run."""
        run = self._running()
        if run.is_inherited:
            raise RuntimeError(f"this broker runs in process {run.pid}, from which this one was forked")
        return run.server

    def __repr__(self) -> str:
        return f"<odradek.Broker {self._run.bootstrap_servers if self._run else 'not running'}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Broker cannot be sent to another process: send its bootstrap_servers")

    def __del__(self) -> None:
        run: EmbeddedRun | None = getattr(self, "_run", None)
        if run is not None and run.abandon():
            warnings.warn(f"{self!r} was not stopped", ResourceWarning, stacklevel=2, source=self)

    # Starting and stopping, in both worlds.

    def _start_on_thread(self) -> Self:
        with self._change("start"):
            self._check_stopped()
            config, temporary = self._configured()
            run = EmbeddedRun(config, temporary, self.faults)
            try:
                run.thread = LoopThread()
                run.thread.run(run.start())
            except BaseException:
                run.end_thread()
                raise
            self._run = run
        return self

    async def _start_here(self) -> Self:
        with self._change("start"):
            self._check_stopped()
            config, temporary = self._configured()
            run = EmbeddedRun(config, temporary, self.faults)
            await run.start()
            self._run = run
        return self

    def _stop_thread(self) -> None:
        with self._change("stop"):
            run, self._run = self._run, None
            if run is not None:
                run.stop_thread()

    async def _stop_here(self) -> None:
        with self._change("stop"):
            run, self._run = self._run, None
            if run is not None:
                await run.stop()

    def _do(self, name: str, work: Callable[[], Coroutine[Any, Any, T]]) -> Completion[T]:
        """Does the work in the loop of the broker, and waits for it unless the caller is in an event loop."""
        run = self._running()
        if run.thread is not None and _running_loop() is not run.loop:
            return Completion(name, value=run.thread.run(work()))
        if _running_loop() is run.loop:
            return Completion(name, work=work)
        if not run.loop.is_running():
            raise RuntimeError(f"{name}: this broker was started in an event loop that does not run now")
        if _running_loop() is None:
            return Completion(name, value=asyncio.run_coroutine_threadsafe(work(), run.loop).result())
        return Completion(name, work=lambda: _elsewhere(work, run.loop))

    def _running(self) -> EmbeddedRun:
        if self._run is None:
            raise RuntimeError(
                "this broker is not running: enter it with `with` or `async with`, or call start(), "
                "which inside an event loop is awaited"
            )
        return self._run

    def _check_stopped(self) -> None:
        if self.is_running:
            raise RuntimeError("this broker is running already: stop it first, or make another Broker")

    def _change(self, name: str) -> _Change:
        return _Change(self._changing, name)

    def _configured(self) -> tuple[BrokerConfig, Path | None]:
        """Its configuration, and the temporary folder where that is to be made. Raises InvalidConfig."""
        given = self._config
        properties = dict(EMBEDDED_DEFAULTS)
        if "listeners" not in given:
            host = f"[{self._host}]" if ":" in self._host else self._host
            if not 0 <= self._port <= 65535:
                raise InvalidConfig(f"port {self._port} is not a port: a number from 0 to 65535")
            properties["listeners"] = f"PLAINTEXT://{host}:{self._port}"
        elif self._port or self._host != _DEFAULT_HOST:
            raise InvalidConfig("host and port are given, and listeners in config as well: give one of them")
        temporary = None
        if "log.dirs" in given or "log.dir" in given:
            if self._data_dir is not None:
                raise InvalidConfig("data_dir is given, and log.dirs in config as well: give one of them")
        elif self._data_dir is None:
            temporary = EmbeddedRun.temporary_path()
            properties["log.dirs"] = str(temporary)
        elif str(self._data_dir):
            properties["log.dirs"] = str(self._data_dir)
        else:
            raise InvalidConfig("data_dir is empty: name a folder, or leave it out for a temporary one")
        return BrokerConfig({**properties, **given}), temporary


class _Change:
    """The one start or stop of a broker that is under way. Raises RuntimeError where another is."""

    def __init__(self, lock: threading.Lock, name: str) -> None:
        self._lock = lock
        self._name = name

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise RuntimeError(f"cannot {self._name} this broker: it is being started or stopped")

    def __exit__(self, *exception: object) -> None:
        self._lock.release()


async def _elsewhere(work: Callable[[], Coroutine[Any, Any, T]], loop: asyncio.AbstractEventLoop) -> T:
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work(), loop))


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _text(value: ConfigValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
