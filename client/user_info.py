"""The user and password of a URL, `http://USER:PASSWORD@HOST`: apart from the URL, which errors and pages show."""

from __future__ import annotations

from base64 import b64encode
from typing import NamedTuple
from urllib.parse import unquote


class PlainUrl(NamedTuple):
    """`user_info`: USER:PASSWORD, "" where the URL has none."""

    url: str
    user_info: str


def apart(url: str) -> PlainUrl:
    """Returns the URL without its user, and the user."""
    scheme, mark, rest = url.partition("://")
    end = next((at for at, one in enumerate(rest) if one in "/?#"), len(rest))
    user_info, at, host = rest[:end].rpartition("@")
    if not at:
        return PlainUrl(url, "")
    return PlainUrl(f"{scheme}{mark}{host}{rest[end:]}", unquote(user_info))


def basic_login(user_info: str) -> dict[str, str]:
    """The header of HTTP with this user and password; none for ""."""
    return {"Authorization": f"Basic {b64encode(user_info.encode()).decode()}"} if user_info else {}
