"""Several processes on one machine as one cluster: `odradek cluster start`."""
