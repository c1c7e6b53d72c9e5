"""The filters that a record must pass: `--key`, `--value`, `--header` and `--where`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from ..client.user_errors import Misused

if TYPE_CHECKING:
    from jsonpath import JSONPathEnvironment
    from jsonpath.filter import BaseExpression
    from jsonpath.stream import TokenStream

    from .consumed import ConsumedRecord
    from .contents import Content

_MEMBERSHIP = ("in", "contains")
_INTEGER = re.compile(r"-?\d{1,400}")

Filter = Callable[["ConsumedRecord", "Content", "Content"], bool]
"""Takes the message, its decoded key and its decoded value."""


def filters_of(key: str | None, value: str | None, headers: Sequence[str], where: Sequence[str]) -> list[Filter]:
    """Raises Misused for a bad expression."""
    made: list[Filter] = []
    if key is not None:
        made.append(_matching(key, "--key", lambda message: message.key()))
    if value is not None:
        made.append(_matching(value, "--value", lambda message: message.value()))
    made += [_header(text) for text in headers]
    made += [_where(text) for text in where]
    return made


def _compiled(text: str, option: str) -> re.Pattern[bytes]:
    try:
        return re.compile(text.encode())
    except re.error as error:
        raise Misused(f"{option} {text!r} is not a regular expression: {error}") from None


def _matching(text: str, option: str, part: Callable[[ConsumedRecord], bytes | None]) -> Filter:
    """The whole text when it has no characters of expressions, else a search."""
    pattern = _compiled(text, option)
    if re.escape(text) == text:
        wanted = text.encode()
        return lambda message, key, value: part(message) == wanted
    return lambda message, key, value: pattern.search(part(message) or b"") is not None


def _header(text: str) -> Filter:
    """`NAME` or `NAME=EXPRESSION`."""
    name, equals, expression = text.partition("=")
    pattern = _compiled(expression, "--header") if equals else None

    def passes(message: ConsumedRecord, key: Content, value: Content) -> bool:
        for known, content in message.headers() or ():
            if known == name and (pattern is None or pattern.search(content or b"") is not None):
                return True
        return False

    return passes


@cache
def _environment() -> JSONPathEnvironment:
    """Expressions whose integers are exact: the library makes a double of them first."""
    from jsonpath import JSONPathEnvironment
    from jsonpath.filter import IntegerLiteral
    from jsonpath.parse import Parser

    from .json_parsing import MOST_DEPTH

    class ExactParser(Parser):  # type: ignore[misc]
        def parse_integer_literal(self, stream: TokenStream) -> BaseExpression:
            text = stream.current().value
            if _INTEGER.fullmatch(text) is None:  # with an exponent
                return super().parse_integer_literal(stream)
            stream.next()
            return IntegerLiteral(value=int(text))

    class Environment(JSONPathEnvironment):  # type: ignore[misc]
        parser_class = ExactParser
        max_recursion_depth = MOST_DEPTH + 2  # the list around the document of a filter, and what is innermost

        def compare(self, left: object, operator: str, right: object) -> bool:
            try:
                return bool(super().compare(left, operator, right))
            except TypeError:  # of Python's own `in`, for a value that the other one cannot have
                if operator not in _MEMBERSHIP:
                    raise
                return False

    return Environment()


def _where(text: str) -> Filter:
    """A JSONPath (RFC 9535) that selects something, or the inside of its filter: `@.total > 10 && @.paid`."""
    import jsonpath

    from .json_parsing import loaded

    query = text if text.lstrip().startswith("$") else f"$[?{text}]"
    try:
        compiled = _environment().compile(query)
    except (jsonpath.JSONPathError, ValueError, ArithmeticError, RecursionError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise Misused(f"--where {text!r} is not a JSONPath expression: {reason}") from None
    is_filter = query != text
    unfit = (jsonpath.JSONPathError, ArithmeticError, ValueError, RecursionError)

    def passes(message: ConsumedRecord, key: Content, value: Content) -> bool:
        document = value
        if isinstance(value, str | bytes):
            try:
                document = loaded(value if isinstance(value, str) else value.decode())
            except ValueError:
                return False
        if document is None:
            return False
        if not is_filter and not isinstance(document, list | dict):
            return False
        try:
            return next(iter(compiled.finditer([document] if is_filter else document)), None) is not None
        except unfit:  # of this document: the next one may fit
            return False

    return passes
