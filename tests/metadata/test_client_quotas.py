"""Filters of DescribeClientQuotas (KIP-546), on entities of one and of two kinds."""

from __future__ import annotations

import pytest
from odradek.metadata.image import QuotaEntity
from odradek.metadata.quota_filters import ANY, DEFAULT, EXACT, Component, QuotaFilter

ALICE: QuotaEntity = (("user", "alice"),)
ANY_USER: QuotaEntity = (("user", None),)
ALICES_APP: QuotaEntity = (("client-id", "app"), ("user", "alice"))
APP: QuotaEntity = (("client-id", "app"),)
ENTITIES = (ALICE, ANY_USER, ALICES_APP, APP)


@pytest.mark.parametrize(
    ("components", "matching", "strictly"),
    [
        ([], ENTITIES, ()),
        ([Component("user", EXACT, "alice")], (ALICE, ALICES_APP), (ALICE,)),
        ([Component("user", DEFAULT, None)], (ANY_USER,), (ANY_USER,)),
        ([Component("user", ANY, None)], (ALICE, ANY_USER, ALICES_APP), (ALICE, ANY_USER)),
        ([Component("client-id", EXACT, "app")], (ALICES_APP, APP), (APP,)),
        ([Component("user", EXACT, "alice"), Component("client-id", ANY, None)], (ALICES_APP,), (ALICES_APP,)),
        ([Component("user", EXACT, "bob")], (), ()),
    ],
)
def test_strict_filter_matches_only_entities_of_exactly_its_kinds(
    components: list[Component], matching: tuple[QuotaEntity, ...], strictly: tuple[QuotaEntity, ...]
) -> None:
    assert tuple(filter(QuotaFilter(components, strict=False).matches, ENTITIES)) == matching
    assert tuple(filter(QuotaFilter(components, strict=True).matches, ENTITIES)) == strictly
