"""Owners of tables: equal, of another topic, role or cluster, of a topic that was created again."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.admin.table_owner import OWNER, Owner, Role
from odradek.protocol.uuids import uuid_to_text

_NAMES = st.sampled_from(["", "a", "b"])
_OWNERS = st.builds(Owner, st.sampled_from(["orders", "payments"]), _NAMES, _NAMES, st.sampled_from(Role))


@given(owner=_OWNERS, stored=_OWNERS)
def test_owner_takes_its_own_table_and_no_other(owner: Owner, stored: Owner) -> None:
    assert Owner.from_text(stored.text()) == stored
    is_same = (owner.topic, owner.role) == (stored.topic, stored.role)
    clusters, ids = {owner.cluster_id, stored.cluster_id} - {""}, {owner.topic_id, stored.topic_id} - {""}
    assert (owner.mismatch(stored, "t") is None) == (is_same and len(clusters) < 2)
    assert (owner.recreation(stored, "t") is None) == (len(ids) < 2)
    known = owner.known_with(stored)
    assert known.cluster_id == (owner.cluster_id or stored.cluster_id) and known.topic == owner.topic


def test_topic_id_with_hyphens_of_an_earlier_release_is_the_same_one() -> None:
    topic_id = uuid.UUID(int=(1 << 127) + 7)
    text = Owner("orders", "c", str(topic_id), Role.latest).text()
    stored = Owner.from_text(text)
    assert stored.topic_id == uuid_to_text(topic_id.bytes)
    assert Owner("orders", "c", uuid_to_text(topic_id.bytes), Role.latest).recreation(stored, "t") is None
    assert Owner("orders", "c", uuid_to_text(bytes(16)), Role.latest).recreation(stored, "t") is not None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"topic":"a","cluster_id":"","topic_id":"","role":"other"}'])
def test_damaged_text_is_explained(text: str) -> None:
    with pytest.raises(ValueError, match=f"the property {OWNER} is damaged"):
        Owner.from_text(text)
