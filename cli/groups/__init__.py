"""`odradek group`: members, offsets and lag of groups."""
