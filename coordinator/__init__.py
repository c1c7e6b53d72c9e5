"""Pure machines that decide about groups, offsets and transactions. They do not know the disk or the clock."""
