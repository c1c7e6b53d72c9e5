"""The metadata quorum: Raft, the metadata log, snapshots, formatting."""
