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

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..metadata.configs import InvalidConfig
from .broker_run import EmbeddedRun, temporary_path
from .completion import Completion
from .embedded import EMBEDDED_DEFAULTS, ConfigValue, Embedded, as_text
from .secured_run import hosts_of

if TYPE_CHECKING:
    from ..server.access.provisioning import Security
    from ..server.broker import BrokerServer

_DEFAULT_HOST = "127.0.0.1"


class Broker(Embedded):
    """One broker with its controller.

    `host`, `port`: where the broker listens; port 0 picks a free port. `data_dir`: the data directory; by default a
    temporary folder that is removed when the broker stops. `config`: Kafka's broker properties, over the defaults.
    `security`: how clients connect: "tls", "mtls", "scram", "plain" or an `odradek.Security`; `client_settings` has
    what they need.
    `schema_registry`: also serve a schema registry, at `schema_registry_url`; its schemas are in memory.

    A start raises `odradek.InvalidConfig` for an invalid property, OSError when the port is taken, and
    RuntimeError while the broker runs. A stopped broker may be started again.
    """

    def __init__(
        self,
        *,
        host: str = _DEFAULT_HOST,
        port: int = 0,
        data_dir: str | Path | None = None,
        config: Mapping[str, ConfigValue] | None = None,
        security: str | Security | None = None,
        schema_registry: bool = False,
    ) -> None:
        super().__init__(security, schema_registry=schema_registry)
        self._host = host
        self._port = port
        self._data_dir = data_dir
        self._config = {key: as_text(value) for key, value in (config or {}).items()}

    @property
    def server(self) -> BrokerServer:
        """The running broker itself, for tests that look inside. Raises RuntimeError when it does not run."""
        run = self._here()
        if not run.servers:
            raise RuntimeError("this broker was killed: restart() starts it again")
        return next(iter(run.servers.values()))

    def kill(self) -> Completion[None]:
        """Kills the broker, as SIGKILL does: connections break, its port is closed. Its data stays for `restart`."""
        run, node_id = self._here(), self.server.node_id
        return self._do("kill()", lambda: run.kill(node_id))

    def restart(self) -> Completion[None]:
        """Stops the broker, unless it was killed, and starts it again on its port and its data."""
        run = self._here()
        return self._do("restart()", lambda: run.restart(next(iter(run.configs))))

    def reset_from_thread(self) -> None:
        """`reset()`, by its former name."""
        self.reset()

    def _planned(self) -> EmbeddedRun:
        given = self._config
        properties = dict(EMBEDDED_DEFAULTS)
        secured = self._secured_run()
        if secured is not None:
            properties |= secured.properties(hosts_of(self._host), several_nodes=False)
        if "listeners" not in given:
            host = f"[{self._host}]" if ":" in self._host else self._host
            if not 0 <= self._port <= 65535:
                raise InvalidConfig(f"port {self._port} is not a port: a number from 0 to 65535")
            name = secured.listener if secured is not None else "PLAINTEXT"
            properties["listeners"] = f"{name}://{host}:{self._port}"
        elif secured is not None:
            raise InvalidConfig("security is given, and listeners in config as well: give one of them")
        elif self._port or self._host != _DEFAULT_HOST:
            raise InvalidConfig("host and port are given, and listeners in config as well: give one of them")
        temporary = None
        if "log.dirs" in given or "log.dir" in given:
            if self._data_dir is not None:
                raise InvalidConfig("data_dir is given, and log.dirs in config as well: give one of them")
        elif self._data_dir is None:
            temporary = temporary_path()
            properties["log.dirs"] = str(temporary)
        elif str(self._data_dir):
            properties["log.dirs"] = str(self._data_dir)
        else:
            raise InvalidConfig("data_dir is empty: name a folder, or leave it out for a temporary one")
        return EmbeddedRun([{**properties, **given}], temporary, self.faults, secured=secured)
