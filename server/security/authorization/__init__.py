"""Authorization: the rights of clients, and their audit log."""
