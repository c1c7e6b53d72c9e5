"""Security made on the fly, for tests and for clusters on one machine: certificates, users, and the settings of clients."""
