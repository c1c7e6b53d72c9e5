"""Parts of a page. Pages return these, and one template draws each kind; none contains HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias, Union

Cell: TypeAlias = "Union[str, float, Link, Badge, Drawing, Button, Moment, Form, Snippet, Sequence[Cell], None]"
"""Text, a number, None, one of these parts, a Form of one line, or a list of these."""


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


@dataclass(frozen=True, slots=True)
class Moment:
    """A time: in UTC or, where a script runs, in the zone that the viewer chose; or always in one of the two."""

    timestamp_ms: int
    is_local: bool = False
    is_utc: bool = False


@dataclass(frozen=True, slots=True)
class Snippet:
    """The beginning of a key or a value on one line. `pieces`: texts with their classes, as of JSON."""

    text: str
    pieces: Sequence[tuple[str, str]] = ()


@dataclass(slots=True)
class Table:
    """`rows` are sorted and filtered when the page is drawn, save where `is_paged`: then the page did both, and `sortable`
    names the columns by which it sorts. `of`: the number of all rows, where `rows` are fewer. `opens`: for each row the
    address of what it shows in place. `grows`: rows may come later. `style`: a class of the style sheet. `next`: what to do
    where there are no rows.
    """

    kind: ClassVar[str] = "table"
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    empty: str = "None."
    of: int | None = None
    opens: Sequence[str] = ()
    is_paged: bool = False
    sortable: Sequence[str] | None = None
    id: str = ""
    grows: bool = False
    style: str = ""
    next: Sequence[Cell] = ()


@dataclass(slots=True)
class Chips:
    """The filters of a search that are set, each with the address of the search without it."""

    kind: ClassVar[str] = "chips"
    chips: Sequence[Link]
    #: The search without any.
    all: str = ""


@dataclass(slots=True)
class Copies:
    """Buttons that copy texts, and links beside them."""

    kind: ClassVar[str] = "copies"
    texts: Sequence[tuple[str, str]]
    links: Sequence[Link] = ()


@dataclass(slots=True)
class Facts:
    kind: ClassVar[str] = "facts"
    title: str
    pairs: Sequence[tuple[str, Cell]]


@dataclass(slots=True)
class Chart:
    """`times` in seconds since 1970 and `values` are the points; `drawing` is what browsers without scripts show. `series`:
    the name of the history with older points, "" without one.
    """

    kind: ClassVar[str] = "chart"
    title: str
    value: str
    drawing: Drawing
    unit: str = ""
    times: Sequence[float] = ()
    values: Sequence[float] = ()
    series: str = ""


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
    folded: bool = False


@dataclass(slots=True)
class Bar:
    """Links and buttons on one line. `pauses`: with a button that stops and resumes the live parts."""

    kind: ClassVar[str] = "bar"
    cells: Sequence[Cell]
    pauses: bool = False


@dataclass(slots=True)
class Diff:
    """Lines of two texts: each with its class, `added`, `removed` or ""."""

    kind: ClassVar[str] = "diff"
    title: str
    lines: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Node:
    """A value of a JSON document: a text, or with children an object or a list. `type`: string, number, and so on."""

    name: str
    text: str
    type: str
    children: Sequence[Node] = ()


@dataclass(slots=True)
class Tree:
    """A JSON document that unfolds level by level, and the whole text for copying."""

    kind: ClassVar[str] = "tree"
    title: str
    root: Node
    text: str


@dataclass(slots=True)
class Progress:
    """A search in slices. `next`: the address of the next slice, which the browser requests until its viewer stops it;
    `href`: that of a page that continues, for browsers without scripts. `positions`: where each partition continues.
    """

    kind: ClassVar[str] = "progress"
    done: int
    total: int
    words: str
    next: str = ""
    href: str = ""
    positions: Sequence[tuple[int, int]] = ()


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
    """`kind`: text, number, password, area, select, check, checks, time or hidden. `checks` has a box for each option, and
    `value` has the chosen ones between line breaks. `labels`: what a select shows for an option.
    """

    name: str
    label: str
    value: str = ""
    kind: str = "text"
    options: Sequence[str] = ()
    required: bool = False
    hint: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Effect:
    """A change of a form: `before`, and `after`, in which a browser puts the value of each field named as {field}."""

    what: str
    before: str
    after: str


@dataclass(slots=True)
class Form:
    """With `method` post the form changes something: it is left out for viewers, and carries a CSRF token. `more`: fields
    that are folded away, under the title `more_title`. `is_line`: the other fields and the button stand on one line.

    A `folded` form is a dialog, which a button at the head of the page opens. `words`, `effects` and `command` say what will
    happen: `command` does the same on the command line, with fields as in effects. Browsers leave out the words of the
    command whose field is empty. `name`: the dialog's button, where it is not the title.
    """

    kind: ClassVar[str] = "form"
    title: str
    action: str
    fields: Sequence[Field]
    button: str
    method: str = "post"
    danger: bool = False
    confirm: str = ""
    folded: bool = True
    more: Sequence[Field] = ()
    more_title: str = "More"
    is_line: bool = False
    words: str = ""
    effects: Sequence[Effect] = ()
    command: str = ""
    name: str = ""
    id: str = ""


@dataclass(slots=True)
class Pages:
    """Links to the pages before and after one page of a long list."""

    kind: ClassVar[str] = "pages"
    text: str
    before: str = ""
    after: str = ""
    before_words: str = "Previous"
    after_words: str = "Next"


@dataclass(frozen=True, slots=True)
class Tab:
    text: str
    href: str
    is_current: bool = False
    count: str = ""


Part = (
    Table
    | Facts
    | Chart
    | Charts
    | Code
    | Text
    | Picture
    | Form
    | Pages
    | Bar
    | Tree
    | Progress
    | Chips
    | Copies
    | Diff
)


@dataclass(slots=True)
class Page:
    """`live` is the address of the same page's parts: the browser replaces them every `live_s` seconds. `fragment`: the
    template for a request of a part. `crumbs`: the pages above. `figures`: the strip below the title. Folded forms of the
    page are dialogs: their buttons stand at the right of the title, the first of them as the page's main one.
    """

    title: str
    parts: Sequence[Part]
    section: str = ""
    live: str = ""
    live_s: float = 2
    below: Sequence[Part] = ()
    above: Sequence[Part] = ()
    #: New parts stand before the older rows, as in a live tail.
    prepends: bool = False
    #: The words of a live tail that does not keep up.
    behind: str = ""
    fragment: str = "live.html"
    status: int = 200
    crumbs: Sequence[Link] = ()
    figures: Sequence[tuple[str, Cell]] = ()
    tabs: Sequence[Tab] = ()
    #: Links beside the buttons of the dialogs.
    links: Sequence[Link] = ()
    #: The kind of thing that the title names, as Topic.
    noun: str = ""
