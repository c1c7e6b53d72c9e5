"""Message schemas: one table for all versions of a message.

The class body is the table. Each line has a field, its wire type, and the versions that contain it::

    @message("0-5", flexible="3+", key=18)
    class ApiVersionsRequest(Message):
        client_software_name: str = wire(STRING, "3+")

`message` makes a slotted, typed dataclass of it, and keeps the table as `SCHEMA`. tree.py turns a table and a
version into construct codecs; lower_decode.py and lower_encode.py turn those into straight-line code.

A version range is written as Kafka writes it: "0-5", "3+", "4", "none".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar, Union, cast, dataclass_transform

from .source import Source, literal

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault  # `typing` has it from Python 3.13 on

    #: The response to a request.
    ResponseT = TypeVarWithDefault("ResponseT", bound="Message", default=Any)
else:
    ResponseT = TypeVar("ResponseT")

#: Record batches: a view of the received frame (copy it to keep it), or the bytes to send.
Records = Union[bytes, bytearray, memoryview, None]

#: No version: for a field that is never nullable, or a message that is never flexible.
NEVER = 32768

#: Takes the response to a request; its class depends on that of the request.
ResponseCallback = Callable[[Any], None]

_SHARED: dict[type, Message | None] = {}

T = TypeVar("T", bound=type)


class Versions(NamedTuple):
    """An inclusive range of versions; empty when `low` is greater than `high`."""

    low: int
    high: int

    @classmethod
    @cache
    def parse(cls, text: str) -> Versions:
        if text == "none":
            return cls(NEVER, NEVER - 1)
        if text.endswith("+"):
            return cls(int(text[:-1]), NEVER - 1)
        low, _, high = text.partition("-")
        return cls(int(low), int(high or low))

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.low <= version <= self.high

    def __str__(self) -> str:
        if self.low > self.high:
            return "none"
        if self.high == NEVER - 1:
            return f"{self.low}+"
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


@dataclass(frozen=True, slots=True)
class Scalar:
    """A wire type without parts; `zero` is the default of a field without its own."""

    name: str
    zero: object
    #: Text for people, which the encoder cuts if it is too long. Names and other data are never cut.
    is_error_text: bool = False


@dataclass(frozen=True, slots=True)
class ArrayOf:
    element: WireType


BOOL = Scalar("bool", False)
INT8 = Scalar("int8", 0)
INT16 = Scalar("int16", 0)
UINT16 = Scalar("uint16", 0)
INT32 = Scalar("int32", 0)
UINT32 = Scalar("uint32", 0)
INT64 = Scalar("int64", 0)
FLOAT64 = Scalar("float64", 0.0)
STRING = Scalar("string", "")
#: A string on the wire. It may repeat parts of a request, so it may exceed the maximum string length.
ERROR_TEXT = Scalar("string", "", is_error_text=True)
BYTES = Scalar("bytes", b"")
RECORDS = Scalar("records", None)
#: Sixteen raw bytes; `uuids.py` shows them as Kafka does.
UUID = Scalar("uuid", bytes(16))


@dataclass(slots=True, eq=False, repr=False, kw_only=True)
class Message:
    """The base class of every message and nested structure.

    `unknown_tags` keeps tagged fields that are not in this version of the schema (KIP-482), so that a message is
    forwarded unchanged.
    """

    SCHEMA: ClassVar[Schema]
    unknown_tags: dict[int, bytes] | None = None

    @classmethod
    def versions_with(cls, field: str) -> range:
        """Returns the versions that have a field. Compute it at import: `version in` a range calls no function."""
        for row in cls.SCHEMA.fields:
            if row.name == field:
                return range(row.versions.low, row.versions.high + 1)
        raise AttributeError(f"{cls.__name__} has no field {field}")

    @classmethod
    def newest_version(cls) -> int:
        return cls.SCHEMA.versions.high

    @classmethod
    def flexible_versions(cls) -> range:
        """Returns the versions that have tagged fields (KIP-482)."""
        return range(cls.SCHEMA.flexible.low, cls.SCHEMA.flexible.high + 1)

    def __eq__(self, other: object) -> bool:
        # Compares tables, not classes: a shared default has its own class.
        if not isinstance(other, Message) or other.SCHEMA is not self.SCHEMA:
            return NotImplemented
        same_tags = (self.unknown_tags or None) == (other.unknown_tags or None)
        return same_tags and all(getattr(self, f.name) == getattr(other, f.name) for f in self.SCHEMA.fields)

    def __repr__(self) -> str:
        shown = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in self.SCHEMA.fields)
        return f"{type(self).__name__}({shown})"


class Request(Message, Generic[ResponseT]):
    """The base class of requests: `Request[R]` is one whose response is an R, and `Request` any."""

    __slots__ = ()


WireType = Union[Scalar, ArrayOf, type[Message]]


@dataclass(slots=True, eq=False)
class Field:
    """One line of a table. `tag` is None for a field with a position in the message."""

    name: str
    type: WireType
    versions: Versions
    nullable: Versions
    tag: int | None
    tagged: Versions
    default: object
    #: False for strings that Kafka never encodes as compact strings (RequestHeader.client_id).
    may_be_compact: bool

    def fresh_default(self) -> object:
        """Returns the default as a new value that the caller may change."""
        if isinstance(self.default, list):
            return []
        if isinstance(self.default, type):
            return self.default()
        return self.default

    def common_default(self) -> object:
        """Returns the default in decoded messages: a structure is shared by all of them if possible (see `shared`)."""
        made = shared(self.default) if isinstance(self.default, type) else None
        return self.fresh_default() if made is None else made


@dataclass(frozen=True, slots=True)
class Schema:
    """A table: its fields in wire order. `key` is the API key or record key, if any."""

    fields: tuple[Field, ...]
    versions: Versions
    flexible: Versions
    key: int | None


def array(element: WireType) -> ArrayOf:
    return ArrayOf(element)


def wire(
    type: WireType,
    versions: str = "0+",
    *,
    nullable: str = "none",
    tag: int | None = None,
    tagged: str | None = None,
    default: Any = dataclasses.MISSING,
    may_be_compact: bool = True,
) -> Any:
    """Declares one field of a table.

    `versions`: those that contain it. `nullable`: those in which it may be None. `tag` and `tagged`: its number, and
    the versions in which it is a tagged field (by default all of `versions`). `default`: by default Kafka's zero of
    the type.
    """
    if default is dataclasses.MISSING:
        default = _zero(type)
    tag_versions = "none" if tag is None else tagged or versions
    carried, nulls, tags = (Versions.parse(text) for text in (versions, nullable, tag_versions))
    row = Field("", type, carried, nulls, tag, tags, default, may_be_compact)
    common = row.common_default()
    if is_shared(common):
        return dataclasses.field(default=common, metadata={"wire": row})
    return dataclasses.field(default_factory=list if isinstance(common, list) else default, metadata={"wire": row})


def has_records(message: type[Message]) -> bool:
    """Returns whether a message has batches of records, which are decoded as views of its frame."""
    types = [field.type for field in message.SCHEMA.fields]
    inner = [one.element if isinstance(one, ArrayOf) else one for one in types]
    return RECORDS in types or any(has_records(one) for one in inner if isinstance(one, type))


def _zero(wire_type: WireType) -> object:
    if isinstance(wire_type, Scalar):
        return wire_type.zero
    return [] if isinstance(wire_type, ArrayOf) else wire_type


def shared(cls: type[Message]) -> Message | None:
    """Returns the one default object of structure `cls`, shared by all messages; None if it cannot be shared.

    Most structures in tagged fields are never sent, and building one for each message would cost more than the rest of
    it. A shared default is immutable: assign a new structure. Its copies are ordinary structures.
    """
    if cls not in _SHARED:
        values = {field.name: field.common_default() for field in cls.SCHEMA.fields}
        whole = all(is_shared(value) for value in values.values())
        _SHARED[cls] = _frozen(cls, {**values, "unknown_tags": None}) if whole else None
    return _SHARED[cls]


def is_shared(default: object) -> bool:
    """Returns whether one object can be the default in every message: it is immutable."""
    return not isinstance(default, list) and not (isinstance(default, Message) and type(default).__hash__ is None)


def _frozen(cls: type[Message], values: dict[str, object]) -> Message:
    def reject(self: Message, name: str, value: object) -> None:
        raise AttributeError(f"this {cls.__name__} is the default of all messages: assign a new one to change {name}")

    body = {
        "__slots__": (),
        "__setattr__": reject,
        "__hash__": object.__hash__,  # dataclasses treat an unhashable default as mutable
        # Copies, `dataclasses.replace` and pickles create ordinary structures.
        "__new__": lambda _, **given: cls(**given),
        "__reduce__": lambda _: (cls, ()),
    }
    made: Message = object.__new__(type(cls.__name__, (cls,), body))
    for name, value in values.items():
        object.__setattr__(made, name, value)
    return made


@dataclass_transform()
def message(versions: str, *, flexible: str = "none", key: int | None = None) -> Callable[[T], T]:
    """Turns a class into a message: a slotted dataclass with its table in `SCHEMA`.

    Nested structures are declared with `struct` and take their versions from the message that contains them.
    """

    def decorate(cls: T) -> T:
        # Generating the docstring and `__init__` in dataclass would take most of the time of an import.
        cls.__doc__ = cls.__doc__ or "A table: see the module."
        made: Any = dataclass(slots=True, eq=False, repr=False, match_args=False, init=False)(cls)
        made.__init__ = _first_init(made)
        fields = []
        for field in dataclasses.fields(made):
            if "wire" in field.metadata:
                fields.append(field.metadata["wire"])
                fields[-1].name = field.name
        made.SCHEMA = Schema(tuple(fields), Versions.parse(versions), Versions.parse(flexible), key)
        return cast(T, made)

    return decorate


def _first_init(cls: type[Message]) -> Callable[..., None]:
    """Returns an `__init__` that, on its first call, compiles the final one and replaces itself."""

    def init(self: Message, *given: object, **named: object) -> None:
        cls.__init__ = _compiled_init(cls)  # type: ignore[method-assign]
        cls.__init__(self, *given, **named)

    return init


def _compiled_init(cls: type[Message]) -> Callable[..., None]:
    """Compiles the `__init__` of a dataclass: fields in order, by position or name, and `unknown_tags` by name."""
    source = Source("init(self, {}*, unknown_tags=None)")
    signature = []
    for field in cls.SCHEMA.fields:
        common = field.common_default()
        if is_shared(common):
            signature.append(f"{field.name}={literal(common) or source.constant(common, 'default')}, ")
            source(f"self.{field.name} = {field.name}")
        else:
            signature.append(f"{field.name}=MISSING, ")
            made = "[]" if isinstance(common, list) else source.constant(type(common), type(common).__name__) + "()"
            source(f"self.{field.name} = {made} if {field.name} is MISSING else {field.name}")
    source("self.unknown_tags = unknown_tags")
    source.lines[0] = source.lines[0].replace("{}", "".join(signature))
    source.constants["MISSING"] = dataclasses.MISSING
    return source.compile(f"<__init__ of {cls.__name__}>")


@dataclass_transform()
def struct(cls: T) -> T:
    """Declares a nested structure; it has the versions of its message."""
    return message("0+")(cls)
