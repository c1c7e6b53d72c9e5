"""Addresses of pages: their paths with any names, and the parts and numbers of one."""

from __future__ import annotations

from urllib.parse import quote, unquote

from starlette.requests import Request

from ..client.user_errors import Misused
from .whole_numbers import MOST_INT64, whole_number

#: Bytes of a text, a little less than Kafka's protocol has.
MOST_TEXT_BYTES = 32_000


def here(request: Request) -> str:
    """The path of the page, as pages write addresses: quoted, without the part that chooses one of several clusters."""
    return quote(str(request.scope["path"]).removeprefix(request.scope.get("root_path", "")), safe="/")


def number_of(request: Request, name: str, default: int, most: int = MOST_INT64) -> int:
    """A parameter of the address. Raises Misused for one that is no number from 0 on."""
    text = request.query_params.get(name, "").strip()
    return checked(name, text, 0, most) if text else default


def number_in(request: Request, key: str, most: int) -> int:
    """A part of the address that is a number from 0 on. Raises Misused."""
    return checked(key, request.path_params[key], 0, most)


def checked(name: str, text: str, least: int, most: int) -> int:
    """Raises Misused for a text that is no number within the limits."""
    number = whole_number(text, least, most)
    if number is None:
        words = name.replace("_", " ")
        raise Misused(f"{words} must be a whole number from {least} to {most}, not {text[:40]!r}")
    return number


def text_of(request: Request, name: str) -> str:
    """A parameter that is a name. Raises Misused for one that no text of Kafka's protocol can be."""
    text = request.query_params.get(name, "").strip()
    check_length(name, text)
    return text


def check_length(name: str, text: str) -> None:
    if len(text.encode(errors="replace")) > MOST_TEXT_BYTES:
        raise Misused(f"{name.replace('_', ' ')} is longer than {MOST_TEXT_BYTES} bytes: give a shorter one")


def path_to(*names: object) -> str:
    """An address whose parts may hold any character. `name_in` reads them.

    Servers read %2F as a slash, and browsers read a part of dots as a folder: these are quoted twice.
    """
    return "".join(f"/{quote(_escaped(str(name)), safe='')}" for name in names)


def _escaped(name: str) -> str:
    escaped = name.replace("%", "%25").replace("/", "%2F")
    return escaped.replace(".", "%2E") if name in (".", "..") else escaped


def name_in(request: Request, key: str) -> str:
    """A part of the address that `path_to` made."""
    return unquote(request.path_params[key])
