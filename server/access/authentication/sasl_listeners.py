"""The SASL of all listeners of a node: who its users are, and how each listener has them prove it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ....metadata.configs import InvalidConfig
from ...runtime.lazy import Lazy

if TYPE_CHECKING:
    from ....client.sasl import Login
    from ....metadata.credentials import ScramMechanism
    from ....metadata.image import ScramCredential
    from ...config.broker_config import BrokerConfig
    from ...runtime.metadata_cache import MetadataCache
    from .authentication import Settings
    from .gate import Outcomes, SaslListener
    from .oauth_settings import KeySets
    from .token_users import TokenCredential, TokenUsers

log = logging.getLogger("odradek.security")

SASL_PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL")
_BROKER_KEY: Final = "sasl.mechanism.inter.broker.protocol"
_CONTROLLER_KEY: Final = "sasl.mechanism.controller.protocol"
#: The SASL of a listener with a security protocol.
MakeSasl = Callable[[str, str], "SaslListener | None"]


class SaslListeners:
    """Makes the SASL of listeners. SCRAM's users are those of the published metadata."""

    def __init__(self, config: BrokerConfig, metadata: MetadataCache) -> None:
        self._config = config
        self._metadata = metadata
        #: The keys of the issuers of OAuth tokens.
        self._key_sets = Lazy(_key_sets)
        #: Made when the first client logs in with a delegation token.
        self._token_users: TokenUsers | None = None
        #: By listener: how this node logs in there, with the configuration that it is read from.
        self._logins: dict[str, tuple[object, Login]] = {}
        #: By listener: counted since the start.
        self.outcomes: dict[str, Outcomes] = {}

    def of(self, listener: str, protocol: str) -> SaslListener | None:
        """Returns the SASL of a listener; None for a protocol without SASL. Raises InvalidConfig."""
        if protocol not in SASL_PROTOCOLS:
            return None
        from .gate import Outcomes, SaslListener  # which a broker without SASL does not need
        from .listener_settings import listener_value, read_settings
        from .scram import ScramUsers

        config = self._config
        users = ScramUsers(self._credential, self._token)
        settings = _Current(config, listener, lambda: read_settings(config, listener, users, self._key_sets))
        return SaslListener(
            settings.now,
            listener_value(config, listener, "sasl.server.max.receive.size"),
            config.get("connection.failed.authentication.delay.ms"),
            self.outcomes.setdefault(listener, Outcomes()),
        )

    def stop(self) -> None:
        if self._key_sets.made is not None:
            self._key_sets.made.stop()

    def check(self) -> None:
        """Checks that this node can log in at the others, before it listens. Raises InvalidConfig."""
        found = self._config.listeners
        if not self._config.is_alone:
            for name in {found.inter_broker_name, self._controller_name} & found.protocols.keys():
                self.login(name)

    @property
    def _controller_name(self) -> str:
        """The listener on which this node connects to controllers."""
        name: str = self._config.get("controller.listener.names")[0]
        return name.upper()

    def login(self, listener: str) -> Login | None:
        """Returns how this node logs in on a listener of another node; None where it need not. A name that is not
        configured here is one of a controller. Raises InvalidConfig.
        """
        config = self._config
        found = config.listeners
        name = listener if listener in found.protocols else self._controller_name
        if found.protocols.get(name) not in SASL_PROTOCOLS:
            return None
        read_from, login = self._logins.get(name, (None, None))
        if login is None or read_from is not config.values:
            from .listener_settings import read_login

            login = read_login(config, name, _CONTROLLER_KEY if self._is_of_controllers(name) else _BROKER_KEY)
            self._logins[name] = (config.values, login)
        return login

    def _is_of_controllers(self, listener: str) -> bool:
        return listener in (name.upper() for name in self._config.get("controller.listener.names"))

    def _credential(self, name: str, mechanism: ScramMechanism) -> ScramCredential | None:
        return self._metadata.image.scram.get((name, mechanism.code))

    def _token(self, token_id: str, mechanism: ScramMechanism) -> TokenCredential | None:
        secret = self._config.get("delegation.token.secret.key")
        token = self._metadata.image.delegation_tokens.get(token_id)
        if token is None or secret is None or not secret.value:
            return None
        if self._token_users is None or self._token_users.secret != secret.value:
            from .token_users import TokenUsers

            self._token_users = TokenUsers(secret.value)
        return self._token_users.credential(token_id, token, mechanism)


def _key_sets() -> KeySets:
    from .oauth_settings import KeySets

    return KeySets()


class _Current:
    """The settings of a listener, read again when the configuration has changed."""

    def __init__(self, config: BrokerConfig, listener: str, read: Callable[[], Settings]) -> None:
        self._config = config
        self._listener = listener
        self._read = read
        self._read_from = config.values
        self._settings = read()

    def now(self) -> Settings:
        if self._read_from is not self._config.values:
            self._read_from = self._config.values
            try:
                self._settings = self._read()
            except InvalidConfig as invalid:
                log.error("the SASL settings of listener %s are unchanged: %s", self._listener, invalid)
        return self._settings
