"""The controller quorum: KRaft's variant of Raft, as a pure state machine (KIP-595, KIP-630, KIP-853, KIP-996).

`server/controller/raft.py` drives it; a single voter does not need it. Its tests are transcripts and a seeded simulation
(`tests/replication/quorum/`).

`replica.py` is the interface: `handle(message, now_ms)`, `deadline()`, `expire(now_ms)`, `take()`. `log.py` defines
inputs and outputs, what must be on disk before which output, and the log as the state machine sees it.
`roles.py` defines the roles and their transitions; `core.py` (elections), `leading.py`, `following.py` and
`voter_changes.py` implement them; `voters.py` counts votes.
"""
