"""Client properties that name the remote store of tiered storage, with the keys of a broker."""

from __future__ import annotations

import pytest
from odradek.client.librdkafka import check_names, librdkafka_settings
from odradek.client.properties import shown_properties, store_settings
from odradek.client.security_options import security_of
from odradek.client.user_errors import Misused

STORE = {
    "remote.log.storage.manager.class.name": "objects",
    "rsm.config.url": "s3://bucket/kafka",
    "rsm.config.store.secret_access_key": "hidden",
}


def test_keys_of_the_store_are_its_own_without_their_prefix() -> None:
    found = store_settings({"bootstrap.servers": "a:1", **STORE})
    assert found == ("objects", {"url": "s3://bucket/kafka", "store.secret_access_key": "hidden"})
    assert "hidden" not in repr(found) and "s3://bucket/kafka" in str(found)
    assert store_settings({"rsm.config.url": "s3://bucket/kafka"}) is None


def test_another_prefix_selects_other_keys() -> None:
    prefix = {"remote.log.storage.manager.impl.prefix": "own."}
    found = store_settings({**STORE, **prefix, "own.dir": "/store"})
    assert found == ("objects", {"dir": "/store"})


def test_clients_do_not_get_the_keys_of_the_store() -> None:
    check_names(STORE)
    properties = {"bootstrap.servers": "a:1", "client.id": "me", **STORE}
    assert not STORE.keys() & librdkafka_settings(properties, security_of(properties)).keys()
    assert shown_properties(STORE)["rsm.config.store.secret_access_key"] == "(hidden)"


def test_similar_names_are_still_refused() -> None:
    with pytest.raises(Misused, match=r"'rsm\.configs\.url' is not a property"):
        check_names({"rsm.configs.url": "x"})
