"""Pages as HTML: the templates, and what they get of the request."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from ..client.wording import counted
from ..version import __version__
from . import formats
from .access.drafts import Draft, Drafts
from .access.sessions import FLASH_COOKIE, SESSION_COOKIE, Session, Sessions
from .addresses import here
from .backend import Backend
from .parts import Badge, Button, Drawing, Effect, Form, Link, Moment, Page, Snippet, Table
from .table_order import Arranged, arranged

if TYPE_CHECKING:
    from .parts import Cell, Part


_HERE = Path(__file__).parent
#: Sections in the navigation by group: path, name, key after `g`.
SECTIONS = (
    ("", (("/", "Overview", "o"),)),
    (
        "Data",
        (
            ("/topics", "Topics", "t"),
            ("/groups", "Groups", "g"),
            ("/schemas", "Schemas", "s"),
            ("/share", "Dead letters", "d"),
            ("/connect", "Connect", "n"),
            ("/pipelines", "Pipelines", "p"),
        ),
    ),
    (
        "Cluster",
        (
            ("/brokers", "Brokers", "b"),
            ("/quorum", "Quorum", "q"),
            ("/transactions", "Transactions", "x"),
            ("/clients", "Clients", "c"),
        ),
    ),
    ("Security", (("/access", "Access", "a"),)),
)
#: Characters of a name in a table, and of one that a heading has; longer ones are cut in the middle.
_MOST_NAME, _MOST_TITLE = 64, 120
#: A word of so many characters may break, after these.
_LONG_WORD = 16
_NOT_IN_IDS = re.compile(r"[^a-z0-9]+")
_BREAKS = re.compile(r"([._/:,;=@&?-]+)(?=[^\s._/:,;=@&?-])")


class Renderer:
    """Draws pages of one cluster. `cluster`: its name in a console of several, "" in a console of one. `names`: of all."""

    def __init__(
        self, backend: Backend, sessions: Sessions, drafts: Drafts, cluster: str = "", names: Sequence[str] = ()
    ) -> None:
        self._names = names
        self._backend = backend
        self._sessions = sessions
        self._drafts = drafts
        self._cluster = cluster
        self._templates = _templates()

    def page(self, request: Request, page: Page, status: int = 200, *, has_sections: bool = True) -> Response:
        """The whole page, or its live parts alone for a request of htmx."""
        is_part = request.headers.get("hx-request") == "true"
        session = request.state.session
        fresh = session is None
        if session is None:
            session = self._sessions.begin("")
        flash = None if is_part else self._sessions.read_flash(request.cookies.get(FLASH_COOKIE))
        snapshot = self._backend.snapshot
        given = request.query_params.multi_items()
        draft = self._drafts.take(session.token, flash[2]) if flash is not None and flash[2] else None

        def typed_of(form: Form) -> dict[str, str] | None:
            return draft.fields if draft is not None and _is_of(draft, form) else None

        def arrange(table: Table) -> Arranged:
            return arranged(table, given, path)

        path = here(request)
        text = self._templates.get_template(page.fragment if is_part else "page.html").render(
            page=page,
            arrange=arrange,
            typed_of=typed_of,
            sections=self._sections() if has_sections else (),
            most_title=_MOST_TITLE,
            dialogs=[] if is_part else self._dialogs(request, page),
            clusters=self._cluster,
            base=request.scope.get("root_path", ""),
            live=self._live(page, path, request.scope["query_string"].decode("latin-1")),
            parts=self._visible(request, page.parts),
            above=self._visible(request, page.above),
            below=self._visible(request, page.below),
            csrf=session.token,
            may_change=self._may_change(request),
            user=request.state.user,
            has_login=self._backend.settings.has_logins,
            read_only=self._backend.settings.read_only,
            cluster=self._cluster or snapshot.cluster_id or self._backend.connection.bootstrap,
            error=self._backend.trouble if has_sections else "",
            health=self._health() if has_sections else ("", ""),
            others=[name for name in self._names if name != self._cluster],
            flash=flash,
            history_days=self._backend.settings.history_days,
        )
        response = HTMLResponse(text, status)
        if fresh:
            self.keep(response, session)
        if flash is not None:
            response.delete_cookie(FLASH_COOKIE)
        return response

    def _live(self, page: Page, path: str, query: str) -> str:
        """The address of the live parts: the page's own, with what the viewer sorts and filters by, or the page's choice."""
        if not page.live or page.prepends:
            return page.live
        return f"{path}?{query}" if query else path

    def _may_change(self, request: Request) -> bool:
        user = request.state.user
        if user is None or self._backend.settings.read_only:
            return False
        if user.may_change or not user.may_change_some:
            return bool(user.may_change)
        path = here(request)
        return path == "/topics" or (
            path.startswith("/topics/") and user.may_change_topic(request.path_params.get("topic", ""))
        )

    def _visible(self, request: Request, parts: Sequence[Part]) -> list[Part]:
        """The parts without dialogs, and without forms that this user may not send."""
        return [
            part for part in parts if not isinstance(part, Form) or (not part.folded and self._may_send(request, part))
        ]

    def _dialogs(self, request: Request, page: Page) -> list[Form]:
        parts = [*page.above, *page.parts, *page.below]
        return [one for one in parts if isinstance(one, Form) and one.folded and self._may_send(request, one)]

    def _may_send(self, request: Request, form: Form) -> bool:
        return form.method != "post" or self._may_change(request)

    def _sections(self) -> list[tuple[str, list[tuple[str, str, str]]]]:
        """The sections of the navigation, without those that this cluster has nothing for."""
        missing = {
            path
            for path, is_there in (
                ("/schemas", self._backend.schemas is not None),
                ("/connect", self._backend.connect is not None),
            )
            if not is_there
        }
        return [(name, [one for one in pages if one[0] not in missing]) for name, pages in SECTIONS]

    def _health(self) -> tuple[str, str]:
        """The tone of the cluster's dot, and its words."""
        found = self._backend.snapshot
        if self._backend.trouble:
            return "bad", "does not respond"
        if not found.is_filled:
            return "", "reading"
        away = sum(one.fenced or one.silent for one in found.brokers)
        if found.without_leader or away:
            without = found.without_leader
            return "bad", f"{without} without leader" if without else f"{counted(away, 'broker')} down"
        if found.under_replicated:
            return "warn", f"{found.under_replicated} under-replicated"
        return "good", f"{counted(len(found.brokers), 'broker')}, in sync"

    def keep(self, response: Response, session: Session) -> None:
        """Writes the session's cookie."""
        response.set_cookie(
            SESSION_COOKIE,
            self._sessions.written(session),
            httponly=True,
            samesite="strict",
            secure=self._backend.settings.is_tls,
        )

    def login(self, token: str, words: str = "", status: int = 200, has_left: bool = False) -> Response:
        text = self._templates.get_template("login.html").render(
            csrf=token,
            words=words,
            has_passwords=self._backend.users is not None,
            has_issuer=self._backend.single_sign_on is not None,
            has_left=has_left,
        )
        return HTMLResponse(text, status)

    def entered(self) -> Response:
        return HTMLResponse(self._templates.get_template("entered.html").render())


@cache
def _templates() -> Environment:
    """Returns the compiled templates, which all clusters of a console share: they take 0.3 s of CPU to compile."""
    templates = Environment(loader=FileSystemLoader(_HERE / "templates"), autoescape=True, trim_blocks=True)
    templates.globals |= {
        "version": __version__,
        "svg": _svg,
        "kind_of": _kind_of,
        "numeric_columns": _numeric_columns,
        "iso": formats.iso,
        "when": formats.when,
    }
    templates.filters |= {
        "number": formats.number,
        "points": _points,
        "middle": middle,
        "breaks": breaks,
        "dialog_id": dialog_id,
        "effects": _effects,
    }
    for name in templates.list_templates():
        templates.get_template(name)  # compiled now: the first page does not wait for it
    return templates


def _is_of(draft: Draft, form: Form) -> bool:
    """Whether the draft is of this form, and in a list of forms of this row."""
    hidden = {one.name: one.value for one in form.fields if one.kind == "hidden"}
    return unquote(form.action) == draft.action and hidden.items() <= draft.fields.items()


def _svg(drawing: Drawing) -> Markup:
    """Drawings are ours: names in them were escaped where they were drawn."""
    return Markup(drawing.svg)


def _effects(effects: Sequence[Effect]) -> str:
    """Effects for the script that shows them before a change."""
    return json.dumps([[one.what, one.before, one.after] for one in effects])


def _points(values: Sequence[float]) -> str:
    """Numbers for the script that draws charts."""
    return " ".join(f"{value:.10g}" for value in values)


def _kind_of(cell: Cell) -> str:
    kinds = {
        Link: "link",
        Badge: "badge",
        Drawing: "drawing",
        Button: "button",
        Moment: "moment",
        Form: "form",
        Snippet: "snippet",
    }
    for kind, name in kinds.items():
        if isinstance(cell, kind):
            return name
    if isinstance(cell, list | tuple):
        return "list"
    if isinstance(cell, bool):
        return "bool"
    return "number" if isinstance(cell, int | float | formats.Figure) else "text"


def _numeric_columns(table: Table) -> list[bool]:
    """For each column, whether it holds numbers alone: its heading and cells stand at the right then."""
    made = []
    for index in range(len(table.columns)):
        kinds = {_kind_of(row[index]) for row in table.rows if row[index] is not None}
        made.append(kinds == {"number"})
    return made


def middle(text: str, most: int = _MOST_NAME) -> str:
    """A long name without its middle: both ends tell names apart."""
    if len(text) <= most:
        return text
    tail = most // 3
    return f"{text[: most - tail - 1]}…{text[-tail:]}"


def breaks(text: str) -> Markup:
    """The text with places where long words may break: after dots, slashes and the like, and never within a word."""
    return Markup(" ").join(_broken(word) if len(word) > _LONG_WORD else escape(word) for word in str(text).split(" "))


def _broken(word: str) -> Markup:
    return Markup("<wbr>").join(escape(piece) for piece in _BREAKS.sub(lambda found: f"{found[1]}\0", word).split("\0"))


def dialog_id(form: Form) -> str:
    return form.id or f"do-{_NOT_IN_IDS.sub('-', (form.name or form.title).lower()).strip('-')}"
