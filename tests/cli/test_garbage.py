"""Later garbage collections do not examine objects that survived a long one."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from odradek.cli.garbage import LongCollections


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.unfreeze()


@pytest.mark.parametrize(("long_s", "is_set_aside"), [(0.0, True), (60.0, False)])
def test_survivors_of_a_long_collection_are_excluded_from_the_next(long_s: float, is_set_aside: bool) -> None:
    collections, made = LongCollections(long_s), [[number] for number in range(1000)]
    collections.begin()
    try:
        gc.collect(1)
        assert gc.get_freeze_count() == 0, "only of full ones"
        gc.collect()
    finally:
        collections.end()
    assert (gc.get_freeze_count() > len(made)) is is_set_aside


def test_one_that_has_ended_sets_nothing_aside() -> None:
    collections = LongCollections(0.0)
    collections.begin()
    collections.end()
    gc.collect()
    assert gc.get_freeze_count() == 0
