"""Access: authentication, authorization, TLS, quotas, and classes of a user's own."""
