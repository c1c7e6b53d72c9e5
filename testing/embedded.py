"""The common part of an embedded broker and an embedded cluster: they run on a thread of their own, or in the user's loop.

In a plain program the methods block; in a program of coroutines they are awaited. The start decides.
"""

from __future__ import annotations

import threading
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self

from ..server.access.client_files import plain_settings
from .broker_run import temporary_path
from .completion import Completion
from .embedded_clock import EmbeddedClock
from .faults.faults import Faults
from .groups_seen import GroupView
from .loop_thread import LoopThread
from .request_log import RequestLog
from .run_holder import RunHolder, running_loop
from .secured_run import SecuredRun, security_of
from .snapshots import SCHEMAS_FILE, restore, save
from .topics_seen import TopicView

if TYPE_CHECKING:
    from ..server.access.provisioning import Security
    from .broker_run import EmbeddedRun
    from .control_port import ControlPort
    from .registry.server import SchemaRegistry

ConfigValue = str | int | float | bool

#: Defaults for tests rather than for a long-running broker: rebalances begin at once, deleted files go at once.
EMBEDDED_DEFAULTS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "5",
    "log.segment.delete.delay.ms": "0",
}


class Embedded(RunHolder):
    """Brokers in this process, as described by `_planned`."""

    def __init__(self, security: str | Security | None = None, *, schema_registry: bool = False) -> None:
        super().__init__()
        self._security = security_of(security)
        self._has_registry = schema_registry
        self._registry: SchemaRegistry | None = None
        #: Faults that a test scripts; `reset` ends them.
        self.faults = Faults()
        self.clock = EmbeddedClock(self)
        self._requests = RequestLog()
        #: Held by the one start or stop that is under way.
        self._changing = threading.Lock()

    def _planned(self) -> EmbeddedRun:
        """Returns a run that has not begun. Raises InvalidConfig."""
        raise NotImplementedError

    def _started(self) -> None:
        """Called when a start has ended, well or not."""

    # Operations. Each blocks, or is awaited.

    def start(self) -> Completion[Self]:
        """Starts on the running event loop (`await broker.start()`), or on a new thread without one."""
        if running_loop() is None:
            return Completion("start()", value=self._start_on_thread())
        return Completion("start()", work=self._start_here)

    def stop(self) -> Completion[None]:
        """Stops and removes temporary data. Does nothing when nothing runs."""
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
        run = self._here()
        self.faults.clear()
        self._requests.clear()
        if self._registry is not None:
            self._registry.clear()
        return self._do("reset()", run.reset)

    def save(self, path: str | Path) -> Completion[None]:
        """Saves a snapshot to a folder: topics, records, groups, transactions and schemas.

        Raises FileExistsError, OSError.
        """
        run, registry = self._here(), self._registry

        async def work() -> None:
            save(run, Path(path))
            if registry is not None:
                registry.save(Path(path) / SCHEMAS_FILE)

        return self._do("save()", work)

    def restore(self, path: str | Path) -> Completion[None]:
        """Restores a snapshot, also one of another process. Connections break; the port stays.

        The schema registry is empty then where the snapshot has no schemas. Raises ValueError for a folder that is no
        snapshot of as many brokers.
        """
        run, registry = self._here(), self._registry

        async def work() -> None:
            await restore(run, Path(path))
            if registry is not None:
                registry.clear()
                if (Path(path) / SCHEMAS_FILE).exists():
                    registry.restore(Path(path) / SCHEMAS_FILE)

        return self._do("restore()", work)

    def serve_control(self, port: int = 0, *, snapshots: str | Path | None = None) -> ControlPort:
        """Serves all this over HTTP on 127.0.0.1, for programs in other languages, until `close()` of what is returned.

        Its `url` has `/openapi.json`. `snapshots`: the folder below which programs save and restore snapshots; without it
        they cannot. Raises OSError where the port is taken.
        """
        from .control_port import ControlPort

        return ControlPort(self, port, snapshots)

    # Contents.

    def topic(self, name: str) -> TopicView:
        """Returns a view of a topic: its records, and waits for records."""
        return TopicView(self, name)

    def group(self, group_id: str) -> GroupView:
        """Returns a view of a group: its lag and members, and waits for them."""
        return GroupView(self, group_id)

    @property
    def requests(self) -> RequestLog:
        """The requests of clients, recorded from the first use of this property on."""
        self._requests.is_on = True
        if self._run is not None:
            self._run.observe(self._requests)
        return self._requests

    def __enter__(self) -> Self:
        return self._start_on_thread()

    def __exit__(self, *exception: object) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return await self._start_here()

    async def __aexit__(self, *exception: object) -> None:
        await self.stop()

    # Properties.

    @property
    def is_running(self) -> bool:
        return self._run is not None and not self._run.is_inherited

    @property
    def bootstrap_servers(self) -> str:
        """`host:port`, for any client. Raises RuntimeError when it does not run.

        A forked process may use the address too: its clients reach the broker of the parent process.
        """
        return self._running().bootstrap_servers

    @property
    def schema_registry_url(self) -> str:
        """The address of the schema registry, for serialisers. Raises RuntimeError without `schema_registry=True`."""
        self._running()
        if self._registry is None:
            raise RuntimeError(f"this {self.noun} has no schema registry: create it with schema_registry=True")
        return self._registry.url

    def client_settings(self, library: str = "java", user: str | None = None) -> dict[str, Any]:
        """Returns the settings with which a client connects, under the names of its library: "java", "kafka-python",
        "aiokafka" or "confluent-kafka".

        `user`: by default the first one of `security`. Raises ValueError for another library, KeyError for another user,
        RuntimeError when it does not run.
        """
        run = self._running()
        if run.secured is None:
            return plain_settings(library, run.bootstrap_servers)
        return run.secured.files.settings(library, user or run.secured.security.first_user, run.bootstrap_servers)

    @property
    def client_properties(self) -> dict[str, str]:
        """The settings of Kafka's own clients, by Kafka's names: `client_settings("java")`."""
        return self.client_settings("java")

    def client_properties_file(self, user: str | None = None) -> Path:
        """Returns the file with `client_properties`, for Kafka's tools. Raises RuntimeError without `security`."""
        secured = self._secured()
        name = user or secured.security.first_user
        if name not in secured.security.users:
            raise KeyError(f"there is no user {name}: these are {', '.join(secured.security.users)}")
        return secured.files.properties_file(name)

    @property
    def ca_file(self) -> Path:
        """The certificate of the authority that clients trust, in PEM. Raises RuntimeError where there is no TLS."""
        secured = self._secured()
        if not secured.security.has_tls:
            raise RuntimeError(
                f"this {self.noun} has no certificate: its clients connect with {secured.security.protocol}"
            )
        return secured.files.ca_file

    @property
    def users(self) -> dict[str, str]:
        """Names and passwords of the users of `security`; none without."""
        return dict(self._security.users) if self._security is not None else {}

    def _secured(self) -> SecuredRun:
        secured = self._running().secured
        if secured is None:
            raise RuntimeError(f'this {self.noun} has no security: create it with security="scram", for example')
        return secured

    def _secured_run(self) -> SecuredRun | None:
        return SecuredRun(self._security, temporary_path()) if self._security is not None else None

    def __repr__(self) -> str:
        return f"<odradek.{type(self).__name__} {self._run.bootstrap_servers if self._run else 'not running'}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} cannot be pickled: pass its bootstrap_servers to the other process")

    def __del__(self) -> None:
        run: EmbeddedRun | None = getattr(self, "_run", None)
        if run is not None and run.abandon():
            warnings.warn(f"{self!r} was not stopped", ResourceWarning, stacklevel=2, source=self)

    # Starting and stopping, in both worlds.

    def _start_on_thread(self) -> Self:
        with self._change("start"):
            self._check_stopped()
            run = self._planned()
            try:
                run.thread = LoopThread()
                run.thread.run(run.start())
            except BaseException:
                run.end_thread()
                raise
            finally:
                self._started()
            self._begin(run)
        return self

    async def _start_here(self) -> Self:
        with self._change("start"):
            self._check_stopped()
            run = self._planned()
            try:
                await run.start()
            finally:
                self._started()
            self._begin(run)
        return self

    def _begin(self, run: EmbeddedRun) -> None:
        self._run = run
        if self._has_registry:
            from .registry.server import SchemaRegistry

            self._registry = SchemaRegistry()
        if self._requests.is_on:
            run.observe(self._requests)

    def _stop_thread(self) -> None:
        with self._change("stop"):
            run = self._end_run()
            if run is not None:
                run.stop_thread()

    def _end_run(self) -> EmbeddedRun | None:
        run, self._run = self._run, None
        registry, self._registry = self._registry, None
        if registry is not None:
            registry.close()
        return run

    async def _stop_here(self) -> None:
        with self._change("stop"):
            run = self._end_run()
            if run is not None:
                await run.stop()

    def _check_stopped(self) -> None:
        if self.is_running:
            raise RuntimeError(
                f"this {self.noun} is running already: stop it first, or create another {type(self).__name__}"
            )

    def _change(self, name: str) -> _Change:
        return _Change(self._changing, f"{name} this {self.noun}")


class _Change:
    """The one start or stop of a broker that is under way. Raises RuntimeError where another is."""

    def __init__(self, lock: threading.Lock, name: str) -> None:
        self._lock = lock
        self._name = name

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise RuntimeError(f"cannot {self._name}: it is being started or stopped")

    def __exit__(self, *exception: object) -> None:
        self._lock.release()


def as_text(value: ConfigValue) -> str:
    """Returns a value of a property as a properties file has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
