"""Every API in every version, each field at its edges: a response or a closed connection, and every node still serves.

ODRADEK_FIELDS_SEED chooses the edges, ODRADEK_FIELDS_EDGES the number per field, ODRADEK_FIELDS_PAIRS the number of pairs
with another field. A cluster gets each third case, or each ODRADEK_FIELDS_CLUSTER_STEP-th.
`python -m tests.hostile.fields` runs for hours.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from odradek.protocol import primitives as p
from odradek.protocol.apis import APIS
from odradek.protocol.codec import decode
from odradek.protocol.tree import construct_tree

from tests.hostile.attack_target import AttackTarget
from tests.hostile.fields import attack
from tests.hostile.fields_checks import put_voters_in_the_log
from tests.hostile.fields_edges import edges, places, value_at
from tests.hostile.fields_encoding import write
from tests.hostile.fields_world import World, apis_of, base_request, versions

SEED = int(os.environ.get("ODRADEK_FIELDS_SEED", "7"))
EDGES = int(os.environ.get("ODRADEK_FIELDS_EDGES", "1"))
PAIRS = float(os.environ.get("ODRADEK_FIELDS_PAIRS", "0"))
#: The steps, by the number of nodes.
STEPS = {1: 1, 3: int(os.environ.get("ODRADEK_FIELDS_CLUSTER_STEP", "3"))}
WORLD = World("cluster", (1, 2, 3), "fields", b"\2" * 16, 1, 1)


def test_base_requests_are_messages_of_every_api_and_version() -> None:
    for api in APIS.values():
        for version in versions(api):
            for lean in (False, True):
                request = base_request(api, version, WORLD, lean=lean)
                body = bytearray()
                write(construct_tree(api.request, version), request, body)
                assert decode(api.request, version, bytes(body))[1] == len(body)


def test_every_field_that_a_version_carries_has_edges() -> None:
    for listener in ("broker", "controller"):
        for api in apis_of(listener):
            for version in versions(api):
                base = base_request(api, version, WORLD)
                for place in places(construct_tree(api.request, version)):
                    found = edges(place.codec, value_at(base, place.path))
                    needs = isinstance(place.codec, p.Structure) and not place.codec.flexible
                    assert found or needs, f"{api.name} v{version} {place.path}"


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("nodes", STEPS)
def test_fields_at_their_edges_end_nothing(tmp_path: Path, nodes: int) -> None:
    with AttackTarget(tmp_path, nodes) as room:
        if nodes > 1:
            put_voters_in_the_log(room)
        result = attack(room, SEED, edges_of_each=EDGES, pairs=PAIRS, step=STEPS[nodes])
        assert not result.faults, "\n".join(result.faults)
        assert result.sent > 3_000 // STEPS[nodes]
