"""A broker that is killed at any point: acknowledged records are not delivered again, and no record is lost."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.odradek_process import OdradekProcess
from compat_tests.recipes import eventually, make_topic
from tests.server.harness.share_broker import share_broker
from tests.server.harness.share_groups import configure, lag, produce
from tests.server.harness.share_member import ACCEPT, REJECT, RELEASE, Member

pytestmark = pytest.mark.usefixtures("processes")

GROUP = "crash"
ROUNDS = 3
RECORDS = 25
#: The delivery limit is larger than the number of releases of any record here.
SETTINGS = {
    "group.share.delivery.count.limit": "10",
    # A low value, so that snapshots are written too.
    "share.coordinator.snapshot.update.records.per.snapshot": "5",
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[OdradekProcess]:
    with share_broker(tmp_path, SETTINGS) as process:
        yield process


class Onlooker:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        #: Offsets whose acceptance or rejection the broker has confirmed.
        self.confirmed: set[int] = set()
        #: Offsets whose acceptance or rejection a member has sent, confirmed or not.
        self.given_up: set[int] = set()

    def work(self, member: Member, *, only_accepts: bool = False) -> int:
        """Fetches, and acknowledges all acquired records. Returns their number."""
        taken = member.take(max_records=self.rng.choice((5, 10)), wait_ms=50)
        count = 0
        for first, last, deliveries in taken:
            offsets = range(first, last + 1)
            assert self.confirmed.isdisjoint(offsets), "what is done with is delivered again"
            assert deliveries <= 10
            count += len(offsets)
            kind = ACCEPT if only_accepts else self.rng.choice((ACCEPT, ACCEPT, RELEASE, REJECT))
            if kind != RELEASE:
                self.given_up.update(offsets)
            response = member.acknowledge((first, last, kind))
            if response.error_code == 0 and kind != RELEASE:
                self.confirmed.update(offsets)
        return count

    def say_and_do_not_listen(self, member: Member) -> None:
        """Sends acknowledgements and reads no response. The broker is killed before or after it handles them."""
        for first, last, _ in member.take(max_records=5, wait_ms=50):
            self.given_up.update(range(first, last + 1))
            member.send_acknowledgement((first, last, ACCEPT))


@pytest.mark.parametrize("seed", range(1))
def test_acknowledgements_survive_kills_and_no_record_is_lost(seed: int, broker: OdradekProcess) -> None:
    onlooker = Onlooker(random.Random(seed))
    topic_id = make_topic(broker.bootstrap, GROUP)
    configure(broker.bootstrap, GROUP)
    for _ in range(ROUNDS):
        produce(broker.bootstrap, GROUP, RECORDS)
        members = [Member(broker.bootstrap, GROUP, GROUP, [(topic_id, 0)]) for _ in range(2)]
        for _ in range(onlooker.rng.randrange(1, 6)):
            onlooker.work(onlooker.rng.choice(members))
        onlooker.say_and_do_not_listen(members[0])
        broker.kill()
        for member in members:
            member.close()
        broker.start()
    last = Member(broker.bootstrap, GROUP, GROUP, [(topic_id, 0)])
    eventually(lambda: not onlooker.work(last, only_accepts=True) and lag(broker.bootstrap, GROUP) == 0, what="the end")
    last.close()
    assert onlooker.given_up == set(range(ROUNDS * RECORDS)), "each record was somebody's to decide on"
