"""Client properties as Kafka's tools take them: files, texts, names of secrets, and the store of remote segments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

from .user_errors import Misused

V = TypeVar("V")

#: Parts of names of which no value is shown.
_SECRET = (
    "password", "passwd", "passphrase", "secret", "jaas", "keystore.key", "token", "key.pem", "credential", "user.info",
    "account_key", "private.key", "private_key", "access.key", "access_key", "api.key", "api_key", "apikey",
)  # fmt: skip
#: Secrets within a value: a password of a URL, and parameters of a URL or of a text of options.
_USER_INFO = re.compile(r"(?<=://)[^/?#\s]*@")
_PARAMETER = re.compile(
    r"((?:password|passwd|passphrase|secret|token|api_?key)[\w.]*\s*=\s*)(\"[^\"]*\"|'[^']*'|[^&;,\s]+)", re.I
)
HIDDEN = "(hidden)"

#: Keys of a broker's configuration that name its store of remote segments, and the prefix of the store's own keys.
STORE_CLASS = "remote.log.storage.manager.class.name"
_STORE_PREFIX, _DEFAULT_STORE_PREFIX = "remote.log.storage.manager.impl.prefix", "rsm.config."

#: Properties of the schema registry, under the names of Confluent's tools, and the variable with its address.
REGISTRY_URL, REGISTRY_USER_INFO = "schema.registry.url", "schema.registry.basic.auth.user.info"
REGISTRY_VARIABLE = "ODRADEK_SCHEMA_REGISTRY"
_REGISTRY_PREFIX = "schema.registry."

#: An example for each option of pairs; `-X` has that of a client.
_EXAMPLES = {
    "set-feature": "metadata.version=29",
    "quota set": "producer_byte_rate=1048576",
    "--table": "orders=shop.orders",
    "--catalog": "type=sql",
    "-X": "client.id=me",
}
_OTHER_EXAMPLE = "retention.ms=3600000"


def is_of_registry(name: str) -> bool:
    """Returns whether a property is of the schema registry, with no meaning for Kafka's clients."""
    return name.startswith(_REGISTRY_PREFIX)


class StoreSettings(NamedTuple):
    """A store of remote segments: its class, and its own keys without their prefix. They may hold passwords."""

    class_name: str
    keys: dict[str, str]

    def __str__(self) -> str:
        place = self.keys.get("url") or self.keys.get("dir")
        return f"store {self.class_name}" + (f" ({place})" if place else "")

    def __repr__(self) -> str:
        return str(self)


def store_settings(properties: Mapping[str, str]) -> StoreSettings | None:
    """The store that properties name with the keys of a broker's configuration."""
    if not properties.get(STORE_CLASS):
        return None
    prefix = properties.get(_STORE_PREFIX) or _DEFAULT_STORE_PREFIX
    own = {name[len(prefix) :]: value for name, value in properties.items() if name.startswith(prefix)}
    return StoreSettings(properties[STORE_CLASS], own)


def is_of_store(name: str, properties: Mapping[str, str]) -> bool:
    """Returns whether a property is of the store, with no meaning for Kafka's clients."""
    prefix = properties.get(_STORE_PREFIX) or _DEFAULT_STORE_PREFIX
    return name in (STORE_CLASS, _STORE_PREFIX) or name.startswith(prefix)


def is_secret(name: str) -> bool:
    lowered = name.lower()
    if lowered.endswith(("token.endpoint.url", "keystore.location")):
        return False
    return any(part in lowered for part in _SECRET)


def shown_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties with secrets replaced."""
    return {name: shown_value(name, value) for name, value in properties.items()}


def shown_value(name: str, value: str) -> str:
    """The value of a property, without a secret: all of it by its name, or a part that has the form of one."""
    if is_secret(name):
        return HIDDEN
    return _PARAMETER.sub(rf"\1{HIDDEN}", _USER_INFO.sub(f"{HIDDEN}@", value))


def read_client_properties(path: Path) -> dict[str, str]:
    """Reads a .properties file. Raises Misused for one that cannot be read."""
    from ..metadata.configs import InvalidConfig
    from .properties_file import read_properties

    try:
        found = read_properties(path)
    except OSError as error:
        raise Misused(f"cannot read {path}: {error.strerror or error}") from None
    except InvalidConfig as error:
        raise Misused(str(error)) from None
    if not found:
        raise Misused(f"{path} has no properties: it is empty, or has comments alone")
    return found


def given_once(known: Mapping[str, object], more: Mapping[str, V]) -> Mapping[str, V]:
    """Returns `more`. Raises Misused for a key that both have: of two changes, neither can be meant."""
    if both := known.keys() & more.keys():
        raise Misused(f"{min(both)} is given twice, with two changes: give one")
    return more


def pairs(texts: Iterable[str], option: str) -> dict[str, str]:
    """KEY=VALUE texts as a mapping. Raises Misused, which never shows the value."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not key:
            example = _EXAMPLES.get(option, _OTHER_EXAMPLE)
            raise Misused(f"{option} needs KEY=VALUE, for example {option} {example}")
        if found.setdefault(key, value) != value:
            raise Misused(f"{option}: {key} is given twice, with two values: give one")
    return found
