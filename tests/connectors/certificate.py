"""Throw-away certificates: trustme makes them without an openssl program on the machine."""

import ssl
from pathlib import Path

import trustme

from takeback.testing import Certificate


def make_certificate(directory: Path, *names: str) -> Certificate:
    """A server's certificate for ``names``, and the authority that signed it."""
    authority = trustme.CA()
    cafile = directory / "ca.pem"
    authority.cert_pem.write_to_path(str(cafile))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(*(names or ("127.0.0.1", "localhost"))).configure_cert(context)
    return Certificate(cafile=cafile, context=context)
