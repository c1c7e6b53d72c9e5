"""`odradek txn`: transactions, and those that hang."""
