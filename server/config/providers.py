"""Values from config providers (KIP-297): `${name:path:key}` or `${name:key}` in a static property.

`config.providers` names them, and `config.providers.<name>.class` is one of Apache Kafka's three:

- EnvVarConfigProvider: `${env:NAME}`, an environment variable (`param.allowlist.pattern`: which ones);
- FileConfigProvider: `${file:/path:key}`, a key of a .properties file (`param.allowed.paths`: below which paths);
- DirectoryConfigProvider: `${dir:/path:name}`, the text of the file of that name (`param.allowed.paths`).

A variable that no provider resolves stays as it is. Resolved values are not resolved again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from ...client.properties_file import read_properties
from ...metadata.configs import InvalidConfig
from ...storage.files.regular_files import open_regular_file, read_regular_file

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
