"""One run of an embedded broker, from its start to its stop: the server, where it runs, and its temporary data.

It does not refer to the `Broker` that made it, so a forgotten `Broker` is collected and stops its run.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..server.broker import BrokerServer
from ..server.config.broker_config import BrokerConfig
from ..server.config.unknown_properties import check_known
from ..server.runtime.thread_pools import begin_exit
from .clock import MovedClock, return_to_real_time
from .controller_request import ask_controller
from .deletion import delete_everything
from .faults.intercepting import Interceptor
from .polling import reached

if TYPE_CHECKING:
    from ..protocol.schema import Request, ResponseT
    from .faults.faults import Faults
    from .loop_thread import LoopThread
    from .request_log import RequestLog
    from .secured_run import SecuredRun


log = logging.getLogger("odradek.embedded")

#: The time that a broker gets to stop when the interpreter exits: a signal to end must end the program.
EXIT_DEADLINE_S = 10

#: Runs that have begun and not ended. Interpreter exit ends them.
_unfinished: set[EmbeddedRun] = set()


def temporary_path() -> Path:
    """Returns an unused path of a folder. The start of a run makes the folder."""
    return Path(tempfile.gettempdir()) / f"odradek-{os.getpid()}-{os.urandom(6).hex()}"


class EmbeddedRun:
    """`thread` is None when the brokers share the loop in which `start` was awaited.

    `properties`: of each broker. `temporary`: a folder that the start makes and the end removes. `prepare`: called before
    the brokers start, when the folder is there. `secured`: how clients connect, where they need more than the address.
    Raises InvalidConfig.
    """

    def __init__(
        self,
        properties: Sequence[Mapping[str, str]],
        temporary: Path | None,
        faults: Faults,
        prepare: Callable[[], None] | None = None,
        secured: SecuredRun | None = None,
    ) -> None:
        self.secured = secured
        self.clock = MovedClock()
        self.configs: dict[int, dict[str, str]] = {}
        #: The brokers that run, or start, by node id.
        self.servers: dict[int, BrokerServer] = {}
        self.interceptors: dict[int, Interceptor] = {}
        self._faults = faults
        self._requests: RequestLog | None = None
        self._prepare = prepare
        for each in properties:
            check_known(each)
            config = BrokerConfig(each)
            self.configs[config.node_id] = dict(each)
            self._make(config)
        self.temporary = temporary
        self.thread: LoopThread | None = None
        self.bootstrap_servers = ""
        self.pid = os.getpid()
        self.loop: asyncio.AbstractEventLoop
        self._is_abandoned = False
        #: Ends of brokers that have halted.
        self._halting: set[asyncio.Task[None]] = set()
        #: The loop refers to its tasks weakly.
        self._stopping: asyncio.Task[None] | None = None

    def _make(self, config: BrokerConfig) -> BrokerServer:
        server = self.servers[config.node_id] = BrokerServer(config, clock=self.clock)
        interceptor = self.interceptors[config.node_id] = Interceptor(server, self._faults)
        interceptor.observe = self._requests.add if self._requests is not None else None
        return server

    @property
    def is_inherited(self) -> bool:
        """Returns whether this process was forked from the one in which the brokers run."""
        return self.pid != os.getpid()

    async def start(self) -> None:
        """Raises what `BrokerServer.start` raises; nothing is left then."""
        self.loop = asyncio.get_running_loop()
        _unfinished.add(self)
        try:
            if self.temporary is not None:
                self.temporary.mkdir(mode=0o700)
            if self.secured is not None:
                self.secured.prepare()
            if self._prepare is not None:
                self._prepare()
            await _all(self._start_one(server) for server in self.servers.values())
            await self._began()
        except BaseException:
            self.forget()
            raise

    async def _start_one(self, server: BrokerServer) -> None:
        """Starts a broker. Where it halts, as a process does that cannot store anything any more, it is killed."""
        await server.start()
        server.failed.add_done_callback(lambda failed: self._halt(server) if not failed.cancelled() else None)

    def _halt(self, server: BrokerServer) -> None:
        if self.servers.get(server.node_id) is server:
            ending = self.loop.create_task(self.kill(server.node_id))
            self._halting.add(ending)
            ending.add_done_callback(self._halting.discard)

    async def _halted(self) -> None:
        """Waits for the ends of brokers that halt."""
        if self._halting:
            await asyncio.gather(*self._halting, return_exceptions=True)

    async def _began(self) -> None:
        """Notes where the brokers listen; gives the cluster its users."""
        for node_id, server in self.servers.items():  # they keep their ports when they start again
            said = [f"{listener.name}://{listener.endpoint.address}" for listener in server.network.listeners]
            self.configs[node_id]["listeners"] = ",".join(said)
        self.bootstrap_servers = ",".join(address for server in self.servers.values() for address in self._of(server))
        if self.secured is not None:
            self.secured.files.write_properties(self.bootstrap_servers)
            await self.secured.provide_users(self)

    def _of(self, server: BrokerServer) -> list[str]:
        """Returns the addresses for clients."""
        if self.secured is None:
            return server.addresses
        advertised = server.network.listeners.advertised_endpoints()
        return [endpoint.address for endpoint in advertised if endpoint.name == self.secured.listener]

    async def stop(self) -> None:
        try:
            await self._halted()
            # All at once: nothing that one leads need move to another.
            leave = len(self.servers) == 1 and len(self.configs) == 1
            await _all(server.stop(leave=leave) for server in self.servers.values())
        finally:
            self.forget()

    async def reset(self) -> None:
        """Deletes all topics and groups, and ends what tests have changed. Raises RuntimeError."""
        await self._halted()
        for node_id in self.configs:
            if node_id not in self.servers:
                await self.restart(node_id)
        await delete_everything(await self.active_controller())
        if self.secured is not None:
            await self.secured.reset(self)
        offset = (await self.active_controller()).node.metadata.image.offset
        await reached(
            lambda: all(server.node.metadata.image.offset >= offset for server in self.servers.values()),
            "the deletion on every broker",
        )
        return_to_real_time(self.clock, self.servers.values())

    async def active_controller(self) -> BrokerServer:
        """Returns the broker with the active controller, when there is one. Raises TimeoutError."""
        found: list[BrokerServer] = []

        def is_there() -> bool:
            found[:] = [server for server in self.servers.values() if server.controller.driver.is_active]
            return bool(found)

        await reached(is_there, "an active controller")
        return found[0]

    async def ask_controller(self, request: Request[ResponseT], version: int) -> ResponseT:
        """Returns the active controller's response. Raises TimeoutError, RuntimeError."""
        return await ask_controller(await self.active_controller(), request, version)

    def observe(self, requests: RequestLog) -> None:
        """Notes the requests of all brokers, those that start again included."""
        self._requests = requests
        for interceptor in self.interceptors.values():
            interceptor.observe = requests.add

    # ---- one of the brokers

    async def kill(self, node_id: int) -> None:
        """Ends a broker: its connections break first, it hands nothing over, and its directories are not marked clean."""
        server = self.servers.pop(node_id)
        for listener in server.network.listeners:
            for connection in list(listener.connections):
                connection.abort()
        await server.stop(leave=False, clean=False)

    async def restart(self, node_id: int) -> None:
        """Starts a broker again on its port and its data; one that runs stops first."""
        await self._halted()
        if node_id in self.servers:
            await self.servers.pop(node_id).stop()
        server = self._make(BrokerConfig(self.configs[node_id]))
        try:
            await self._start_one(server)
        except BaseException:
            del self.servers[node_id]
            raise

    async def start_all(self) -> None:
        """Starts all brokers, which were killed."""
        await _all(self._start_one(self._make(BrokerConfig(each))) for each in self.configs.values())
        if self.secured is not None:
            await self.secured.provide_users(self)

    # ---- endings

    def stop_thread(self) -> None:
        """`stop`, and the end of the thread, waited for."""
        assert self.thread is not None
        try:
            self.thread.run(self.stop())
        finally:
            self.end_thread()

    def end_thread(self) -> None:
        if self.thread is not None:
            self.thread.end()
        self.forget()

    def abandon(self) -> bool:
        """Stops it without waiting: the garbage collector may call this on any thread. False when it has ended."""
        if self not in _unfinished or self.is_inherited:
            return False
        self._is_abandoned = True
        try:
            self.loop.call_soon_threadsafe(self._begin_stop)
        except RuntimeError:  # the loop is closed: only the data is left
            self.forget()
        return True

    def _begin_stop(self) -> None:
        self._stopping = self.loop.create_task(self.stop())
        self._stopping.add_done_callback(self._end_abandoned_thread)

    def _end_abandoned_thread(self, stopping: asyncio.Task[None]) -> None:
        if self.thread is not None:
            self.thread.begin_end()

    def stop_at_exit(self) -> None:
        assert self.thread is not None
        try:
            if self._is_abandoned:
                self.thread.join(EXIT_DEADLINE_S)
            else:
                self.thread.run(self.stop(), EXIT_DEADLINE_S)
                self.thread.end(EXIT_DEADLINE_S)
        except (OSError, RuntimeError) as error:  # a TimeoutError too
            log.warning("a broker could not be stopped when the program ended: %s", error)

    def forget(self) -> None:
        """Removes what is left of it in this process and on the disk."""
        _unfinished.discard(self)
        folders = (self.temporary, self.secured.folder if self.secured is not None else None)
        for folder in folders:
            if folder is not None and not self.is_inherited:
                shutil.rmtree(folder, ignore_errors=True)


async def _all(work: Iterable[Coroutine[object, None, None]]) -> None:
    """Runs all to their ends. The first failure cancels the others, and is raised."""
    tasks = [asyncio.get_running_loop().create_task(one) for one in work]
    try:
        await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def _stop_threads() -> None:
    begin_exit()
    for run in list(_unfinished):
        if run.thread is not None and not run.is_inherited:
            run.stop_at_exit()


def _remove_data() -> None:
    """A broker that shared a loop cannot be stopped any more, as the loop has ended."""
    for run in list(_unfinished):
        run.forget()


# A stop flushes on threads of an executor, which takes no work any more when atexit's functions are called; functions
# registered here are called earlier, the last registered first. concurrent.futures does the same.
getattr(threading, "_register_atexit", atexit.register)(_stop_threads)
atexit.register(_remove_data)
