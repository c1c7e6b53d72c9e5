"""Compiles construct codecs into straight-line encoders.

`lower_encoder` makes `encode(message, write)`, which calls `write` with the pieces of the message in order;
`lower_stepwise_encoder` and `lower_joined_encoder` make variants of it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from construct import Construct, FormatField

from . import primitives as p
from .encoded_runs import Encoded
from .lower_decode import NUMBERS_PER_STEP, READY_NUMBERS
from .schema import is_shared
from .source import Source, literal
from .varint import encode_count, write_tags

#: Counts that fit into one byte, encoded.
_BYTES = [bytes((value,)) for value in range(128)]
_ENCODING_SCOPE = {
    "BYTES": _BYTES,
    "Encoded": Encoded,
    "encode_count": encode_count,
    "encode_error_text": p.encode_error_text,
    "struct_pack": struct.pack,
    "write_tags": write_tags,
}

#: A message of at most this many pieces is concatenated step by step, which is faster than joining a list.
_FEW_PIECES = 6


class _Encoder:
    def __init__(self, signature: str, *, adds_up: bool = False, in_steps: bool = False) -> None:
        self.source = Source(signature)
        self.source.constants.update(_ENCODING_SCOPE)
        self.adds_up = adds_up
        self.in_steps = in_steps
        if in_steps:
            self.source("if False: yield")  # makes it a generator even if there is no array
        self.pieces = 0
        self._layout = ""
        self._values: list[str] = []

    def write(self, piece: str) -> None:
        self.pieces += 1
        self.source(f"made += {piece}" if self.adds_up else f"write({piece})")

    # A run: fixed-size fields not written yet.

    def run(self, code: str, value: str) -> None:
        self._layout += code
        self._values.append(value)

    def flush(self) -> None:
        layout, values = self._taken()
        if layout:
            self.write(self._packed(layout, values))

    def _taken(self) -> tuple[str, list[str]]:
        taken = self._layout, self._values
        self._layout, self._values = "", []
        return taken

    def _packed(self, layout: str, values: list[str]) -> str:
        return f"{self.source.pack(layout)}({', '.join(values)})"

    # One method for each type of codec. It writes the value of the expression `value`.

    def value(self, codec: Construct, value: str) -> None:
        if isinstance(codec, FormatField):
            self.run(codec.fmtstr[1:], value)
        elif isinstance(codec, p.Structure):
            self.structure(codec, self._held(value, "m"))
        elif isinstance(codec, p.Text | p.Blob | p.Sequence):
            self.prefixed(codec, value)
        elif isinstance(codec, p.Nullable):
            self.nullable(codec, value)
        else:
            assert codec is p.Uuid, codec
            self.run("16s", value)

    def _held(self, value: str, hint: str) -> str:
        """Returns the name of a variable with the value."""
        if value.isidentifier():
            return value
        held = self.source.name(hint)
        self.source(f"{held} = {value}")
        return held

    def prefixed(self, codec: p.Prefixed, value: str) -> None:
        """Writes a count and its content. In both branches, null and not null, the preceding run is packed with the
        count.
        """
        held = self._held(value, "v")
        if not codec.nullable:
            self._content(codec, held)
            return
        layout, values = self._taken()
        with self.source.block(f"if {held} is None:"):
            code = "B" if codec.compact else codec.classic.fmtstr[1:]
            self.write(self._packed(layout + code, [*values, "0" if codec.compact else "-1"]))
        with self.source.block("else:"):
            self._layout, self._values = layout, values
            self._content(codec, held)

    def _content(self, codec: p.Prefixed, held: str) -> None:
        if isinstance(codec, p.Text):
            encoded = self.source.name("b")
            is_error_text = isinstance(codec, p.ErrorText)
            self.source(f"{encoded} = " + (f"encode_error_text({held})" if is_error_text else f"{held}.encode()"))
            self._count(codec, encoded, p.MAX_STRING_BYTES)
            self.write(encoded)
        elif isinstance(codec, p.Blob):
            self._count(codec, held, None)
            self.write(held)
        else:
            assert isinstance(codec, p.Sequence), codec
            self._elements(codec.element, held, self._count(codec, held, None))

    def _count(self, codec: p.Prefixed, counted: str, limit: int | None) -> str:
        """Writes the run and the count of `counted` with one `pack` if the count fits one byte, which is the usual case."""
        source, count = self.source, self.source.name("n")
        if not codec.compact:
            source(f"{count} = len({counted})")
            self.run(codec.classic.fmtstr[1:], count)
            self.flush()
            return count
        layout, values = self._taken()
        source(f"{count} = len({counted}) + 1")
        with source.block(f"if {count} < 128:"):
            self.write(self._packed(layout + "B", [*values, count]) if layout else f"BYTES[{count}]")
        with source.block("else:"):
            if layout:
                self.write(self._packed(layout, values))
            self.write(f"encode_count({count}, {limit and limit + 1})")
        return count

    def _elements(self, element: Construct, held: str, count: str) -> None:
        source = self.source
        if isinstance(element, FormatField):
            code = element.fmtstr[1:]
            # A compact count is the number of elements plus one.
            ready = f"ready_{code}"
            source.constants[ready] = [struct.Struct(f">{n}{code}").pack for n in range(READY_NUMBERS + 1)]
            with source.block(f"if {count} <= {READY_NUMBERS}:"):
                self.write(f"{ready}[len({held})](*{held})")
            with source.block("else:"):
                if self.in_steps:
                    self._numbers_in_steps(code, held)
                else:
                    self.write(f'struct_pack(f">{{len({held})}}{code}", *{held})')
            return
        self.pieces += _FEW_PIECES
        item = source.name("e")
        with source.block(f"for {item} in {held}:"):
            if self.in_steps and isinstance(element, p.Structure):
                with source.block(f"if isinstance({item}, Encoded):"):
                    self.write(f"{item}.content")
                    source("yield")
                    source("continue")
            self.value(element, item)
            self.flush()
            if self.in_steps:
                source("yield")

    def _numbers_in_steps(self, code: str, held: str) -> None:
        source, at, some = self.source, self.source.name("at"), self.source.name("v")
        with source.block(f"for {at} in range(0, len({held}), {NUMBERS_PER_STEP}):"):
            source(f"{some} = {held}[{at}:{at} + {NUMBERS_PER_STEP}]")
            self.write(f'struct_pack(f">{{len({some})}}{code}", *{some})')
            source("yield")

    def nullable(self, codec: p.Nullable, value: str) -> None:
        held = self._held(value, "m")
        layout, values = self._taken()
        with self.source.block(f"if {held} is None:"):
            self.write(self._packed(layout + "b", [*values, str(codec.null)]))
        with self.source.block("else:"):
            self._layout, self._values = layout, values
            self.run("b", "1")
            self.structure(codec.element, held)
            self.flush()

    def structure(self, codec: p.Structure, held: str) -> None:
        for member in codec.members:
            self.value(member.codec, f"{held}.{member.name}")
        if codec.flexible:
            self._tagged_section(codec, held)

    def _tagged_section(self, codec: p.Structure, held: str) -> None:
        """Writes the tagged section. It is one zero byte without tagged fields, the case of nearly every structure."""
        layout, values = self._taken()
        plain = [f"{held}.unknown_tags is None"]
        plain += [self._is_default(f"{held}.{member.name}", member.default) for member in codec.tagged.values()]
        with self.source.block(f"if {' and '.join(plain)}:"):
            self.write(self._packed(layout + "x", values) if layout else 'b"\\0"')
        with self.source.block("else:"):
            if layout:
                self.write(self._packed(layout, values))
            if self.adds_up:
                self.source("pieces = []")
            self.source(f"{self._tags(codec)}({held}, {'pieces.append' if self.adds_up else 'write'})")
            if self.adds_up:
                self.source('made += b"".join(pieces)')

    def _tags(self, codec: p.Structure) -> str:
        """Compiles the function that writes the tagged fields of a structure. Returns its name."""
        tags = _Encoder("tags(made, write_outer)")
        tags.source("sent = {}")
        for number, member in codec.tagged.items():
            value = f"made.{member.name}"
            with tags.source.block(f"if not ({tags._is_default(value, member.default)}):"):
                tags.source("pieces = []")
                tags.source("write = pieces.append")
                tags.value(member.codec, value)
                tags.flush()
                tags.source(f'sent[{number}] = b"".join(pieces)')
        tags.source("write_tags(write_outer, sent, made.unknown_tags)")
        return self.source.constant(tags.source.compile(f"<encode tags of {codec.cls.__name__}>"), "tags")

    def _is_default(self, value: str, default: Any) -> str:
        """Returns the test for a default value; for a structure it compares each field, unless it is the shared default."""
        text = literal(default)
        if text == "None":
            return f"{value} is None"
        if text is not None:
            return f"{value} == {text}"
        fields = type(default).SCHEMA.fields
        parts = [f"{value} is not None"]
        parts += [self._is_default(f"{value}.{field.name}", getattr(default, field.name)) for field in fields]
        same = " and ".join([*parts, f"{value}.unknown_tags is None"])
        if not is_shared(default):
            return f"({same})"
        return f"({value} is {self.source.constant(default, 'default')} or {same})"


def lower_encoder(tree: p.Structure, name: str) -> Callable[..., Any]:
    """Returns `encode(message, write)`."""
    encoder = _Encoder("encode(message, write)")
    encoder.structure(tree, "message")
    encoder.flush()
    if len(encoder.source.lines) == 1:
        encoder.source("pass")
    return encoder.source.compile(f"<encode {name}>")


def lower_stepwise_encoder(tree: p.Structure, name: str) -> Callable[..., Any]:
    """Returns `encode(message, write)`, a generator that yields after each array element; tagged fields are one step."""
    encoder = _Encoder("encode(message, write)", in_steps=True)
    encoder.structure(tree, "message")
    encoder.flush()
    return encoder.source.compile(f"<encode {name} in steps>")


def lower_joined_encoder(tree: p.Structure, name: str) -> Callable[..., Any]:
    """Returns `encode(message) -> bytes`."""
    adding = _Encoder("encode(message)", adds_up=True)
    adding.source('made = b""')
    adding.structure(tree, "message")
    adding.flush()
    adding.source("return made")
    if adding.pieces <= _FEW_PIECES:
        return adding.source.compile(f"<encode {name} joined>")
    joining = _Encoder("encode(message)")
    joining.source("pieces = []")
    joining.source("write = pieces.append")
    joining.structure(tree, "message")
    joining.flush()
    joining.source('return b"".join(pieces)')
    return joining.source.compile(f"<encode {name} joined>")
