"""Checks around the reads of a Fetch: the authorization of the client before them, the segments afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from odradek.protocol.errors import ErrorCode

from tests.server.harness.fetching import FOLLOWER, ONE, THIRD, Harness, ask, produced
from tests.server.harness.hosted import NOW_MS, TOPIC_ID
from tests.server.harness.scripted_authorization import ScriptedAuthorization
from tests.server.harness.virtual_time import simulated


@pytest.mark.parametrize(("replica", "is_follower"), [(-1, False), (FOLLOWER, True), (THIRD, True)])
def test_topics_that_the_client_may_not_read_are_answered_with_the_error_of_the_authorization(
    replica: int, is_follower: bool, tmp_path: Path
) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, 2, followers=(FOLLOWER, THIRD))
        harness.path.authorization = authorization = ScriptedAuthorization(TOPIC_ID)
        harness.hosted[0].append(produced(), NOW_MS)
        harness.fetch(ask(0), ask(1), replica=replica, min_bytes=1000)
        assert [one.error_code for one in harness.data()] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 2
        assert harness.sizes() == {0: 0, 1: 0}
        authorization.denies.clear()
        harness.fetch(ask(0), replica=replica, max_wait_ms=0)
        assert harness.data()[0].error_code == 0
        assert authorization.asked_as == [is_follower] * 2

    simulated(story)


@pytest.mark.parametrize("replica", [-1, FOLLOWER])
def test_segment_that_is_read_without_a_check_is_verified_afterwards(
    replica: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A segment of an earlier start of the broker is read before the scrubber has verified it."""

    async def story() -> None:
        harness = Harness(tmp_path, 2, followers=(FOLLOWER,) if replica >= 0 else ())
        for hosted in harness.hosted:
            hosted.append(produced(), NOW_MS)
        read = type(harness.hosted[1].log).read

        def read_unverified(log: Any, *asked: Any) -> Any:
            found = read(log, *asked)
            if log is harness.hosted[1].log:
                found.is_unverified = True
            return found

        monkeypatch.setattr(type(harness.hosted[1].log), "read", read_unverified)
        harness.fetch(ask(0), ask(1), replica=replica)
        assert harness.sizes() == {0: ONE, 1: ONE}
        assert harness.scrubber.calls == [("verify", 1, 0)]

    simulated(story)
