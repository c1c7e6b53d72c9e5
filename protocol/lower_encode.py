"""construct codecs -> a straight-line encoder.

The function made is `encode(message, write)`: it hands `write` the pieces of the message in order, `bytes` all of
them but the record batches, which are passed on as they are, uncopied. Fixed-size fields, with the count or length
that follows them, become one `pack`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from construct import Construct, FormatField

from . import primitives as p
from .source import Source, literal
from .varint import encode_varint, write_tags


class _Encoder:
    def __init__(self) -> None:
        self.source = Source("encode(message, write)")
        self.source.constants.update(encode_varint=encode_varint, write_tags=write_tags)
        self._layout = ""
        self._values: list[str] = []
        self._write = "write"

    # A run: fixed-size fields not written yet.

    def run(self, code: str, value: str | None) -> None:
        self._layout += code
        if value is not None:
            self._values.append(value)

    def flush(self) -> None:
        if self._layout:
            self.source(f"{self._write}({self._packed(self._layout, self._values)})")
        self._layout = ""
        self._values = []

    def _packed(self, layout: str, values: list[str]) -> str:
        return f"{self.source.packer(layout)}.pack({', '.join(values)})"

    def flush_with_varint(self, name: str) -> None:
        """The run and then a varint: one `pack` while the number fits one byte, which is nearly always."""
        layout, values = self._layout, self._values
        self._layout, self._values = "", []
        with self.source.block(f"if {name} < 128:"):
            self.source(f"{self._write}({self._packed(layout + 'B', [*values, name])})")
        with self.source.block("else:"):
            if layout:
                self.source(f"{self._write}({self._packed(layout, values)})")
            self.source(f"{self._write}(encode_varint({name}))")

    # One method for each kind of codec: writes the value of the expression `value`.

    def value(self, codec: Construct, value: str) -> None:
        if isinstance(codec, FormatField):
            self.run(codec.fmtstr[1:], value)
        elif isinstance(codec, p.Structure):
            self.structure(codec, value)
        elif isinstance(codec, p.Text):
            self.text(codec, value)
        elif isinstance(codec, p.Blob):
            self.blob(codec, value)
        elif isinstance(codec, p.Sequence):
            self.sequence(codec, value)
        elif isinstance(codec, p.Nullable):
            self.nullable(codec, value)
        else:
            assert codec is p.Uuid, codec
            self.run("16s", value)

    def count(self, codec: p.Prefixed, name: str) -> None:
        if codec.compact:
            self.flush_with_varint(name)
        else:
            self.run(codec.classic.fmtstr[1:], name)
            self.flush()

    def _prefixed(self, codec: p.Prefixed, value: str, size: str) -> tuple[str, str]:
        """Leaves the value in a variable and its count as it is on the wire in another; (value, count)."""
        held, count, source = self.source.name(), self.source.name("n"), self.source
        one_more = " + 1" if codec.compact else ""
        source(f"{held} = {value}")
        if not codec.nullable:
            source(f"{count} = len({size.format(held)}){one_more}")
            return held, count
        null = 0 if codec.compact else -1
        source(f"{count} = {null} if {held} is None else len({size.format(held)}){one_more}")
        return held, count

    def text(self, codec: p.Text, value: str) -> None:
        encoded = f"{value}.encode()"
        if codec.nullable:
            held = self.source.name()
            self.source(f"{held} = {value}")
            encoded = f"None if {held} is None else {held}.encode()"
        data, count = self._prefixed(codec, encoded, "{}")
        if codec.compact:
            with self.source.block(f"if {count} > {p.MAX_STRING_BYTES + 1}:"):
                self.source('raise ValueError("string too long for the wire")')
        self.count(codec, count)
        self._write_if_any(codec, data, count)

    def blob(self, codec: p.Blob, value: str) -> None:
        data, count = self._prefixed(codec, value, "{}")
        self.count(codec, count)
        self._write_if_any(codec, data, count)

    def _write_if_any(self, codec: p.Prefixed, data: str, count: str) -> None:
        with self.source.block(f"if {count} > {int(codec.compact)}:"):
            self.source(f"{self._write}({data})")

    def sequence(self, codec: p.Sequence, value: str) -> None:
        items, count = self._prefixed(codec, value, "{}")
        self.count(codec, count)
        with self.source.block(f"if {count} > {int(codec.compact)}:"):
            self._elements(codec.element, items)

    def _elements(self, element: Construct, items: str) -> None:
        source = self.source
        if isinstance(element, FormatField):
            source.constants.setdefault("pack", struct.pack)
            source(f'{self._write}(pack(f">{{len({items})}}{element.fmtstr[1:]}", *{items}))')
            return
        item = source.name("e")
        with source.block(f"for {item} in {items}:"):
            self.value(element, item)
            self.flush()

    def nullable(self, codec: p.Nullable, value: str) -> None:
        held = self.source.name()
        self.source(f"{held} = {value}")
        self.flush()
        with self.source.block(f"if {held} is None:"):
            self.source(f"{self._write}({bytes((codec.null & 0xFF,))!r})")
        with self.source.block("else:"):
            self.run("b", "1")
            self.structure(codec.element, held)
            self.flush()

    def structure(self, codec: p.Structure, value: str) -> None:
        if not value.isidentifier():
            held = self.source.name("m")
            self.source(f"{held} = {value}")
            value = held
        for member in codec.members:
            self.value(member.codec, f"{value}.{member.name}")
        if codec.flexible:
            self._tags(codec, value)

    def _tags(self, codec: p.Structure, value: str) -> None:
        """One zero byte where nothing is tagged, as in nearly every structure of nearly every message."""
        self.flush()
        plain = [f"{value}.unknown_tags is None"]
        plain += [self._is_default(f"{value}.{member.name}", member.default) for member in codec.tagged.values()]
        with self.source.block(f"if {' and '.join(plain)}:"):
            self.source(f'{self._write}(b"\\0")')
        with self.source.block("else:"):
            sent, outer = self.source.name("tags"), self._write
            self.source(f"{sent} = {{}}")
            for number, member in codec.tagged.items():
                self._tag(sent, number, member, value)
            self.source(f"write_tags({outer}, {sent}, {value}.unknown_tags)")

    def _tag(self, sent: str, number: int, member: p.Member, value: str) -> None:
        outer, pieces = self._write, self.source.name("pieces")
        with self.source.block(f"if not ({self._is_default(f'{value}.{member.name}', member.default)}):"):
            self.source(f"{pieces} = []")
            self._write = f"{pieces}.append"
            self.value(member.codec, f"{value}.{member.name}")
            self.flush()
            self.source(f'{sent}[{number}] = b"".join({pieces})')
            self._write = outer

    def _is_default(self, value: str, default: Any) -> str:
        text = literal(default)
        if text == "None":
            return f"{value} is None"
        if text is not None:
            return f"{value} == {text}"
        fields = type(default).SCHEMA.fields
        parts = [self._is_default(f"{value}.{field.name}", getattr(default, field.name)) for field in fields]
        return "(" + " and ".join([f"{value} is not None", *parts, f"{value}.unknown_tags is None"]) + ")"


def lower_encoder(tree: p.Structure, name: str) -> Callable[..., Any]:
    encoder = _Encoder()
    encoder.structure(tree, "message")
    encoder.flush()
    if len(encoder.source.lines) == 1:
        encoder.source("pass")
    return encoder.source.compile(f"<encode {name}>")
