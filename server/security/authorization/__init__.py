"""Authorization: who may do what, and the audit log of it."""
