r"""Java's .properties files: `key=value`, `key: value` or `key value`, a line each.

`#` and `!` begin comments. A backslash at the end of a line continues it, without the blanks that begin the next one. `\t`,
`\n`, `\r`, `\f` and `\uXXXX` are escapes; before any other character a backslash only keeps it from meaning anything.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from pathlib import Path

from ..metadata.configs import InvalidConfig

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

    def meant(match: re.Match[str]) -> str:
        escape = match.group(1)
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
