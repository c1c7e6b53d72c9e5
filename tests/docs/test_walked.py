"""The table of the architecture page holds for a real broker: no request touches more calls, files or classes."""

from __future__ import annotations

import pytest

from tests import walked

#: A start and a stop run beside timers and threads of the node, which on a busy machine run more often: 17 % more calls
#: were seen. Files and classes tell about the code.
NODE_CALLS_TOLERANCE = 0.3
NODE_FILES_TOLERANCE = NODE_CLASSES_TOLERANCE = 4


@pytest.fixture(scope="module")
def found(sockets: None) -> dict[str, walked.Walk]:
    return walked.walks()


def test_the_table_has_a_row_for_each_path(found: dict[str, walked.Walk]) -> None:
    assert list(walked.written_rows()) == list(found), "run: python -m tests.walked --write"


@pytest.mark.parametrize("name", walked.written_rows())
def test_a_path_touches_at_most_what_the_table_says(found: dict[str, walked.Walk], name: str) -> None:
    limit, walk = walked.written_rows()[name], found[name]
    if name.endswith("of a node"):
        limit = walked.Row(
            round(limit.calls * (1 + NODE_CALLS_TOLERANCE)),
            limit.files + NODE_FILES_TOLERANCE,
            limit.classes + NODE_CLASSES_TOLERANCE,
        )
    assert walk.calls <= limit.calls, walk
    assert len(walk.files) <= limit.files, walk.files
    assert len(walk.classes) <= limit.classes, walk.classes
