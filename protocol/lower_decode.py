"""construct codecs -> a straight-line decoder.

The function made is `decode(buf, pos) -> (message, position after it)`. Runs of fixed-size fields, with the count or
length that follows them, become one `unpack_from`; positions are local variables; nested structures and arrays are in
line. Whatever does not fit raises (Fault, struct.error, IndexError) and `codec.py` asks the
interpreted codec for the reason.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from construct import Construct, FormatField

from . import primitives as p
from .source import Source, literal
from .varint import Fault, varint, varint_tail


class _Decoder:
    def __init__(self) -> None:
        self.source = Source("decode(buf, pos)")
        self.source.constants.update(Fault=Fault, varint=varint, varint_tail=varint_tail)
        self._layout = ""
        self._targets: list[str] = []

    # A run: fixed-size fields not read yet.

    def run(self, code: str, target: str) -> None:
        self._layout += code
        self._targets.append(target)

    def flush(self) -> None:
        if not self._layout:
            return
        size = struct.calcsize(">" + self._layout)
        if self._layout == "B":
            self.source(f"{self._targets[0]} = buf[pos]")
        else:
            names = ", ".join(self._targets)
            comma = "," if len(self._targets) == 1 else ""
            self.source(f"{names}{comma} = {self.source.packer(self._layout)}.unpack_from(buf, pos)")
        self.source(f"pos += {size}")
        self._layout = ""
        self._targets = []

    # One method for each kind of codec: leaves the value in the variable `target`.

    def value(self, codec: Construct, target: str) -> None:
        if isinstance(codec, FormatField):
            self.run(codec.fmtstr[1:], target)
        elif isinstance(codec, p.Structure):
            self.structure(codec, target)
        elif isinstance(codec, p.Text):
            self.text(codec, target)
        elif isinstance(codec, p.Blob):
            self.blob(codec, target)
        elif isinstance(codec, p.Sequence):
            self.sequence(codec, target)
        elif isinstance(codec, p.Nullable):
            self.nullable(codec, target)
        else:
            assert codec is p.Uuid, codec
            self.run("16s", target)

    def count(self, codec: p.Prefixed) -> str:
        """Reads the count; in the variable returned, -1 is null."""
        name = self.source.name("n")
        self.run("B" if codec.compact else codec.classic.fmtstr[1:], name)
        self.flush()
        if codec.compact:
            with self.source.block(f"if {name} > 127:"):
                self.source(f"{name}, pos = varint_tail(buf, pos, {name})")
            self.source(f"{name} -= 1")
        return name

    def text(self, codec: p.Text, target: str) -> None:
        self._counted(codec, target, p.MAX_STRING_BYTES, 'str(buf[pos:stop], "utf-8", "replace")')

    def blob(self, codec: p.Blob, target: str) -> None:
        self._counted(codec, target, None, "memoryview(buf)[pos:stop]" if codec.view else "bytes(buf[pos:stop])")

    def _counted(self, codec: p.Prefixed, target: str, limit: int | None, taken: str) -> None:
        count, source = self.count(codec), self.source
        over = f" or {count} > {limit}" if limit else ""
        with source.block(f"if {count} >= 0:"):
            source(f"stop = pos + {count}")
            with source.block(f"if stop > end{over}:"):
                source("raise Fault")
            source(f"{target} = {taken}")
            source("pos = stop")
        self._otherwise_null(codec, count, target)

    def _otherwise_null(self, codec: p.Prefixed, count: str, target: str) -> None:
        source = self.source
        if codec.nullable:
            with source.block(f"elif {count} == -1:"):
                source(f"{target} = None")
        with source.block("else:"):
            source("raise Fault")

    def sequence(self, codec: p.Sequence, target: str) -> None:
        count, source = self.count(codec), self.source
        with source.block(f"if {count} >= 0:"):
            with source.block(f"if {count} > {p.MAX_ARRAY_ELEMENTS} or {count} * {codec.element_size} > end - pos:"):
                source("raise Fault")
            self._elements(codec.element, count, target)
        self._otherwise_null(codec, count, target)

    def _elements(self, element: Construct, count: str, target: str) -> None:
        source = self.source
        if isinstance(element, FormatField):
            source.constants.setdefault("unpack_from", struct.unpack_from)
            source(f'{target} = list(unpack_from(f">{{{count}}}{element.fmtstr[1:]}", buf, pos))')
            source(f"pos += {count} * {element.sizeof()}")
            return
        source(f"{target} = []")
        item = source.name("e")
        with source.block(f"for _ in range({count}):"):
            self.value(element, item)
            self.flush()
            source(f"{target}.append({item})")

    def nullable(self, codec: p.Nullable, target: str) -> None:
        marker = self.source.name("n")
        if codec.tagged:
            self.source(f"{marker}, pos = varint(buf, pos)")
        else:
            self.run("b", marker)
            self.flush()
        with self.source.block(f"if {marker} > {codec.null}:"):
            self.value(codec.element, target)
            self.flush()
        with self.source.block("else:"):
            self.source(f"{target} = None")

    def structure(self, codec: p.Structure, target: str) -> None:
        names = {member.name: self.source.name() for member in [*codec.members, *codec.tagged.values()]}
        for member in codec.members:
            self.value(member.codec, names[member.name])
        tags = None
        if codec.flexible:
            tags = self.source.name("t")
            self.run("B", tags)
        self.flush()
        for member in codec.tagged.values():
            self.source(f"{names[member.name]} = {self.default(member.default)}")
        unknown = self._tags(codec, names, tags) if tags else None
        values = names | {member.name: self.default(member.default) for member in codec.absent}
        cls = self.source.constant(codec.cls, codec.cls.__name__)
        ordered = ", ".join(values[field.name] for field in codec.cls.SCHEMA.fields)  # type: ignore[attr-defined]
        self.source(f"{target} = {cls}({ordered})")
        if unknown:
            with self.source.block(f"if {tags}:"):
                self.source(f"{target}.unknown_tags = {unknown}")

    def default(self, value: Any) -> str:
        text = literal(value)
        if text is not None:
            return text
        return f"{self.source.constant(type(value), type(value).__name__)}()"

    def _tags(self, codec: p.Structure, names: dict[str, str], tags: str) -> str:
        source = self.source
        unknown, tag, size = source.name("u"), source.name("t"), source.name("z")
        with source.block(f"if {tags}:"):
            with source.block(f"if {tags} > 127:"):
                source(f"{tags}, pos = varint_tail(buf, pos, {tags})")
            with source.block(f"if {tags} > {p.MAX_TAGGED_FIELDS}:"):
                source("raise Fault")
            source(f"{unknown} = None")
            with source.block(f"for _ in range({tags}):"):
                source(f"{tag}, pos = varint(buf, pos)")
                source(f"{size}, pos = varint(buf, pos)")
                source(f"{size} += pos")
                with source.block(f"if {size} > end:"):
                    source("raise Fault")
                for number, member in codec.tagged.items():
                    with source.block(f"if {tag} == {number}:"):
                        self.value(member.codec, names[member.name])
                        self.flush()
                        with source.block(f"if pos != {size}:"):
                            source("raise Fault")
                        source("continue")
                with source.block(f"if {unknown} is None:"):
                    source(f"{unknown} = {{}}")
                source(f"{unknown}[{tag}] = bytes(buf[pos:{size}])")
                source(f"pos = {size}")
        return unknown


def lower_decoder(tree: p.Structure, name: str) -> Callable[..., Any]:
    decoder = _Decoder()
    decoder.source("end = len(buf)")
    decoder.structure(tree, "message")
    decoder.source("return message, pos")
    return decoder.source.compile(f"<decode {name}>")
