"""The value of `sasl.jaas.config`, read as Apache Kafka reads it: with the rules of Java's StreamTokenizer.

```
org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="…" user_alice="…";
```

Words have letters, digits, `.`, `-`, `_` and `$`; everything else stands in quotes, and so does a word that begins with a
digit. `/` begins a comment. Errors show nothing of the text: any of it may be a part of a password.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ....metadata.configs import InvalidConfig

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
