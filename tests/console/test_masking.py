"""Masks hide fields of values, headers and texts, and nothing else."""

from __future__ import annotations

import pytest
from odradek.client.user_errors import Misused
from odradek.console.cluster.masks import MASKED, Masks


def test_field_is_masked_at_every_depth_whatever_its_case() -> None:
    masks = Masks(["*password*"])
    value = {"user": "ada", "Password": "x", "inner": [{"old_password": {"a": 1}}, 3]}
    assert masks.document(value) == {"user": "ada", "Password": MASKED, "inner": [{"old_password": MASKED}, 3]}


def test_path_masks_only_below_its_names() -> None:
    masks = Masks(["card.number"])
    value = {"number": 1, "card": {"number": 2, "bank": "b"}, "payment": {"card": [{"number": 3}]}}
    expected = {"number": 1, "card": {"number": MASKED, "bank": "b"}, "payment": {"card": [{"number": MASKED}]}}
    assert masks.document(value) == expected


def test_pattern_masks_texts_keys_and_headers() -> None:
    masks = Masks([r"pattern:\d{16}", "authorization"])
    assert masks.document("card 1234567812345678 of ada") == f"card {MASKED} of ada"
    assert masks.document({"note": "1234567812345678"}) == {"note": MASKED}
    assert masks.header("Authorization", b"Bearer x") == MASKED
    assert masks.header("trace", b"1234567812345678") == MASKED
    assert masks.header("trace", b"abc") == "abc"


def test_value_that_is_nested_too_deep_is_masked_whole() -> None:
    value: object = "secret"
    for _ in range(500):
        value = [value]
    assert MASKED in str(Masks(["x"]).document(value)) and "secret" not in str(Masks(["x"]).document(value))


@pytest.mark.parametrize("mask", ["", "card..number", "pattern:("])
def test_mask_that_cannot_be_meant_is_an_error(mask: str) -> None:
    with pytest.raises(Misused):
        Masks([mask])


@pytest.mark.parametrize(
    "text", ["k17", "order-4711", "550e8400-e29b-41d4-a716-446655440000", "a@b.example", "", "z\u00fcrich"]
)
def test_single_word_is_shown_beside_a_mask_of_a_field(text: str) -> None:
    assert Masks(["*password*", "card.number"]).unparsed(text.encode(), text) == text


@pytest.mark.parametrize(
    "text",
    [
        "two words",
        "password:hunter2",
        "eyJwYXNzd29yZCI6ICJodW50ZXIyIn0",
        "7b2270617373776f7264223a2022",
        "BABCDEFGHIJKLMNOPQRSTUVWXYZabcdefg",
        "card.number",
    ],
)
def test_text_that_could_have_a_field_is_hidden_whole(text: str) -> None:
    assert Masks(["*password*", "card.number"]).unparsed(text.encode(), text) == MASKED


def test_document_in_a_text_is_masked_as_a_document() -> None:
    masks = Masks(["card.number"])
    assert masks.document({"card": '{"number": 7, "bank": "b"}'}) == {"card": f'{{"number": "{MASKED}", "bank": "b"}}'}
    assert masks.header("card", b'{"number": 7}') == f'{{"number": "{MASKED}"}}'
    assert masks.document({"note": "see Ada at noon", "a": [1]}) == {"note": "see Ada at noon", "a": [1]}


def test_dots_of_a_name_and_of_a_mask_are_those_of_a_path() -> None:
    masks = Masks(["card.number", "pin"])
    assert masks.document({"card.number": 7, "a.pin": 7, "pin.b": 7, "card": {"x.number": 8}}) == {
        "card.number": MASKED, "a.pin": MASKED, "pin.b": MASKED, "card": {"x.number": 8},
    }  # fmt: skip


def test_pattern_masks_numbers_names_and_what_stands_in_two_fields() -> None:
    masks = Masks([r"pattern:\d{4}"])
    assert masks.document({"n": 12345, "12345": True, "f": 1.5}) == {"n": MASKED, f"{MASKED}5": True, "f": 1.5}
    assert Masks(['pattern:"a": 1, "b": 2']).document({"a": 1, "b": 2}) == MASKED
    assert masks.unparsed(b"\xff1234", None) == MASKED
