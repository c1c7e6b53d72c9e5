"""Compiles construct codecs into straight-line decoders.

`lower_decoder` makes `decode(buf, pos) -> (message, position after it)`; `lower_stepwise_decoder` makes a generator of
the same source.

A run of fixed-size fields, with the count or length that follows it, becomes one `unpack_from` directly into the
message's attributes. Positions are local variables; nested structures and arrays are inlined. Rare cases (varints
of several bytes, tagged fields) are calls.

Invalid bytes raise Fault, struct.error or IndexError, and `codec.py` gets the reason from the interpreted codec.
Strings and arrays are not checked against the end of the buffer one by one. `pos` only grows, so a string that is
too long moves `pos` beyond the end; then the next read fails, or the final check does. A slice that was cut short
meanwhile is discarded.

The same source produces a second function, a generator that yields after each element of an array. A request with a
million elements is decoded a slice at a time. It never copies the whole buffer, which takes long for large ones.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from construct import Construct, FormatField

from . import primitives as p
from .schema import is_shared
from .source import Source, literal
from .varint import Fault, check_text, long_count, varint

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

    def array(self, value: str, target: str) -> None:
        """Begins an array; in steps, the caller gets it, too."""
        self.source(f"{target} = {value} = []")
        if self.in_steps:
            self.source(f'arrays["{self.name}{value}"] = {value}')

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
