"""The TLS of all listeners of a node, and of its connections to other nodes.

Stores are read at the start, before anything listens, and again when the dynamic configuration of this broker is written:
even when no value changed, because a file may have (KIP-226).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterator
from typing import TYPE_CHECKING, Any

from ...metadata.configs import BrokerValues, InvalidConfig
from ..config.listeners import TLS_PROTOCOLS, Listeners, read_listeners

if TYPE_CHECKING:
    from ..config.broker_config import BrokerConfig
    from .listener_tls import ListenerTls

log = logging.getLogger("odradek.tls")


class StoresNotRead(Exception):
    """A check needs stores that were not read yet. `read` reads them, on any thread; the check is then made again."""

    def __init__(self, read: Callable[[], object]) -> None:
        super().__init__("key and trust stores were not read yet")
        self.read = read


class NodeTls:
    """Nothing is read, or imported, where no listener uses TLS."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._listeners: dict[str, ListenerTls] = {}
        #: The result of reading the stores of the next configuration, or its error. Emptied when that is applied.
        self._read: dict[Hashable, ListenerTls | InvalidConfig] = {}
        #: Runs the first function on a thread, then the second on the loop: to read a store takes up to 0.1 s.
        self.in_thread: Callable[[Callable[[], object], Callable[[Any], object]], None] = _at_once
        config.validators.append(self.check)
        config.on_dynamic_written.append(self._renew)

    def open(self) -> None:
        """Reads the stores of all listeners that this node serves or connects to. Raises InvalidConfig."""
        found = self._config.listeners
        for name, protocol, is_server in _tls_listeners(found):
            from .listener_tls import check_trusts_itself, make_listener_tls

            tls = make_listener_tls(self._config.values, name, protocol, is_server=is_server)
            if name == found.inter_broker_name and not self._config.is_alone:
                check_trusts_itself(tls)
            self._listeners[name] = tls

    def of(self, listener: str) -> ListenerTls | None:
        """Returns the TLS of a listener as it is now; None for one without TLS. Raises InvalidConfig for one that was not
        there at the start, and cannot be made.
        """
        protocol = self._config.listeners.protocols.get(listener, "")
        if protocol not in TLS_PROTOCOLS:
            return None
        if listener not in self._listeners:
            from .listener_tls import make_listener_tls

            self._listeners[listener] = make_listener_tls(self._config.values, listener, protocol, is_server=True)
        return self._listeners[listener]

    def connection_arguments(self, listener: str, host: str) -> dict[str, Any]:
        """Returns what `create_connection` needs besides host and port, to a listener of another node. A name that is not
        configured here is one of a controller.
        """
        found = self._config.listeners
        name = listener if listener in found.protocols else found.controller_name
        tls = self.of(name)
        return {} if tls is None else {"ssl": tls.client, "server_hostname": host}

    def check(self, after: BrokerValues) -> None:
        """Checks that `after` may become the configuration of this broker. Raises InvalidConfig, and StoresNotRead. A file
        that was written under an unchanged name is looked at when the configuration is applied, as in Kafka.
        """
        for name, protocol, is_server in _tls_listeners(read_listeners(after)):
            from .listener_tls import has_other_settings

            old = self._listeners.get(name)
            if old is None:
                self._made(after, name, protocol, is_server)
            elif has_other_settings(old, after, protocol):
                self._replacement(old, after, protocol, is_server)

    def _replacement(self, old: ListenerTls, values: BrokerValues, protocol: str, is_server: bool) -> ListenerTls:
        from .listener_tls import check_replacement

        name = old.settings.listener
        new = self._made(values, name, protocol, is_server)
        is_between_nodes = name == self._config.listeners.inter_broker_name and not self._config.is_alone
        check_replacement(old, new, values, is_between_nodes=is_between_nodes)
        return new

    def _made(self, values: BrokerValues, name: str, protocol: str, is_server: bool) -> ListenerTls:
        """Raises InvalidConfig, and StoresNotRead the first time."""
        from .listener_tls import make_listener_tls, modified
        from .tls_settings import read_settings

        settings = read_settings(values, name, protocol)
        key = (settings, modified(settings), is_server)

        def read() -> None:
            try:
                self._read[key] = make_listener_tls(values, name, protocol, is_server=is_server)
            except InvalidConfig as rejected:
                self._read[key] = rejected

        found = self._read.get(key)
        if found is None:
            raise StoresNotRead(read)
        if isinstance(found, InvalidConfig):
            raise InvalidConfig(str(found))
        return found

    def _renew(self) -> None:
        """Replaces outdated parts. A part that cannot be replaced stays as it is."""
        protocols = {
            name: (protocol, is_server) for name, protocol, is_server in _tls_listeners(self._config.listeners)
        }
        for name, old in list(self._listeners.items()):
            if name not in protocols:
                del self._listeners[name]
                continue
            try:
                self._renew_one(old, *protocols[name])
            except StoresNotRead as missing:
                self.in_thread(missing.read, lambda _: self._renew())
                return
            except InvalidConfig as rejected:
                log.error("the key and trust stores of %s are unchanged: %s", name, rejected)
        self._read.clear()

    def _renew_one(self, old: ListenerTls, protocol: str, is_server: bool) -> None:
        from .listener_tls import has_other_files, has_other_settings

        values, name = self._config.values, old.settings.listener
        if has_other_settings(old, values, protocol) or has_other_files(old) or (is_server and old.server is None):
            self._listeners[name] = self._replacement(old, values, protocol, is_server)
            log.info("new connections on %s use the new key and trust stores", name)


def _at_once(work: Callable[[], object], done: Callable[[Any], object]) -> None:
    done(work())


def _tls_listeners(listeners: Listeners) -> Iterator[tuple[str, str, bool]]:
    """Yields name, protocol and whether this node serves it, of each listener with TLS."""
    served = {endpoint.name for endpoint in (*listeners.brokers, *listeners.controllers)}
    for name in dict.fromkeys((*sorted(served), listeners.inter_broker_name, listeners.controller_name)):
        protocol = listeners.protocols.get(name, "")
        if protocol in TLS_PROTOCOLS:
            yield name, protocol, name in served
