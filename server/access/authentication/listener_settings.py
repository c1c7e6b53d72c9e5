"""The SASL of a listener as its configuration describes it.

A key is read as `listener.name.<listener>.<mechanism>.<key>`, then, except for `sasl.jaas.config`, as
`listener.name.<listener>.<key>` and `<key>` (KIP-103, KIP-226). Listener and mechanism stand in lower case.

The value of `sasl.jaas.config`, read as Apache Kafka reads it: with the rules of Java's StreamTokenizer.

```
org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="…" user_alice="…";
```

Words have letters, digits, `.`, `-`, `_` and `$`; everything else stands in quotes, and so does a word that begins with a
digit. `/` begins a comment. Errors show nothing of the text: any of it may be a part of a password.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ....client.sasl import PASSWORD_MECHANISMS, Login, PasswordLogin
from ....metadata.configs import InvalidConfig, Password
from ....metadata.credentials import BY_NAME
from ..plugins import is_own_class, load_class
from .authentication import HANDLER, Mechanism, Settings
from .plain import PasswordCheck, password_check, plain_mechanism
from .scram import ScramUsers, scram_mechanism

if TYPE_CHECKING:
    from ...config.broker_config import BrokerConfig
    from ...runtime.subsystem import Lazy
    from .oauth import KeySets


PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTHBEARER_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
KERBEROS_MODULE = "com.sun.security.auth.module.Krb5LoginModule"
#: Kafka refuses them too (KAFKA-14496, CVE-2023-25194): they fetch code.
_REJECTED_MODULES = ("com.sun.security.auth.module.JndiLoginModule", "com.sun.security.auth.module.LdapLoginModule")
_FLAGS = ("required", "requisite", "sufficient", "optional")
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class JaasEntry(NamedTuple):
    """The login module of a JAAS configuration, and its options, whose values may be secrets."""

    module: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        return f"JaasEntry({self.module})"


class _Token(NamedTuple):
    """`text` is the word, or None for a number or another character, which is `character`."""

    text: str | None
    character: str


_END = _Token(None, "")


def parse_jaas(text: str) -> JaasEntry:
    """Returns the one login module. Raises InvalidConfig, whose words do not name the key."""
    entries = []
    tokens = _tokens(text)
    while (token := next(tokens)) is not _END:
        entries.append(_entry(token, tokens))
    if not entries:
        raise InvalidConfig("Login module not specified in JAAS config")
    if len(entries) > 1:
        raise InvalidConfig(f"JAAS config property contains {len(entries)} login modules, should be 1 module")
    if entries[0].module in _REJECTED_MODULES:
        raise InvalidConfig(f"{entries[0].module} is not allowed")
    return entries[0]


def _entry(first: _Token, tokens: Iterator[_Token]) -> JaasEntry:
    if not first.text:
        raise InvalidConfig("a JAAS config must begin with the name of a login module")
    flag = next(tokens)
    if flag is _END:
        raise InvalidConfig("Login module control flag not specified in JAAS config")
    if (flag.text or "").lower() not in _FLAGS:
        raise InvalidConfig(f"the login module control flag in a JAAS config must be one of {', '.join(_FLAGS)}")
    options: dict[str, str] = {}
    while (key := next(tokens)) is not _END and key.character != ";":
        if key.text is None or next(tokens).character != "=":
            raise InvalidConfig("an option in a JAAS config is not KEY=VALUE")
        value = next(tokens)
        if value.text is None:
            raise InvalidConfig("the value of an option in a JAAS config is not a word; enclose it in quotes")
        options[key.text] = value.text
    if key is _END:
        raise InvalidConfig("JAAS config entry not terminated by semi-colon")
    return JaasEntry(first.text, options)


def _tokens(text: str) -> Iterator[_Token]:
    """Yields the tokens, and then `_END` for ever."""
    pos = 0
    while pos < len(text):
        char = text[pos]
        if char <= " ":
            pos += 1
        elif char == "/":
            pos = _after_comment(text, pos)
        elif char in "\"'":
            word, pos = _quoted(text, pos)
            yield _Token(word, "")
        elif char.isascii() and (char.isdigit() or char in ".-"):
            pos = _after_number(text, pos)
            yield _Token(None, "0")
        elif _is_of_word(char):
            end = pos
            while end < len(text) and _is_of_word(text[end]):
                end += 1
            yield _Token(text[pos:end], "")
            pos = end
        else:
            yield _Token(None, char)
            pos += 1
    while True:
        yield _END


def _is_of_word(char: str) -> bool:
    return char in ".-_$" or char >= "\xa0" or (char.isascii() and char.isalnum())


def _after_comment(text: str, pos: int) -> int:
    """After `/* ... */`, or the line: StreamTokenizer takes a single slash for a comment too."""
    if text.startswith("/*", pos):
        end = text.find("*/", pos + 2)
        return len(text) if end < 0 else end + 2
    while pos < len(text) and text[pos] not in "\r\n":
        pos += 1
    return pos


def _after_number(text: str, pos: int) -> int:
    """After the digits; a sign or a dot that no digit follows is a character."""
    pos += 1
    while pos < len(text) and text[pos].isascii() and (text[pos].isdigit() or text[pos] == "."):
        pos += 1
    return pos


def _quoted(text: str, pos: int) -> tuple[str, int]:
    """The text in quotes, and the position after it; a line's end ends it too."""
    quote, pos = text[pos], pos + 1
    chars: list[str] = []
    while pos < len(text) and text[pos] != quote and text[pos] not in "\r\n":
        char = text[pos]
        pos += 1
        if char == "\\" and pos < len(text):
            char, pos = _escaped(text, pos)
        chars.append(char)
    return "".join(chars), pos + (pos < len(text) and text[pos] == quote)


def _escaped(text: str, pos: int) -> tuple[str, int]:
    """The character of an escape that begins after its backslash: up to three octal digits, or one character."""
    if text[pos] not in "01234567":
        return _ESCAPES.get(text[pos], text[pos]), pos + 1
    end = pos + 1
    most = pos + (3 if text[pos] <= "3" else 2)
    while end < min(most, len(text)) and text[end] in "01234567":
        end += 1
    return chr(int(text[pos:end], 8)), end


JAAS = "sasl.jaas.config"
PLAIN = "PLAIN"
OAUTHBEARER = "OAUTHBEARER"
GSSAPI = "GSSAPI"
_SERVICE = "sasl.kerberos.service.name"
_USER_PREFIX = "user_"
_SECURITY = "org.apache.kafka.common.security"
#: Kafka's own class for each mechanism, which is the default there.
_HANDLERS = {PLAIN: f"{_SECURITY}.plain.internals.PlainServerCallbackHandler"} | dict.fromkeys(
    BY_NAME, f"{_SECURITY}.scram.internals.ScramServerCallbackHandler"
)
#: The mechanisms that are built.
MECHANISMS = (PLAIN, *BY_NAME, OAUTHBEARER, GSSAPI)
CLIENT_MECHANISMS = (*PASSWORD_MECHANISMS, OAUTHBEARER, GSSAPI)


def listener_value(config: BrokerConfig, listener: str, key: str) -> Any:
    return config.get(f"listener.name.{listener.lower()}.{key}")


def mechanism_value(config: BrokerConfig, listener: str, mechanism: str, key: str) -> Any:
    name = f"listener.name.{listener.lower()}.{mechanism.lower()}.{key}"
    return config.get(name) if config.is_set(name) else listener_value(config, listener, key)


def jaas_of(config: BrokerConfig, listener: str, mechanism: str) -> JaasEntry | None:
    """Returns the login module of a mechanism on a listener. Raises InvalidConfig."""
    name = f"listener.name.{listener.lower()}.{mechanism.lower()}.{JAAS}"
    if not config.is_set(name):
        return None
    password: Password = config.get(name)
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


def read_login(config: BrokerConfig, listener: str, key: str) -> Login:
    """Returns how this node logs in on a listener; `key` names the mechanism. Raises InvalidConfig."""
    mechanism: str = config.get(key)
    if mechanism not in CLIENT_MECHANISMS:
        raise InvalidConfig(f"{key}: {mechanism} between nodes is not supported; use {', '.join(CLIENT_MECHANISMS)}")
    entry = jaas_of(config, listener, mechanism)
    name = f"listener.name.{listener.lower()}.{mechanism.lower()}.{JAAS}"
    if entry is None:
        raise InvalidConfig(f"{name} is not set: it names the user with which this node logs in on listener {listener}")
    if mechanism == GSSAPI:
        from ....client.kerberos import kerberos_login

        return kerberos_login(*_kerberos(config, listener))
    if mechanism == OAUTHBEARER:
        from .oauth_login import LOGIN_HANDLER, oauth_login

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
    from .oauth import (
        oauthbearer_mechanism,
        token_validator,  # which few listeners need
    )

    jaas = jaas_of(config, listener, OAUTHBEARER)
    return oauthbearer_mechanism(token_validator(config, listener, handler, jaas, key_sets()))


def _gssapi(config: BrokerConfig, listener: str) -> Mechanism:
    principal, keytab, _ = _kerberos(config, listener)
    from .kerberos import RULES, ShortNames, default_realm, kerberos_mechanism  # which few listeners need

    names = ShortNames(default_realm(), listener_value(config, listener, RULES))
    return kerberos_mechanism(principal, keytab, names)


def _kerberos(config: BrokerConfig, listener: str) -> tuple[str, str | None, str]:
    """Returns the principal of this node, its keytab, and the name of the service that nodes are."""
    entry = jaas_of(config, listener, GSSAPI)
    name = f"listener.name.{listener.lower()}.gssapi.{JAAS}"
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
    name = f"listener.name.{listener.lower()}.plain.{JAAS}"
    if entry is None:
        raise InvalidConfig(f"{name} is not set: it names the users of PLAIN, as {PLAIN_MODULE} required user_NAME=…;")
    if entry.module != PLAIN_MODULE:
        raise InvalidConfig(f"{name}: the login module of PLAIN is {PLAIN_MODULE}")
    prefix = len(_USER_PREFIX)
    return {key[prefix:]: value for key, value in entry.options.items() if key.startswith(_USER_PREFIX)}
