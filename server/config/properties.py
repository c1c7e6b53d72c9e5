r"""Java's .properties files: `key=value`, `key: value` or `key value`, a line each.

`#` and `!` begin comments. A backslash at the end of a line continues it, without the blanks that begin the next one. `\t`,
`\n`, `\r`, `\f` and `\uXXXX` are escapes; before any other character a backslash only keeps it from meaning anything.
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from ...metadata.configs import InvalidConfig
from ...storage.files.open_files import open_regular_file, read_regular_file

#: A file with a comment for each of Kafka's keys has 200 kB; a disk image named by mistake is not read to its end.
MOST_FILE_BYTES = 4 << 20

#: Limit of a key in an error message.
_MOST_KEY_CHARACTERS = 100

_BLANK = " \t\f"
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|u|.)", re.DOTALL)
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED = {char: f"\\{letter}" for letter, char in _CONTROL.items()}
_IN_KEY = re.compile(r"[\\ \t\n\r\f:=#!]")
#: A blank counts only where a value begins.
_IN_VALUE = re.compile(r"[\\\t\n\r\f]|^ ")
_LINE = re.compile(r"\r\n|\r|\n")


def read_properties(path: Path) -> dict[str, str]:
    """The keys and values of a file. It is read as UTF-8, or as Latin-1 (as Java does) when it is not. Raises OSError, and
    InvalidConfig for a file that is no text, or much too long.
    """
    with path.open("rb") as file:
        data = file.read(MOST_FILE_BYTES + 1)
    if len(data) > MOST_FILE_BYTES:
        raise InvalidConfig(
            f"{path} is longer than {MOST_FILE_BYTES} bytes: it is not a properties file; give the right file"
        )
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InvalidConfig(f"{path} is UTF-16: save it as UTF-8")
    if b"\0" in data:
        raise InvalidConfig(f"{path} has NUL bytes: it is not a properties file; give the right file")
    try:
        return parse_properties(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        return parse_properties(data.decode("latin-1"))


def parse_properties(text: str) -> dict[str, str]:
    """Keys and values of a .properties file; of a key that stands twice, the last. Raises InvalidConfig for a bad escape."""
    found = dict(_split(line) for line in _logical_lines(text))
    found.pop("", None)
    return found


def _logical_lines(text: str) -> list[str]:
    lines: list[str] = []
    begun: list[str] = []
    for natural in _LINE.split(text):
        stripped = natural.lstrip(_BLANK)
        if not begun and stripped[:1] in ("", "#", "!"):
            continue
        if _ends_in_backslash(stripped):
            begun += [stripped[:-1]] if len(stripped) > 1 else []
        else:
            lines.append("".join([*begun, stripped]))
            begun = []
    return [*lines, "".join(begun)] if begun else lines


def _ends_in_backslash(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, str]:
    """The key ends at the first unescaped blank, `=` or `:`; blanks around the sign belong to neither side."""
    end = 0
    while end < len(line) and line[end] not in _BLANK + "=:":
        end += 2 if line[end] == "\\" else 1
    key, rest = line[:end], line[end:].lstrip(_BLANK)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANK)
    return _unescape(key, key), _unescape(rest, key)


def _unescape(text: str, key: str) -> str:
    """The text without escapes. An error names the key alone: the value may be a secret."""

    def meant(found: re.Match[str]) -> str:
        escape = found.group(1)
        if escape == "u":
            name = key[:_MOST_KEY_CHARACTERS]
            raise InvalidConfig(f"malformed \\uXXXX in the property {name!r}: four hexadecimal digits must follow")
        return chr(int(escape[1:], 16)) if escape[0] == "u" else _CONTROL.get(escape, escape)

    unescaped = _ESCAPE.sub(meant, text)
    # Two escapes may make one character beyond the first 65,536.
    return unescaped.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def format_properties(properties: Mapping[str, str]) -> str:
    """The text of a file from which `parse_properties` reads the same."""
    return "".join(f"{_escape(key, _IN_KEY)}={_escape(value, _IN_VALUE)}\n" for key, value in properties.items())


def _escape(text: str, special: re.Pattern[str]) -> str:
    return special.sub(lambda found: _ESCAPED.get(found.group(), f"\\{found.group()}"), text)


# Values from config providers (KIP-297): `${name:path:key}` or `${name:key}` in a static property.
#
# `config.providers` names them, and `config.providers.<name>.class` is one of Apache Kafka's three:
#
# - EnvVarConfigProvider: `${env:NAME}`, an environment variable (`param.allowlist.pattern`: which ones);
# - FileConfigProvider: `${file:/path:key}`, a key of a .properties file (`param.allowed.paths`: below which paths);
# - DirectoryConfigProvider: `${dir:/path:name}`, the text of the file of that name (`param.allowed.paths`).
#
# A variable that no provider resolves stays as it is. Resolved values are not resolved again.


_PACKAGE = "org.apache.kafka.common.config.provider."
PREFIX = "config.providers."

#: A path (or "") and a key -> the value, None when there is none.
Provider = Callable[[str, str], str | None]


def resolved(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties with their variables replaced. Raises InvalidConfig for a provider that is not known."""
    names = [name.strip() for name in properties.get("config.providers", "").split(",") if name.strip()]
    if not names:
        return dict(properties)
    providers = {name: _provider(name, properties) for name in names}

    return {key: text if key.startswith(PREFIX) else _replaced(text, providers) for key, text in properties.items()}


def _replaced(text: str, providers: Mapping[str, Provider]) -> str:
    """The text with its variables replaced."""
    parts, at = [], 0
    while (begin := text.find("${", at)) >= 0 and (end := text.find("}", begin)) >= 0:
        parts += [text[at:begin], _value(text[begin : end + 1], providers)]
        at = end + 1
    return "".join([*parts, text[at:]])


def _value(variable: str, providers: Mapping[str, Provider]) -> str:
    name, *rest = variable[2:-1].split(":", 2)
    if not rest or name not in providers:
        return variable
    value = providers[name](rest[0] if len(rest) == 2 else "", rest[-1])
    return variable if value is None else value


def _provider(name: str, properties: Mapping[str, str]) -> Provider:
    class_name = properties.get(f"{PREFIX}{name}.class", "")
    make = _KNOWN.get(class_name)
    if make is None:
        raise InvalidConfig(
            f"{PREFIX}{name}.class is {class_name or 'not set'}; it must be one of {', '.join(_KNOWN)} "
            "(other classes cannot be loaded here)"
        )
    prefix = f"{PREFIX}{name}.param."
    return make({key.removeprefix(prefix): text for key, text in properties.items() if key.startswith(prefix)})


def _environment(parameters: Mapping[str, str]) -> Provider:
    pattern = parameters.get("allowlist.pattern", ".*")
    try:
        allowed = re.compile(pattern)
    except re.error as error:
        raise InvalidConfig(f"allowlist.pattern {pattern!r} is not a regular expression: {error}") from None
    return lambda path, key: os.environ.get(key) if allowed.fullmatch(key) else None


def _files(parameters: Mapping[str, str]) -> Provider:
    def value(path: str, key: str) -> str | None:
        if not _is_allowed(path, parameters):
            return None
        try:
            open_regular_file(path).close()  # no FIFO, which would block
            return read_properties(Path(path)).get(key)
        except OSError as error:
            raise _unreadable(path, key, error) from None

    return value


def _unreadable(path: str, key: str, error: Exception) -> InvalidConfig:
    reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
    return InvalidConfig(f"cannot read {path} for the variable {key}: {reason}")


def _directories(parameters: Mapping[str, str]) -> Provider:
    def value(path: str, key: str) -> str | None:
        file = Path(path) / key
        if not _is_allowed(path, parameters) or file.parent != Path(path) or not file.is_file():
            return None
        try:
            return read_regular_file(file).decode()
        except (OSError, UnicodeDecodeError) as error:
            raise _unreadable(str(file), key, error) from None

    return value


def _is_allowed(path: str, parameters: Mapping[str, str]) -> bool:
    allowed = [Path(text.strip()) for text in parameters.get("allowed.paths", "").split(",") if text.strip()]
    asked = Path(os.path.normpath(path))
    return bool(path) and "\0" not in path and (not allowed or any(asked.is_relative_to(place) for place in allowed))


_KNOWN: dict[str, Callable[[Mapping[str, str]], Provider]] = {
    f"{_PACKAGE}EnvVarConfigProvider": _environment,
    f"{_PACKAGE}FileConfigProvider": _files,
    f"{_PACKAGE}DirectoryConfigProvider": _directories,
}
