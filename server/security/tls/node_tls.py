"""The TLS of all listeners of a node, and of its connections to other nodes.

Stores are read at the start, before anything listens, and again when the dynamic configuration of this broker is written:
even when no value changed, because a file may have (KIP-226).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ....metadata.configs import BrokerValues, InvalidConfig
from ...config.listeners import TLS_PROTOCOLS, Listeners, read_listeners

if TYPE_CHECKING:
    from ...config.broker_config import BrokerConfig
    from .listener_tls import ListenerTls

log = logging.getLogger("odradek.tls")


class NodeTls:
    """Nothing is read, or imported, where no listener uses TLS."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._listeners: dict[str, ListenerTls] = {}
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
        """Checks that `after` may become the configuration of this broker. Raises InvalidConfig. A file that was written
        under an unchanged name is looked at when the configuration is applied, as in Kafka.
        """
        listeners = read_listeners(after)
        for name, protocol, is_server in _tls_listeners(listeners):
            from .listener_tls import has_other_settings, make_listener_tls

            old = self._listeners.get(name)
            if old is None:
                make_listener_tls(after, name, protocol, is_server=is_server)
            elif has_other_settings(old, after, protocol):
                self._replacement(old, after, name, protocol)

    def _replacement(self, old: ListenerTls, values: BrokerValues, name: str, protocol: str) -> ListenerTls:
        from .listener_tls import check_replacement, make_listener_tls

        new = make_listener_tls(values, name, protocol, is_server=old.server is not None)
        is_between_nodes = name == self._config.listeners.inter_broker_name and not self._config.is_alone
        check_replacement(old, new, values, is_between_nodes=is_between_nodes)
        return new

    def _renew(self) -> None:
        """Replaces what is outdated. What cannot be replaced stays as it is."""
        values, protocols = self._config.values, self._config.listeners.protocols
        for name, old in list(self._listeners.items()):
            from .listener_tls import has_other_files, has_other_settings

            protocol = protocols.get(name, "")
            if protocol not in TLS_PROTOCOLS:
                del self._listeners[name]
                continue
            try:
                if has_other_settings(old, values, protocol) or has_other_files(old):
                    self._listeners[name] = self._replacement(old, values, name, protocol)
                    log.info("new connections on %s use the new key and trust stores", name)
            except InvalidConfig as refused:
                log.error("the key and trust stores of %s stay as they are: %s", name, refused)


def _tls_listeners(found: Listeners) -> Iterator[tuple[str, str, bool]]:
    """Yields name, protocol and whether this node serves it, of each listener with TLS."""
    served = {endpoint.name for endpoint in (*found.brokers, *found.controllers)}
    for name in dict.fromkeys((*sorted(served), found.inter_broker_name, found.controller_name)):
        protocol = found.protocols.get(name, "")
        if protocol in TLS_PROTOCOLS:
            yield name, protocol, name in served
