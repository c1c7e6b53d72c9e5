"""Records with a secret as the console's reader gets them, and what the console shows of them."""

from __future__ import annotations

from odradek.console.cluster.records import Record

from tests.hostile.masked_records import SecretRecord, traces_of, unpacked


class Message:
    """A record of the library."""

    def __init__(self, made: SecretRecord, offset: int = 0) -> None:
        self._made, self._offset = made, offset

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 1, 1_700_000_000_000

    def key(self) -> bytes | None:
        return self._made.key

    def value(self) -> bytes | None:
        return self._made.value

    def headers(self) -> list[tuple[str, bytes | None]]:
        return self._made.headers


def leaks(text: str, secret: str) -> list[str]:
    joined = text.replace("\\n", "")
    packed = "".join(unpacked(joined))
    return [one for one in traces_of(secret) if one in text or one in joined or one in packed]


def everything_of(one: Record) -> str:
    return f"{one.key} {one.value} {one.headers} {one.form} {one.document!r} {one.key_document!r} {one.as_json()}"
