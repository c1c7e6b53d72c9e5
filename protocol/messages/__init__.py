"""One file per API: request and response side by side, each a table for all versions."""
