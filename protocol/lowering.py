"""Compiles construct codecs into straight-line decoders and encoders.

- `lower_decoder`: makes `decode(buf, pos) -> (message, position after it)`; `lower_stepwise_decoder` makes a
  generator of the same source.
- `lower_encoder`: makes `encode(message, write)`, which calls `write` with the pieces of the message in order;
  `lower_stepwise_encoder` and `lower_joined_encoder` make variants of it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from construct import Construct, FormatField

from . import primitives as p
from .schema import is_shared
from .source import Source, literal
from .varint import Fault, check_text, encode_count, long_count, varint, write_tags

# ---- decoders
#
# A run of fixed-size fields, with the count or length that follows it, becomes one `unpack_from` directly into the
# message's attributes. Positions are local variables; nested structures and arrays are inlined. Rare cases (varints
# of several bytes, tagged fields) are calls.
#
# Invalid bytes raise Fault, struct.error or IndexError, and `codec.py` gets the reason from the interpreted codec.
# Strings and arrays are not checked against the end of the buffer one by one. `pos` only grows, so a string that is
# too long moves `pos` beyond the end; then the next read fails, or the final check does. A slice that was cut short
# meanwhile is discarded.
#
# The same source produces a second function, a generator that yields after each element of an array. A request with a
# million elements is decoded a slice at a time. It never copies the whole buffer, which takes long for large ones.

#: Layouts of number arrays up to this length are precomputed.
READY_NUMBERS = 16
#: The numbers that the generator unpacks in one step, in some 50 us.
NUMBERS_PER_STEP = 2048
#: Longer bytes are not copied in one step, which takes 0.6 ms for a MiB. They are views of the buffer.
COPIED_BYTES_PER_STEP = 1 << 20

_DECODING_SCOPE = {
    "Fault": Fault,
    "check_text": check_text,
    "long_count": long_count,
    "new": object.__new__,
    "unpack_from": struct.unpack_from,
}


class _Decoder:
    def __init__(self, signature: str, has_views: bool, *, in_steps: bool = False, name: str = "") -> None:
        #: Before the names of arrays: those of the fields with tags are read by other functions.
        self.name = name
        self.source = Source(signature)
        self.source.constants.update(_DECODING_SCOPE, varint=varint)
        self.has_views = has_views
        self.in_steps = in_steps
        if in_steps:
            self.source("if False: yield")  # makes it a generator even if there is no array
        self._layout = ""
        self._targets: list[str] = []

    # A run: fixed-size fields not read yet.

    def run(self, code: str, target: str) -> None:
        self._layout += code
        self._targets.append(target)

    def flush(self, keep: int = 0) -> None:
        """Reads the run and advances `pos` past it, except for its last `keep` bytes."""
        if not self._layout:
            return
        if self._layout == "B":
            self.source(f"{self._targets[0]} = buf[pos]")
        else:
            comma = "," if len(self._targets) == 1 else ""
            self.source(f"{', '.join(self._targets)}{comma} = {self.source.unpack(self._layout)}(buf, pos)")
        size = struct.calcsize(">" + self._layout) - keep
        if size:
            self.source(f"pos += {size}")
        self._layout = ""
        self._targets = []

    # One method for each type of codec. It stores the value in `target`, a variable or an attribute.

    def value(self, codec: Construct, target: str) -> None:
        if isinstance(codec, FormatField):
            self.run(codec.fmtstr[1:], target)
        elif isinstance(codec, p.Structure):
            self.source(f"{target} = {self.structure(codec)}")
        elif isinstance(codec, p.Text):
            self.counted(codec, target, p.MAX_STRING_BYTES, self._text(), is_text=True)
        elif isinstance(codec, p.Blob):
            self.counted(codec, target, None, self._blob(codec))
        elif isinstance(codec, p.Sequence):
            self.sequence(codec, target)
        elif isinstance(codec, p.Nullable):
            self.nullable(codec, target)
        else:
            assert codec is p.Uuid, codec
            self.run("16s", target)

    def _blob(self, codec: p.Blob) -> str:
        if codec.view:
            return "view[{0}]"
        if self.in_steps:
            return f"bytes(view[{{0}}]) if stop - pos <= {COPIED_BYTES_PER_STEP} else view[{{0}}]"
        return "bytes(buf[{0}])"

    def _text(self) -> str:
        return 'str(buf[{}], "utf-8", "replace")' if self.has_views else 'buf[{}].decode("utf-8", "replace")'

    def _check_long_text(self, count: str, start: str, stop: str) -> None:
        with self.source.block(f"if {count} > {p.MAX_UNCHECKED_TEXT_BYTES}:"):
            self.source(f"check_text(buf[{start}:{stop}], {p.MAX_STRING_BYTES})")

    def count(self, codec: p.Prefixed, limit: int | None, *, is_text: bool = False) -> str:
        """Reads the count and returns its variable. A compact count is the count plus one, and leaves `pos` at its
        last byte.
        """
        count = self.source.name("n")
        if not codec.compact:
            self.run(codec.classic.fmtstr[1:], count)
            self.flush()
            return count
        self.run("B", count)
        self.flush(keep=1)
        with self.source.block(f"if {count} > 127:"):
            self.source(f"{count}, pos = long_count(buf, pos, {count}, {limit and limit + 1})")
            if is_text:  # only here: a short string need not be checked
                self._check_long_text(count, "pos + 1", f"pos + {count}")
        return count

    def _unless_null(self, codec: p.Prefixed, count: str, target: str) -> AbstractContextManager[None]:
        """Handles null. The code in the block runs for a count that is not null."""
        source = self.source
        with source.block(f"if not {count}:" if codec.compact else f"if {count} < 0:"):
            if not codec.nullable:
                source("raise Fault")
                return nullcontext()
            if codec.compact:
                source("pos += 1")
            else:
                source(f"if {count} != -1: raise Fault")
            source(f"{target} = None")
        return source.block("else:")

    def counted(self, codec: p.Prefixed, target: str, limit: int | None, taken: str, *, is_text: bool = False) -> None:
        """Reads a string or bytes. A compact count, one too high, also covers its own last byte."""
        count = self.count(codec, limit, is_text=is_text)
        start = "pos + 1" if codec.compact else "pos"
        with self._unless_null(codec, count, target):
            if is_text and not codec.compact:
                self._check_long_text(count, "pos", f"pos + {count}")
            self.source(f"stop = pos + {count}")
            self.source(f"{target} = {taken.format(f'{start}:stop')}")
            self.source("pos = stop")

    def sequence(self, codec: p.Sequence, target: str) -> None:
        count, source = self.count(codec, p.MAX_ARRAY_ELEMENTS), self.source
        with self._unless_null(codec, count, target):
            if codec.compact:
                source("pos += 1")
            else:
                source(f"if {count} > {p.MAX_ARRAY_ELEMENTS}: raise Fault")
            if isinstance(codec.element, FormatField):
                self._numbers(codec, count, target)
            else:
                self._elements(codec, count, target)

    def _elements(self, codec: p.Sequence, count: str, target: str) -> None:
        source, made = self.source, self.source.name()
        self.array(made, target)
        with source.block(f"for _ in range({'1, ' if codec.compact else ''}{count}):"):
            if isinstance(codec.element, p.Structure):
                source(f"{made}.append({self.structure(codec.element)})")
            else:
                item = source.name("e")
                self.value(codec.element, item)
                self.flush()
                source(f"{made}.append({item})")
            if self.in_steps:
                source("yield")

    def array(self, made: str, target: str) -> None:
        """Begins an array; in steps, the caller gets it, too."""
        self.source(f"{target} = {made} = []")
        if self.in_steps:
            self.source(f'arrays["{self.name}{made}"] = {made}')

    def _numbers(self, codec: p.Sequence, count: str, target: str) -> None:
        source, code = self.source, codec.element.fmtstr[1:]
        if codec.compact:
            source(f"{count} -= 1")
        ready = f"ready_{code}"
        source.constants[ready] = [struct.Struct(f">{n}{code}").unpack_from for n in range(READY_NUMBERS + 1)]
        with source.block(f"if {count} <= {READY_NUMBERS}:"):
            source(f"{target} = [*{ready}[{count}](buf, pos)]")
            source(f"pos += {count} * {codec.element_size}")
        with source.block("else:"):
            if self.in_steps:
                self._numbers_in_steps(code, count, target, codec.element_size)
                return
            source(f'{target} = [*unpack_from(f">{{{count}}}{code}", buf, pos)]')
            source(f"pos += {count} * {codec.element_size}")

    def _numbers_in_steps(self, code: str, count: str, target: str, element_size: int) -> None:
        source, made, some = self.source, self.source.name(), self.source.name("n")
        self.array(made, target)
        with source.block(f"while {count}:"):
            source(f"{some} = min({count}, {NUMBERS_PER_STEP})")
            source(f'{made} += unpack_from(f">{{{some}}}{code}", buf, pos)')
            source(f"pos += {some} * {element_size}")
            source(f"{count} -= {some}")
            source(f"yield {some}")

    def nullable(self, codec: p.Nullable, target: str) -> None:
        marker = self.source.name("n")
        if codec.tagged:
            self.source(f"{marker}, pos = varint(buf, pos)")
        else:
            self.run("b", marker)
            self.flush()
        with self.source.block(f"if {marker} > {codec.null}:"):
            self.value(codec.element, target)
        with self.source.block("else:"):
            self.source(f"{target} = None")

    def structure(self, codec: p.Structure) -> str:
        """Returns the variable of the decoded structure. Slots are set without `__init__`, which would cost as much as
        the rest.
        """
        source, made = self.source, self.source.name("m")
        source(f"{made} = new({source.constant(codec.cls, codec.cls.__name__)})")
        source(f"{made}.unknown_tags = None")
        for member in [*codec.tagged.values(), *codec.absent]:
            source(f"{made}.{member.name} = {self.default(member)}")
        for member in codec.members:
            self.value(member.codec, f"{made}.{member.name}")
        if not codec.flexible:
            self.flush()
            return made
        tags = source.name("t")
        self.run("B", tags)
        self.flush()
        with source.block(f"if {tags}:"):
            view = ", view" if self.has_views else ""
            wait, arrays = ("yield from ", ", arrays") if self.in_steps else ("", "")
            source(f"pos = {wait}{self.tags(codec)}({made}, buf, pos{view}, {tags}{arrays})")
        return made

    def default(self, member: p.Member) -> str:
        text = literal(member.default)
        if text is not None:
            return text
        if is_shared(member.default):
            return self.source.constant(member.default, "default")
        return f"{self.source.constant(type(member.default), type(member.default).__name__)}()"

    def tags(self, codec: p.Structure) -> str:
        """Compiles the function that reads the tagged fields of a structure. Returns its name."""
        steps = ", arrays" if self.in_steps else ""
        signature = f"tags(made, buf, pos{', view' if self.has_views else ''}, count{steps})"
        tags = _Decoder(signature, self.has_views, in_steps=self.in_steps, name=f"{codec.cls.__name__}.")
        tags.tagged_section(codec)
        return self.source.constant(tags.source.compile(f"<decode tags of {codec.cls.__name__}>"), "tags")

    def tagged_section(self, codec: p.Structure) -> None:
        source = self.source
        with source.block("if count > 127:"):
            source(f"count, pos = long_count(buf, pos - 1, count, {p.MAX_TAGGED_FIELDS})")
            source("pos += 1")
        with source.block("for _ in range(count):"):
            source("tag, pos = varint(buf, pos)")
            source("size, pos = varint(buf, pos)")
            source("end = pos + size")
            source("if end > len(buf): raise Fault")
            if self.in_steps:
                source("yield")
            for number, member in codec.tagged.items():
                with source.block(f"if tag == {number}:"):
                    self.value(member.codec, f"made.{member.name}")
                    self.flush()
                    source("if pos != end: raise Fault")
                    source("continue")
            source("if made.unknown_tags is None: made.unknown_tags = {}")
            if self.in_steps:
                source(f"kept = bytes(view[pos:end]) if size <= {COPIED_BYTES_PER_STEP} else view[pos:end]")
            else:
                source("kept = bytes(buf[pos:end])")
            source("made.unknown_tags[tag] = kept")
            source("pos = end")
        source("return pos")


def _has_views(codec: Construct) -> bool:
    if isinstance(codec, p.Structure):
        return any(_has_views(member.codec) for member in [*codec.members, *codec.tagged.values()])
    if isinstance(codec, p.Sequence | p.Nullable):
        return _has_views(codec.element)
    return isinstance(codec, p.Blob) and codec.view


def lower_decoder(tree: p.Structure, name: str) -> Callable[..., Any]:
    has_views = _has_views(tree)
    decoder = _Decoder("decode(buf, pos)", has_views)
    if has_views:
        decoder.source("view = memoryview(buf)")
    else:
        # Slices of a view have no decode(). To decode many messages from one large view, pass slices of it.
        decoder.source("if type(buf) is memoryview: buf = bytes(buf)")
    made = decoder.structure(tree)
    if not tree.flexible:
        decoder.source("if pos > len(buf): raise Fault")
    decoder.source(f"return {made}, pos")
    return decoder.source.compile(f"<decode {name}>")


def lower_stepwise_decoder(tree: p.Structure, name: str) -> Callable[..., Any]:
    """Compiles the generator: it yields after each element of an array and returns (message, position after it).

    It yields None for an element. For numbers, of which it reads many in one step, it yields their count. Bytes longer
    than COPIED_BYTES_PER_STEP are views of `buf`. `arrays` gets the latest array of each field as it is begun.
    """
    decoder = _Decoder("decode(buf, pos, arrays)", True, in_steps=True)
    decoder.source("view = memoryview(buf)")
    made = decoder.structure(tree)
    if not tree.flexible:
        decoder.source("if pos > len(buf): raise Fault")
    decoder.source(f"return {made}, pos")
    return decoder.source.compile(f"<decode {name} in steps>")


# ---- encoders
#
# All pieces that `write` gets are `bytes`, except that fields of type `bytes` or `records` are passed on uncopied. A
# run of fixed-size fields, with the count or length that follows it, becomes one `pack`. Rare cases (strings over 126
# bytes, tagged fields) are calls.


class Encoded:
    """An element of an array that is encoded already, for an encoder in steps. `content` is for the message's version."""

    __slots__ = ("content",)

    def __init__(self, content: bytes) -> None:
        self.content = content


class EncodedRuns:
    """The elements of an array, for an encoder in steps. Those that are encoded already may be joined to runs of several."""

    __slots__ = ("_count", "_parts")

    def __init__(self) -> None:
        self._count = 0
        #: Elements, and runs of them.
        self._parts: list[object] = []

    def add(self, content: bytes, count: int) -> None:
        """Adds `count` encoded elements, one after the other."""
        self._parts.append(Encoded(content))
        self._count += count

    def extend(self, elements: Sequence[object]) -> None:
        """Adds elements that are not encoded yet."""
        self._parts += elements
        self._count += len(elements)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[object]:
        return iter(self._parts)

    def __delitem__(self, some: slice) -> None:
        """Frees elements and runs, as of a list; the rest is only good for being freed."""
        del self._parts[some]
        self._count = len(self._parts)


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
