"""Words on a command line -> a running broker."""
