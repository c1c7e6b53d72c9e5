"""Filters of a search, over what its viewer sees: masks come before them. Expressions run in RE2, in linear time."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...client.user_errors import Misused
from ...records.filters import filters_of
from ..budgets import UNLIMITED, Budget
from ..documents import parsed
from .comparisons import comparisons_in
from .masks import compiled, searchable
from .query import Query

if TYPE_CHECKING:
    from ...records.consumed import ConsumedRecord
    from ...records.contents import Content
    from .seen import Seen

_MOST_EXPRESSION = 500
#: Functions and operators of JSONPath that run Python's expressions, whose time has no limit.
_WITHOUT_LIMIT = re.compile(r"=~|\b(match|search)\s*\(")
#: Words of expressions that look at more of a document than one value for each name in them.
_BRANCHES = ("..", "*", "?", ":", "~", ",")
#: States of an expression, memory for it, and states times characters of one search: a second has a hundred million.
_MOST_STATES, _MOST_EXPRESSION_BYTES, _MOST_STEPS = 1000, 1 << 20, 400_000_000

Passes = Callable[["Seen", "ConsumedRecord"], bool]


def filters(query: Query, budget: Budget = UNLIMITED) -> list[Passes]:
    """Raises Misused for a bad expression. The filters raise Stopped where one record takes all of the budget."""
    made: list[Passes] = []
    if query.key:
        pattern = _expression(query.key, "key")
        made.append(lambda record, message: pattern(record.key))
    if query.header:
        made.append(_header_filter(query.header))
    if query.value:
        made.append(_value_filter(query.value))
    if query.where:
        made.append(_json_filter(query.where, budget))
    return made


def _json_filter(text: str, budget: Budget) -> Passes:
    if len(text) > _MOST_EXPRESSION or _WITHOUT_LIMIT.search(text):
        raise Misused("the JSON filter supports no regular expressions: use the field for values")
    (where,) = filters_of(None, None, (), [text])
    from jsonpath import JSONPathError

    branches = any(word in text for word in _BRANCHES)
    compared = comparisons_in(text)

    def passes(record: Seen, message: ConsumedRecord) -> bool:
        document = _json_of(record.document)
        if not all(one.may_hold(document) for one in compared):
            return False
        try:
            with budget.enforced() if branches else contextlib.nullcontext():
                return bool(where(message, None, document))
        except (JSONPathError, RecursionError):  # the expression does not fit the document, which is no match
            return False

    return passes


def _json_of(document: Content) -> Content:
    """The document for a filter. A text of JSON stays one, which the filter reads, if it can be read; else None."""
    if not isinstance(document, str):
        return document
    try:
        found = parsed(document)
    except ValueError:
        return None
    return found if isinstance(found, dict | list) else document


def _value_filter(text: str) -> Passes:
    pattern = _expression(text, "value")
    return lambda record, message: pattern(record.value)


def _header_filter(text: str) -> Passes:
    name, equals, expression = text.partition("=")
    pattern = _expression(expression, "header")
    return lambda record, message: any(
        known == name and (not equals or pattern(content)) for known, content in record.headers
    )


def _expression(text: str, field: str) -> Callable[[str | None], bool]:
    """A search, whose time is at most that of its steps: RE2 looks at each character, perhaps in each state."""
    if len(text) > _MOST_EXPRESSION:
        raise Misused(f"the expression for the {field} is longer than {_MOST_EXPRESSION} characters")
    pattern = compiled(text, f"{text!r} is not a regular expression for the {field}: ", _MOST_EXPRESSION_BYTES)
    states = pattern.programsize
    if states > _MOST_STATES:
        raise Misused(
            f"the expression for the {field} repeats too much: it has {states} states, the most are {_MOST_STATES}"
        )
    search = pattern.search

    def found(content: str | None) -> bool:
        within = searchable(content or "")
        if states * len(within) > _MOST_STEPS:
            raise Misused(f"the expression for the {field} is too complex for a record of {len(within)} characters")
        return search(within) is not None

    return found


def text_filter(text: str) -> Callable[[str], bool]:
    return _expression(text, "key")
