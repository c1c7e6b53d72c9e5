"""Requests to brokers: connections, logins, the search for a node, and repetition.

Nodes send theirs to one another by it, and commands, the console and the test kit send those that no client library has.
Commands and the console share contexts, properties, and the errors that a user reads.
"""

#: The client software (KIP-511) of these connections. Brokers know nodes of their cluster by it.
SOFTWARE = "odradek"
