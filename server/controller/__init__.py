"""The metadata log, its Raft driver, registration, sessions of brokers, and publishing of images."""
