"""The levels of an Avro value.

fastavro reads records within themselves by recursion in C: a value of some kilobytes ends the process. Values of schemas
that allow it are checked before fastavro reads them; `avro_schemas` limits what the other schemas allow.
"""

from __future__ import annotations

from .avro_logical import AvroType
from .json_parsing import MOST_DEPTH

_MOST_LONG_BYTES = 10
_BYTES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_NESTED = ("record", "error", "array", "map")


class AvroBounds:
    """`named`: the records, enums and fixed types of the schema, by name."""

    def __init__(self, schema: AvroType, named: dict[str, AvroType]) -> None:
        self._schema = schema
        self._named = named
        self._is_recursive = self._is_within(schema, (), set())

    def check(self, data: bytes) -> None:
        """Raises ValueError for a value of more than MOST_DEPTH levels, and EOFError for one that ends within a field."""
        if self._is_recursive:
            _DepthWalk(self._named, data).skip(self._schema, 0)

    def _is_within(self, schema: AvroType, within: tuple[str, ...], done: set[str]) -> bool:
        """Returns whether a record of the schema is within itself. `within`: the records around."""
        schema = _resolved(schema, self._named)
        if isinstance(schema, list):
            return any(self._is_within(one, within, done) for one in schema)
        if not isinstance(schema, dict):
            return False
        if "fields" in schema:
            name = schema["name"]
            if name in done:
                return name in within
            done.add(name)
            return any(self._is_within(one["type"], (*within, name), done) for one in schema["fields"])
        return any(self._is_within(schema[inner], within, done) for inner in ("items", "values") if inner in schema)


class _DepthWalk:
    """One pass over the bytes of a value."""

    def __init__(self, named: dict[str, AvroType], data: bytes) -> None:
        self._named = named
        self._data = data
        self._at = 0

    def skip(self, schema: AvroType, depth: int) -> None:
        schema = _resolved(schema, self._named)
        if isinstance(schema, list):
            branch = self._long()
            if not 0 <= branch < len(schema):
                raise ValueError(f"a union has no type {branch}")
            self.skip(schema[branch], depth)
            return
        kind = schema["type"] if isinstance(schema, dict) else schema
        if kind in _NESTED and depth == MOST_DEPTH:
            raise ValueError(f"it has more than {MOST_DEPTH} levels of records, arrays and maps")
        if kind in ("record", "error"):
            for field in schema["fields"]:
                self.skip(field["type"], depth + 1)
        elif kind in ("array", "map"):
            self._skip_items(schema, depth + 1)
        elif kind == "fixed":
            self._move(int(schema["size"]))
        elif kind in ("string", "bytes"):
            self._move(self._long())
        elif kind in _BYTES:
            self._move(_BYTES[kind])
        else:
            self._long()

    def _skip_items(self, schema: AvroType, depth: int) -> None:
        is_map = schema["type"] == "map"
        while count := self._long():
            if count < 0:
                count = -count
                self._long()  # the bytes of the block
            for _ in range(count):  # the end of the value ends it: items have bytes (avro_schemas)
                if is_map:
                    self._move(self._long())
                self.skip(schema["values" if is_map else "items"], depth)

    def _move(self, count: int) -> None:
        if not 0 <= count <= len(self._data) - self._at:
            raise EOFError
        self._at += count

    def _long(self) -> int:
        number = shift = 0
        for _ in range(_MOST_LONG_BYTES):
            if self._at == len(self._data):
                raise EOFError
            byte = self._data[self._at]
            self._at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        return (number >> 1) ^ -(number & 1)


def _resolved(schema: AvroType, named: dict[str, AvroType]) -> AvroType:
    return named.get(schema, schema) if isinstance(schema, str) else schema
