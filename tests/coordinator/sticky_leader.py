"""The assignor of a classic group's leader: balanced, and sticky as far as the balance permits.

Like Kafka's cooperative-sticky assignor, it does not assign a partition that another member still reports (KIP-429).
The owner revokes it after this assignment, and joins again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set

#: Topic and partition.
Named = tuple[str, int]


def assign(claims: Mapping[str, Set[Named]], partitions: Collection[Named]) -> dict[str, set[Named]]:
    """Returns the assignment for equal subscriptions. `claims`: member id -> reported partitions."""
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
