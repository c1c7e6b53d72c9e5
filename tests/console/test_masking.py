"""Masks hide fields of values, headers and texts, and nothing else."""

from __future__ import annotations

import pytest
from odradek.cli.client.errors import Misused
from odradek.console.cluster.records import MASKED, Masks


def test_field_is_masked_at_every_depth_whatever_its_case() -> None:
    masks = Masks(["*password*"])
    value = {"user": "ada", "Password": "x", "inner": [{"old_password": {"a": 1}}, 3]}
    assert masks.value(value) == {"user": "ada", "Password": MASKED, "inner": [{"old_password": MASKED}, 3]}


def test_path_masks_only_below_its_names() -> None:
    masks = Masks(["card.number"])
    value = {"number": 1, "card": {"number": 2, "bank": "b"}, "payment": {"card": [{"number": 3}]}}
    expected = {"number": 1, "card": {"number": MASKED, "bank": "b"}, "payment": {"card": [{"number": MASKED}]}}
    assert masks.value(value) == expected


def test_pattern_masks_texts_keys_and_headers() -> None:
    masks = Masks([r"pattern:\d{16}", "authorization"])
    assert masks.value("card 1234567812345678 of ada") == f"card {MASKED} of ada"
    assert masks.value({"note": "1234567812345678"}) == {"note": MASKED}
    assert masks.header("Authorization", "Bearer x") == MASKED
    assert masks.header("trace", "1234567812345678") == MASKED
    assert masks.header("trace", "abc") == "abc"


def test_value_that_is_nested_too_deep_is_masked_whole() -> None:
    value: object = "secret"
    for _ in range(500):
        value = [value]
    assert MASKED in str(Masks(["x"]).value(value)) and "secret" not in str(Masks(["x"]).value(value))


@pytest.mark.parametrize("mask", ["", "card..number", "pattern:("])
def test_mask_that_cannot_be_meant_is_an_error(mask: str) -> None:
    with pytest.raises(Misused):
        Masks([mask])
