"""Pure state machines for groups, offsets and transactions. They use no disk and no clock."""
