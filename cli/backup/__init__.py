"""`odradek backup` and `odradek restore`: topics, their configs and offsets of groups, in a folder or an object store."""
