"""Pages as HTML: the templates, and what they get of the request."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from ..version import __version__
from . import formats
from .access.sessions import FLASH_COOKIE, SESSION_COOKIE, Draft, Drafts, Session, Sessions
from .backend import Backend
from .pages.lists import Arranged, arranged
from .parts import Badge, Button, Drawing, Form, Link, Moment, Page, Table

if TYPE_CHECKING:
    from .parts import Cell, Part


_HERE = Path(__file__).parent
#: Sections in the navigation: path, name, key after `g`.
SECTIONS = (
    ("/", "Overview", "o"),
    ("/topics", "Topics", "t"),
    ("/groups", "Groups", "g"),
    ("/transactions", "Transactions", "x"),
    ("/brokers", "Brokers", "b"),
    ("/quorum", "Quorum", "q"),
    ("/share", "Dead letters", "d"),
    ("/access", "Access", "a"),
    ("/clients", "Clients", "c"),
)


class Renderer:
    """Draws pages of one cluster. `cluster`: its name in a console of several, "" in a console of one."""

    def __init__(self, backend: Backend, sessions: Sessions, drafts: Drafts, cluster: str = "") -> None:
        self._backend = backend
        self._sessions = sessions
        self._drafts = drafts
        self._cluster = cluster
        self._templates = Environment(loader=FileSystemLoader(_HERE / "templates"), autoescape=True, trim_blocks=True)
        self._templates.globals |= {
            "version": __version__,
            "svg": _svg,
            "kind_of": _kind_of,
            "numeric_columns": _numeric_columns,
            "iso": formats.iso,
            "when": formats.when,
        }
        self._templates.filters |= {"number": formats.number, "points": _points}
        for name in self._templates.list_templates():
            self._templates.get_template(name)  # compiled now: the first page does not wait for it

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
            return arranged(table, given, here)

        here = str(request.scope["path"]).removeprefix(request.scope.get("root_path", ""))
        text = self._templates.get_template(page.fragment if is_part else "page.html").render(
            page=page,
            arrange=arrange,
            typed_of=typed_of,
            sections=SECTIONS if has_sections else (),
            clusters=self._cluster,
            base=request.scope.get("root_path", ""),
            live=self._live(page, here, request.url.query),
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
            flash=flash,
            path=request.url.path,
        )
        response = HTMLResponse(text, status)
        if fresh:
            self.keep(response, session)
        if flash is not None:
            response.delete_cookie(FLASH_COOKIE)
        return response

    def _live(self, page: Page, here: str, query: str) -> str:
        """The address of the live parts: the page's own, with what the viewer sorts and filters by, or the page's choice."""
        if not page.live or page.prepends:
            return page.live
        return f"{here}?{query}" if query else here

    def _may_change(self, request: Request) -> bool:
        user = request.state.user
        return user is not None and user.may_change and not self._backend.settings.read_only

    def _visible(self, request: Request, parts: Sequence[Part]) -> list[Part]:
        may_change = self._may_change(request)
        return [part for part in parts if may_change or not (isinstance(part, Form) and part.method == "post")]

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


def _is_of(draft: Draft, form: Form) -> bool:
    """Whether the draft is of this form, and in a list of forms of this row."""
    hidden = {one.name: one.value for one in form.fields if one.kind == "hidden"}
    return unquote(form.action) == draft.action and hidden.items() <= draft.fields.items()


def _svg(drawing: Drawing) -> Markup:
    """Drawings are ours: names in them were escaped where they were drawn."""
    return Markup(drawing.svg)


def _points(values: Sequence[float]) -> str:
    """Numbers for the script that draws charts."""
    return " ".join(f"{value:.10g}" for value in values)


def _kind_of(cell: Cell) -> str:
    kinds = {Link: "link", Badge: "badge", Drawing: "drawing", Button: "button", Moment: "moment", Form: "form"}
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
