"""Links in configs: every property is checked, secrets are shown nowhere, and progress survives its text."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.metadata.mirror_keys import SHOWN, is_shown, link_key, split_key
from odradek.replication.mirror.link import LINGER_MS, InvalidLink, LinkState, parse_link, properties_of_links
from odradek.replication.mirror.progress import MirrorProgress, parse_progress

GOOD = {"bootstrap.servers": "a:1,[::1]:2", "topics": "orders.*", "groups": "g-.*", "sasl.password": "hunter2"}


def test_link_is_parsed_from_its_properties() -> None:
    configs = {link_key("dr", key): value for key, value in GOOD.items()} | {"log.retention.ms": "1"}
    link = parse_link("dr", properties_of_links(configs)["dr"])
    assert link.bootstrap == (("a", 1), ("::1", 2)) and link.state is LinkState.ACTIVE
    assert link.follows_topic("orders-eu") and not link.follows_topic("xorders")
    assert not parse_link("dr", GOOD | {"topics": ".*"}).follows_topic("__consumer_offsets")
    assert link.linger_ms == LINGER_MS and parse_link("dr", GOOD | {"fetch.linger.ms": "0"}).linger_ms == 0
    assert link.follows_group("g-1") and not link.follows_group("h")
    assert link.client == {"sasl.password": "hunter2"} and "hunter2" not in repr(link)


def test_names_with_a_prefix_lead_back() -> None:
    link = parse_link("dr", GOOD | {"prefix": "eu."})
    assert link.name_here("orders") == "eu.orders" and link.name_there("eu.orders") == "orders"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"bootstrap.servers": ""}, "has no bootstrap.servers"),
        ({"bootstrap.servers": "a"}, "not HOST:PORT"),
        ({"bootstrap.servers": "a:0"}, "not HOST:PORT"),
        ({"bootstrap.servers": "a:70000"}, "not HOST:PORT"),
        ({"topics": ""}, "has no topics"),
        ({"topics": "("}, "not a regular expression"),
        ({"groups": "["}, "not a regular expression"),
        ({"state": "hunter2"}, "not one of active, paused, stopped"),
        ({"prefix": "a/b"}, "characters"),
        ({"replication.factor": "-2"}, "not a number"),
        ({"fetch.linger.ms": ""}, "not milliseconds from 0 to 1000"),
        ({"fetch.linger.ms": "-1"}, "not milliseconds from 0 to 1000"),
        ({"fetch.linger.ms": "1001"}, "not milliseconds from 0 to 1000"),
        ({"fetch.linger.ms": "\u0663"}, "not milliseconds from 0 to 1000"),
    ],
)
def test_bad_property_is_named(change: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidLink, match=words):
        parse_link("dr", GOOD | change)


@pytest.mark.parametrize("name", ["", "a.b", "a b", "x" * 65, "ä"])
def test_bad_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidLink):
        parse_link(name, GOOD)


@given(st.text(max_size=60) | st.sampled_from([*sorted(SHOWN), "made.acls.0", "made.", "made.sasl.jaas.config"]))
def test_only_known_properties_are_shown(key: str) -> None:
    place = split_key(f"mirror.link.dr.{key}")
    is_known = place is not None and (place[1] in SHOWN or re.fullmatch(r"made\.[a-z]+\.\d+", place[1]) is not None)
    assert is_shown(f"mirror.link.dr.{key}") is is_known


@given(
    st.integers(0, 1 << 62),
    st.text(max_size=30),
    st.text(max_size=2000),
    st.lists(st.integers(-1, 1 << 62), min_size=4, max_size=4),
    st.booleans(),
)
def test_progress_survives_its_text(offset: int, state: str, reason: str, numbers: list[int], is_final: bool) -> None:
    progress = MirrorProgress(offset, state, reason, *numbers, is_final=is_final)
    found = parse_progress(offset, progress.text())
    assert found == MirrorProgress(offset, state, reason[:500], *numbers, is_final=is_final)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    )
)
def test_other_texts_are_no_progress(value: object) -> None:
    with pytest.raises(ValueError):
        parse_progress(1, json.dumps(value))


@pytest.mark.parametrize(
    "text", ["", "{", '{"state": 1}', '{"state": "x", "reason": 5}', '{"state": "x", "at_ms": 1.5}']
)
def test_damaged_texts_are_no_progress(text: str) -> None:
    with pytest.raises(ValueError):
        parse_progress(1, text)


def test_reversed_link_leads_names_with_a_prefix_back() -> None:
    link = parse_link(
        "back", {"bootstrap.servers": "a:1", "topics": "orders.*", "groups": "app", "source.prefix": "eu."}
    )
    assert link.follows_topic("eu.orders") and not link.follows_topic("orders") and not link.follows_topic("eu.bills")
    assert link.follows_group("eu.app") and not link.follows_group("app")
    assert link.name_here("eu.orders") == "orders" and link.name_there("orders") == "eu.orders"
