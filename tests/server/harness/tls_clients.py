"""TLS contexts of clients."""

from __future__ import annotations

import ssl
from pathlib import Path

from tests.server.harness.certificates import Authority, Identity


def client_context(
    authority: Authority, identity: Identity | None = None, directory: Path | None = None
) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=authority.pem_text)
    if identity is not None:
        assert directory is not None
        context.load_cert_chain(identity.pem(directory / "client.pem"))
    return context
