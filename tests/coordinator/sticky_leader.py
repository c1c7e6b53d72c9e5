"""What the leader of a classic group assigns: evenly, and to everybody what it has, as far as that is even.

As Kafka's cooperative-sticky assignor, it gives nobody what another says that it still has (KIP-429): whoever has it
gives it back with this assignment, and joins once more.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set

#: Topic and partition.
Named = tuple[str, int]


def assign(claims: Mapping[str, Set[Named]], partitions: Collection[Named]) -> dict[str, set[Named]]:
    """`claims`: member id -> what it says that it has. All subscribe to the same topics, of which `partitions` are all."""
    claimants: dict[Named, list[str]] = {}
    for member_id, claimed in claims.items():
        for place in claimed:
            claimants.setdefault(place, []).append(member_id)
    most = -(-len(partitions) // len(claims))
    targets: dict[str, set[Named]] = {member_id: set() for member_id in claims}
    at_most = len(partitions) % len(claims) or len(claims)
    rest = []
    for place in sorted(partitions):
        owner = claimants.get(place, [""])[0]
        taken = len(targets.get(owner, ()))
        is_extra = taken == most - 1
        full = sum(len(target) == most for target in targets.values())
        if len(claimants.get(place, ())) == 1 and (taken < most - 1 or (is_extra and full < at_most)):
            targets[owner].add(place)
        else:
            rest.append(place)
    for place in rest:
        min(targets.values(), key=len).add(place)
    return {
        member_id: {place for place in target if set(claimants.get(place, ())) <= {member_id}}
        for member_id, target in targets.items()
    }
