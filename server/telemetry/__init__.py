"""Client metrics (KIP-714): which clients push which, and what was pushed."""
