"""`odradek acl`, `user`, `quota` and `token`: access, logins and limits of clients."""
