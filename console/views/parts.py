"""Parts of a page. Pages return these, and one template draws each kind; none contains HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class Link:
    text: str
    href: str


@dataclass(frozen=True, slots=True)
class Badge:
    """A word with a tone: good, warn, bad or plain."""

    text: str
    tone: str = "plain"


@dataclass(frozen=True, slots=True)
class Drawing:
    """An SVG of ours inside a cell or a chart. `text` is its description for viewers who do not see it."""

    svg: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Button:
    """A form of one button in a row: fields are hidden. `confirm` is the question before it."""

    text: str
    action: str
    fields: dict[str, str] = field(default_factory=dict)
    confirm: str = ""
    danger: bool = True


Cell = Any
"""Text, a number, None, a part of the above, or a list of these."""


@dataclass(slots=True)
class Table:
    kind: ClassVar[str] = "table"
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    empty: str = "None."
    note: str = ""


@dataclass(slots=True)
class Facts:
    kind: ClassVar[str] = "facts"
    title: str
    pairs: Sequence[tuple[str, Cell]]


@dataclass(slots=True)
class Chart:
    kind: ClassVar[str] = "chart"
    title: str
    value: str
    drawing: Drawing


@dataclass(slots=True)
class Charts:
    kind: ClassVar[str] = "charts"
    charts: Sequence[Chart]


@dataclass(slots=True)
class Code:
    """A text to copy, as a record's JSON or a line for the shell."""

    kind: ClassVar[str] = "code"
    title: str
    text: str


@dataclass(slots=True)
class Text:
    kind: ClassVar[str] = "text"
    text: str
    tone: str = "plain"


@dataclass(slots=True)
class Picture:
    """A drawing as wide as the page."""

    kind: ClassVar[str] = "picture"
    title: str
    drawing: Drawing


@dataclass(frozen=True, slots=True)
class Field:
    """`kind`: text, number, password, area, select, check or hidden."""

    name: str
    label: str
    value: str = ""
    kind: str = "text"
    options: Sequence[str] = ()
    required: bool = False
    hint: str = ""


@dataclass(slots=True)
class Form:
    """With `method` post the form changes something: it is left out for viewers, and carries a CSRF token."""

    kind: ClassVar[str] = "form"
    title: str
    action: str
    fields: Sequence[Field]
    button: str
    method: str = "post"
    danger: bool = False
    confirm: str = ""
    folded: bool = True


@dataclass(slots=True)
class Pages:
    """Links to the pages before and after one page of a long list."""

    kind: ClassVar[str] = "pages"
    text: str
    before: str = ""
    after: str = ""


Part = Table | Facts | Chart | Charts | Code | Text | Picture | Form | Pages


@dataclass(slots=True)
class Page:
    """`live` is the address of the same page's parts: the browser replaces them every `live_s` seconds."""

    title: str
    parts: Sequence[Part]
    section: str = ""
    live: str = ""
    live_s: float = 2
    below: Sequence[Part] = ()
    above: Sequence[Part] = ()
    #: New parts stand before the older rows, as in a live tail.
    prepends: bool = False
