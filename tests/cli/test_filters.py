"""A filter decides on each document by itself: no document ends it, and a value that cannot be in another is not in it."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.client.user_errors import Misused
from odradek.records.filters import filters_of

from tests.harness.examples import examples

_TERMS = (
    "1", "1.5", "'a'", "true", "null", "@.a", "@.b", "@.a.b", "@.a[0]", "@", "$", "@.a[1:2]", "@..b", "[1,2]", "typeof(@.a)",
    "length(@.a)", "match(@.a,'a.*')", "search(@.a,@.b)", "value(@.a)", "startswith(@.a,'x')", "undefined",
)  # fmt: skip
_OPERATORS = ("==", "!=", "<", "<=", ">", ">=", "&&", "||", "in", "contains", "<>")
_DOCUMENTS: tuple[Any, ...] = (
    1, 1.5, "a", "", True, [], {}, [1, "a", None], {"a": 1, "b": "x"}, {"a": "x", "b": 1}, {"a": None},
    {"a": [1, 2], "b": {}}, {"a": {"b": 1}, "b": [None]}, {"a": True, "b": 10**400}, {"a": 1e308},
    {"a": "a*(", "b": "(a"}, {"a": "\ud800"},
)  # fmt: skip


def term(rng: random.Random, depth: int) -> str:
    if depth and rng.random() < 0.4:
        return f"({term(rng, depth - 1)} {rng.choice(_OPERATORS)} {term(rng, depth - 1)})"
    return rng.choice(("", "", "", "!")) + rng.choice(_TERMS)


def passes(expression: str, document: Any) -> bool:
    (found,) = filters_of(None, None, (), [expression])
    message: Any = None  # a filter of documents does not read it
    return found(message, None, document)


@given(seed=st.integers(0, 1 << 40))
@settings(max_examples=examples(300), deadline=None)
def test_no_document_ends_a_filter(seed: int) -> None:
    rng = random.Random(seed)
    expression = f"{term(rng, 2)} {rng.choice(_OPERATORS)} {term(rng, 2)}"
    try:
        (found,) = filters_of(None, None, (), [expression])
    except Misused:
        return
    message: Any = None
    for document in _DOCUMENTS:
        assert found(message, None, document) in (True, False)


@pytest.mark.parametrize("expression", ["@.b contains 1 || @.a == 1", "@.a in @.b || @.a == 1", "!(@.b contains 1)"])
def test_membership_of_unlike_values_hides_no_record(expression: str) -> None:
    assert passes(expression, {"a": 1, "b": "x"})
    assert not passes("@.b contains 1", {"a": 1, "b": "x"})


def test_error_of_the_library_is_not_taken_for_a_document_that_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    from jsonpath import JSONPathEnvironment

    def compare(*given: Any) -> bool:
        raise TypeError("a bug")

    monkeypatch.setattr(JSONPathEnvironment, "compare", compare)
    with pytest.raises(TypeError, match="a bug"):
        passes("@.a == 1", {"a": 1})
