"""Contexts: named clusters with their client properties, in one file of the user's.

The file is `$XDG_CONFIG_HOME/odradek/contexts.toml` (`~/.config` without that variable), written as a whole and with mode
0600, because it may hold passwords:

    current = "prod"

    [contexts.prod]
    "bootstrap.servers" = "kafka-1:9093"
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from .user_errors import UserError

#: A file of more bytes is none of ours.
_MOST_FILE_BYTES = 1 << 20


@dataclass(slots=True, repr=False)
class Contexts:
    """`named`: the properties of each context. `current`: the one in use, None for none. No repr: it holds secrets."""

    named: dict[str, dict[str, str]] = field(default_factory=dict)
    current: str | None = None


def contexts_file() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "odradek" / "contexts.toml"


def read_contexts() -> Contexts:
    """Returns what the file has; nothing when there is none. Raises UserError for a damaged file."""
    file = contexts_file()
    try:
        with file.open("rb") as opened:
            data = opened.read(_MOST_FILE_BYTES + 1)
    except FileNotFoundError:
        return Contexts()
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror}") from None
    import tomllib

    try:
        if len(data) > _MOST_FILE_BYTES:
            raise ValueError("too long")
        parsed = tomllib.loads(data.decode())
        named = {
            str(name): {str(key): str(value) for key, value in properties.items()}
            for name, properties in parsed.get("contexts", {}).items()
        }
    except (ValueError, AttributeError):
        raise UserError(f"{file} is damaged: correct the file, or delete it and add the contexts again") from None
    current = parsed.get("current")
    return Contexts(named, current if isinstance(current, str) else None)


def write_contexts(contexts: Contexts) -> None:
    """Replaces the file in one step. Raises UserError when it cannot be written."""
    import tempfile  # which commands that only read contexts need not load

    file = contexts_file()
    lines = [f"current = {_quoted(contexts.current)}\n"] if contexts.current is not None else []
    for name in sorted(contexts.named):
        lines.append(f"\n[contexts.{_quoted(name)}]\n")
        lines += [f"{_quoted(key)} = {_quoted(value)}\n" for key, value in sorted(contexts.named[name].items())]
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor, temporary = tempfile.mkstemp(dir=file.parent, prefix=".contexts-")  # mode 0600
        with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
            opened.write("".join(lines))
            opened.flush()
            os.fsync(opened.fileno())
        Path(temporary).replace(file)
    except OSError as error:
        raise UserError(f"cannot write {file}: {error.strerror}") from None


def _quoted(text: str) -> str:
    """A basic string of TOML: JSON's escapes are among TOML's, but for DEL, which TOML wants escaped."""
    import json

    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
