"""The making of a node's parts. Each function here hands one part its dependencies; no part depends on the node."""
