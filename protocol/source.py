"""The source of a generated function: lines, names and constants."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Source:
    """Collects the source of one function. Names are unique; constants become globals of the function."""

    def __init__(self, signature: str) -> None:
        self.lines = [f"def {signature}:"]
        self.constants: dict[str, Any] = {}
        self._depth = 1
        self._names = 0

    def __call__(self, line: str) -> None:
        self.lines.append("    " * self._depth + line)

    @contextmanager
    def block(self, line: str) -> Iterator[None]:
        self(line)
        self._depth += 1
        yield
        self._depth -= 1

    def name(self, hint: str = "v") -> str:
        self._names += 1
        return f"{hint}{self._names}"

    def constant(self, value: object, hint: str) -> str:
        for name, known in self.constants.items():
            if known is value:
                return name
        name = f"{hint}_{len(self.constants)}"
        self.constants[name] = value
        return name

    def pack(self, layout: str) -> str:
        """Returns the name of the `pack` of a big-endian `struct.Struct` with that layout."""
        return self._method("pack", layout)

    def unpack(self, layout: str) -> str:
        """Returns the name of its `unpack_from`."""
        return self._method("unpack_from", layout)

    def _method(self, method: str, layout: str) -> str:
        name = f"{method}_{layout.replace('?', 'B_')}"
        self.constants.setdefault(name, getattr(struct.Struct(">" + layout), method))
        return name

    def compile(self, filename: str) -> Callable[..., Any]:
        scope = dict(self.constants)
        exec(compile("\n".join(self.lines) + "\n", filename, "exec"), scope)
        function: Callable[..., Any] = scope[self.lines[0].split()[1].split("(")[0]]
        return function


def literal(value: object) -> str | None:
    """Returns the default as source text, if that represents it completely."""
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return repr(value)
    return "[]" if value == [] else None
