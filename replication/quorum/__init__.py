"""The quorum of controllers: KRaft's form of Raft, as a pure machine (KIP-595, KIP-630, KIP-853, KIP-996).

`server/quorum_raft.py` drives it; a voter that is alone needs none of it. Its tests are transcripts, and a simulation under
seeds (`tests/replication/quorum/`).

`replica.py` is the face: `handle(message, now)`, `deadline()`, `expire(now)`, `take()`. `effects.py` says what goes in and
out, and what must be on the disk before what goes out; `log.py` what the machine sees of the log. `roles.py` is the state
machine; `elections.py`, `leading.py`, `following.py` and `voter_changes.py` are what its roles do; `voters.py` counts votes.
"""
