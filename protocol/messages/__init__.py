"""One file per noun: the requests and responses of its APIs, each a table for all versions."""
