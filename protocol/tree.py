"""The codec of one version of a message by construct, built from its table."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, TypeVar, cast

from construct import Construct

from .primitives import (
    Blob,
    Bool,
    ErrorText,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Member,
    Nullable,
    Sequence,
    Structure,
    Text,
    UInt16,
    UInt32,
    Uuid,
)
from .schema import ArrayOf, Scalar

if TYPE_CHECKING:
    from .schema import Field, Message, WireType

_FIXED: dict[str, Construct] = {
    "bool": Bool,
    "int8": Int8,
    "int16": Int16,
    "uint16": UInt16,
    "int32": Int32,
    "uint32": UInt32,
    "int64": Int64,
    "float64": Float64,
    "uuid": Uuid,
}

F = TypeVar("F", bound=Callable[..., object])


def remembered(function: F) -> F:
    """Wraps `functools.cache` and keeps the signature, since mypy considers a class argument unhashable."""
    return cast(F, cache(function))


class UnsupportedVersionOfMessage(ValueError):
    """The message has no such version: the caller requested a version outside the protocol."""


@remembered  # bounded by the messages and versions that exist
def construct_tree(cls: type[Message], version: int) -> Structure:
    """Returns the codec of `cls` in `version`. Raises UnsupportedVersionOfMessage."""
    if version not in cls.SCHEMA.versions:
        raise UnsupportedVersionOfMessage(f"{cls.__name__} has versions {cls.SCHEMA.versions}, not {version}")
    return _structure(cls, version, version in cls.SCHEMA.flexible)


def _structure(cls: type[Message], version: int, flexible: bool) -> Structure:
    members, absent, tagged = [], [], {}
    for field in cls.SCHEMA.fields:
        if version not in field.versions:
            absent.append(Member(field.name, None, field.common_default()))
            continue
        tag = field.tag if version in field.tagged else None
        member = Member(field.name, _field(field, version, flexible, tag is not None), field.common_default())
        if tag is None:
            members.append(member)
        else:
            tagged[tag] = member
    return Structure(cls, members, dict(sorted(tagged.items())), absent, flexible)


def _field(field: Field, version: int, flexible: bool, in_tag: bool) -> Construct:
    nullable = version in field.nullable
    if nullable and isinstance(field.type, type):
        return Nullable(_structure(field.type, version, flexible), in_tag)
    return _codec(field.type, version, flexible, nullable, flexible and field.may_be_compact)


def _codec(wire_type: WireType, version: int, flexible: bool, nullable: bool, compact: bool) -> Construct:
    if isinstance(wire_type, ArrayOf):
        element = _codec(wire_type.element, version, flexible, False, compact)
        return Sequence(element, compact, nullable)
    if not isinstance(wire_type, Scalar):
        return _structure(wire_type, version, flexible)
    if wire_type.name == "string":
        return (ErrorText if wire_type.is_error_text else Text)(compact, nullable)
    if wire_type.name in ("bytes", "records"):
        return Blob(compact, nullable, view=wire_type.name == "records")
    return _FIXED[wire_type.name]
