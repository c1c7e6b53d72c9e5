"""Authorization: rules, sessions of clients, and the authorizer that the configuration names."""
