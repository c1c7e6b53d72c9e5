"""Java's .properties files: `key=value`, `key: value` or `key value`, a line each.

`#` and `!` begin comments. A backslash at the end of a line continues it, without the blanks that begin the next one. `\\t`,
`\\n`, `\\r`, `\\f` and `\\uXXXX` are escapes; before any other character a backslash only keeps it from meaning anything.
"""

from __future__ import annotations

import re
from pathlib import Path

from ..metadata.configs import InvalidConfig

_BLANK = " \t\f"
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|u|.)", re.DOTALL)
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_LINE = re.compile(r"\r\n|\r|\n")


def read_properties(path: Path) -> dict[str, str]:
    """What a file says. It is read as UTF-8, or as Latin-1 (as Java does) when it is not. Raises OSError, InvalidConfig."""
    data = path.read_bytes()
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
    begun = ""
    for natural in _LINE.split(text):
        stripped = natural.lstrip(_BLANK)
        if not begun and stripped[:1] in ("", "#", "!"):
            continue
        begun += stripped
        if _ends_in_backslash(stripped):
            begun = begun[:-1]
        else:
            lines.append(begun)
            begun = ""
    return [*lines, begun] if begun else lines


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
    return _unescape(key, line), _unescape(rest, line)


def _unescape(text: str, line: str) -> str:
    def meant(found: re.Match[str]) -> str:
        escape = found.group(1)
        if escape == "u":
            raise InvalidConfig(
                f"malformed \\uXXXX in the properties line {line!r}: four hexadecimal digits must follow"
            )
        return chr(int(escape[1:], 16)) if escape[0] == "u" else _CONTROL.get(escape, escape)

    unescaped = _ESCAPE.sub(meant, text)
    # Two escapes may make one character beyond the first 65,536.
    return unescaped.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
