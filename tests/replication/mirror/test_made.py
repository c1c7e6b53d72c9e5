"""Marks of what a link has made: in configs of a limited size, beside other links and other properties."""

from __future__ import annotations

import pytest
from odradek.metadata.mirror_keys import is_shown
from odradek.replication.mirror.link import properties_of_links
from odradek.replication.mirror.made import MadeKind, changed_configs, mark_of, read_marks

#: The longest value in a response of DescribeConfigs before version 4.
LONGEST = 32_767
BOOTSTRAP = {"mirror.link.dr.bootstrap.servers": "source:9092"}


def changed(configs: dict[str, str], marks: set[str], kind: MadeKind = MadeKind.ACLS) -> dict[str, str]:
    changes = changed_configs(configs, "dr", kind, marks)
    kept = {key: value for key, value in configs.items() if key not in changes}
    return kept | {key: value for key, value in changes.items() if value is not None}


@pytest.mark.parametrize("count", [0, 1, 2_500, 2_501, 9_000])
def test_marks_are_read_as_they_were_written(count: int) -> None:
    marks = {mark_of([str(number)]) for number in range(count)}
    configs = changed(BOOTSTRAP, marks)
    assert len(marks) == count and read_marks(configs, "dr", MadeKind.ACLS) == marks
    assert all(len(value) <= LONGEST for value in configs.values()) and all(map(is_shown, configs))
    assert changed_configs(configs, "dr", MadeKind.ACLS, marks) == {}
    assert changed(configs, set()) == BOOTSTRAP
    fewer = {mark_of([str(number)]) for number in range(0, count, 7)}
    assert read_marks(changed(configs, fewer), "dr", MadeKind.ACLS) == fewer


def test_marks_of_kinds_and_links_are_apart_and_no_properties() -> None:
    marks = {mark_of(["a"])}
    configs = changed(changed(BOOTSTRAP, marks), {mark_of(["b"])}, MadeKind.QUOTAS)
    assert read_marks(configs, "dr", MadeKind.ACLS) == marks
    assert read_marks(configs, "dr2", MadeKind.ACLS) == frozenset()
    assert properties_of_links(configs) == properties_of_links(BOOTSTRAP)


def test_value_of_another_program_has_no_marks() -> None:
    assert read_marks({"mirror.link.dr.made.acls.0": "not marks"}, "dr", MadeKind.ACLS) == frozenset()


def test_things_of_other_fields_have_other_marks() -> None:
    assert len({mark_of(["a", "b"]), mark_of(["ab"]), mark_of(["a", "b", ""]), mark_of(["b", "a"])}) == 4
