"""The making of a node's parts. Each function here hands one part what it needs; no part knows the node."""
