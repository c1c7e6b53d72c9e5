"""The SASL of a listener as its configuration describes it.

A key is read as `listener.name.<listener>.<mechanism>.<key>`, then, except for `sasl.jaas.config`, as
`listener.name.<listener>.<key>` and `<key>` (KIP-103, KIP-226). Listener and mechanism stand in lower case.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, overload

from ....client.login import PASSWORD_MECHANISMS
from ....client.sasl import Login, PasswordLogin
from ....metadata.configs import InvalidConfig, Password
from ....metadata.credentials import BY_NAME
from ...config.broker_config import BrokerConfig
from ...config.listener_prefix import listener_prefix, mechanism_prefix
from ...config.own_classes import is_own_class, load_class
from .authentication import Settings
from .jaas import KERBEROS_MODULE, PLAIN_MODULE, JaasEntry, parse_jaas
from .mechanism import HANDLER, Mechanism
from .plain import PasswordCheck, password_check, plain_mechanism
from .scram import ScramUsers, scram_mechanism

if TYPE_CHECKING:
    from ....metadata.configs.key_types import IntegerKey, ListKey, OptionalTextKey, TextKey
    from ...runtime.lazy import Lazy
    from .oauth_settings import KeySets

JAAS = "sasl.jaas.config"
PLAIN = "PLAIN"
OAUTHBEARER = "OAUTHBEARER"
GSSAPI = "GSSAPI"
_SERVICE: Final = "sasl.kerberos.service.name"
_USER_PREFIX = "user_"
_SECURITY = "org.apache.kafka.common.security"
#: Kafka's own class for each mechanism, which is the default there.
_HANDLERS = {PLAIN: f"{_SECURITY}.plain.internals.PlainServerCallbackHandler"} | dict.fromkeys(
    BY_NAME, f"{_SECURITY}.scram.internals.ScramServerCallbackHandler"
)
#: The mechanisms that are built.
MECHANISMS = (PLAIN, *BY_NAME, OAUTHBEARER, GSSAPI)
CLIENT_MECHANISMS = (*PASSWORD_MECHANISMS, OAUTHBEARER, GSSAPI)


@overload
def listener_value(config: BrokerConfig, listener: str, key: IntegerKey) -> int: ...
@overload
def listener_value(config: BrokerConfig, listener: str, key: ListKey) -> tuple[str, ...]: ...
@overload
def listener_value(config: BrokerConfig, listener: str, key: OptionalTextKey) -> str | None: ...
def listener_value(config: BrokerConfig, listener: str, key: str) -> object:
    """Returns the value of a key for a listener."""
    return config.value_of(listener_prefix(listener) + key)


@overload
def mechanism_value(config: BrokerConfig, listener: str, mechanism: str, key: IntegerKey) -> int: ...
@overload
def mechanism_value(config: BrokerConfig, listener: str, mechanism: str, key: OptionalTextKey) -> str | None: ...
def mechanism_value(config: BrokerConfig, listener: str, mechanism: str, key: str) -> object:
    """Returns the value of a key for a mechanism on a listener."""
    of_listener = listener_prefix(listener) + key
    name = mechanism_prefix(listener, mechanism) + key
    return config.value_of(name if config.is_set(name) else of_listener)


def jaas_of(config: BrokerConfig, listener: str, mechanism: str) -> JaasEntry | None:
    """Returns the login module of a mechanism on a listener. Raises InvalidConfig."""
    name = mechanism_prefix(listener, mechanism) + JAAS
    if not config.is_set(name):
        return None
    password = config.value_of(name)
    assert isinstance(password, Password)
    try:
        return parse_jaas(password.value)
    except InvalidConfig as invalid:
        raise InvalidConfig(f"{name}: {invalid}") from None


def read_settings(config: BrokerConfig, listener: str, users: ScramUsers, key_sets: Lazy[KeySets]) -> Settings:
    """Raises InvalidConfig, for mechanisms that are not built too."""
    names = listener_value(config, listener, "sasl.enabled.mechanisms")
    if not names:
        raise InvalidConfig(f"sasl.enabled.mechanisms names no mechanism for listener {listener}")
    return Settings(
        {name: _mechanism(config, listener, name, users, key_sets) for name in names},
        {name: mechanism_value(config, listener, name, "connections.max.reauth.ms") for name in names},
    )


def read_login(config: BrokerConfig, listener: str, key: TextKey) -> Login:
    """Returns how this node logs in on a listener; `key` names the mechanism. Raises InvalidConfig."""
    mechanism = config.get(key)
    if mechanism not in CLIENT_MECHANISMS:
        raise InvalidConfig(f"{key}: {mechanism} between nodes is not supported; use {', '.join(CLIENT_MECHANISMS)}")
    entry = jaas_of(config, listener, mechanism)
    name = mechanism_prefix(listener, mechanism) + JAAS
    if entry is None:
        raise InvalidConfig(f"{name} is not set: it names the user with which this node logs in on listener {listener}")
    if mechanism == GSSAPI:
        from ....client.kerberos import kerberos_login

        return kerberos_login(*_kerberos(config, listener))
    if mechanism == OAUTHBEARER:
        from .oauth_login_settings import LOGIN_HANDLER, oauth_login

        handler = mechanism_value(config, listener, mechanism, LOGIN_HANDLER)
        return oauth_login(partial(listener_value, config, listener), handler, entry, name)
    if "username" not in entry.options or "password" not in entry.options:
        raise InvalidConfig(f"{name}: username or password of this node's login is missing")
    return PasswordLogin(mechanism, entry.options["username"], entry.options["password"])


def _mechanism(config: BrokerConfig, listener: str, name: str, users: ScramUsers, key_sets: Lazy[KeySets]) -> Mechanism:
    handler = mechanism_value(config, listener, name, HANDLER)
    if name == PLAIN and handler is not None and is_own_class(handler):
        return plain_mechanism(load_class(HANDLER, handler, PasswordCheck))
    if handler not in (None, _HANDLERS.get(name)) and name != OAUTHBEARER:
        raise InvalidConfig(f"{HANDLER}: {handler} is not supported for {name} on listener {listener}")
    if name in BY_NAME:
        return scram_mechanism(BY_NAME[name], users)
    if name == PLAIN:
        return plain_mechanism(password_check(_plain_users(config, listener)))
    if name == OAUTHBEARER:
        return _oauthbearer(config, listener, handler, key_sets)
    if name == GSSAPI:
        return _gssapi(config, listener)
    raise InvalidConfig(
        f"sasl.enabled.mechanisms: {name} on listener {listener} is not supported; use {', '.join(MECHANISMS)}"
    )


def _oauthbearer(config: BrokerConfig, listener: str, handler: str | None, key_sets: Lazy[KeySets]) -> Mechanism:
    from .oauth import oauthbearer_mechanism
    from .oauth_settings import token_validator

    jaas = jaas_of(config, listener, OAUTHBEARER)
    return oauthbearer_mechanism(token_validator(config, listener, handler, jaas, key_sets()))


def _gssapi(config: BrokerConfig, listener: str) -> Mechanism:
    principal, keytab, _ = _kerberos(config, listener)
    from ..kerberos_names import SHORT_NAME_RULES as RULES
    from ..kerberos_names import ShortNames
    from .kerberos import default_realm, kerberos_mechanism

    names = ShortNames(default_realm(), listener_value(config, listener, RULES))
    return kerberos_mechanism(principal, keytab, names)


def _kerberos(config: BrokerConfig, listener: str) -> tuple[str, str | None, str]:
    """Returns the principal of this node, its keytab, and the name of the service that nodes are."""
    entry = jaas_of(config, listener, GSSAPI)
    name = mechanism_prefix(listener, GSSAPI) + JAAS
    if entry is None:
        raise InvalidConfig(
            f"{name} is not set: it names the principal of the broker and its keytab, as {KERBEROS_MODULE} required "
            'useKeyTab=true storeKey=true keyTab="…" principal="kafka/host@REALM"; '
            "(GSSAPI is the default of sasl.enabled.mechanisms)"
        )
    if entry.module != KERBEROS_MODULE:
        raise InvalidConfig(f"{name}: the login module of GSSAPI is {KERBEROS_MODULE}")
    principal = entry.options.get("principal")
    if not principal or "/" not in principal:
        raise InvalidConfig(f"{name}: the principal is missing, or has no host, as kafka/host@REALM")
    if entry.options.get("useKeyTab", "").lower() != "true":
        raise InvalidConfig(f"{name}: useKeyTab=true is missing: a broker logs in with its keytab")
    set_here, of_listener = entry.options.get("serviceName"), listener_value(config, listener, _SERVICE)
    if set_here and of_listener and set_here != of_listener:
        raise InvalidConfig(
            f"Conflicting serviceName values found in JAAS and Kafka configs value in JAAS file {set_here}, value in "
            f"Kafka config {of_listener}"
        )
    service = set_here or of_listener
    if not service:
        raise InvalidConfig(f"No serviceName defined in either JAAS or Kafka config ({_SERVICE})")
    keytab = entry.options.get("keyTab")
    return principal, keytab.removeprefix("FILE:") if keytab else None, service


def _plain_users(config: BrokerConfig, listener: str) -> dict[str, str]:
    entry = jaas_of(config, listener, PLAIN)
    name = mechanism_prefix(listener, PLAIN) + JAAS
    if entry is None:
        raise InvalidConfig(f"{name} is not set: it names the users of PLAIN, as {PLAIN_MODULE} required user_NAME=…;")
    if entry.module != PLAIN_MODULE:
        raise InvalidConfig(f"{name}: the login module of PLAIN is {PLAIN_MODULE}")
    prefix = len(_USER_PREFIX)
    return {key[prefix:]: value for key, value in entry.options.items() if key.startswith(_USER_PREFIX)}
