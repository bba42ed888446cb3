"""TLS: trusted certificates, client certificates, and explanations of failed secure connections."""

from __future__ import annotations

import ssl
import sys
from pathlib import Path
from typing import Any

from msgspec import Struct

from rejoinder.errors import reason_of
from rejoinder.providers.base import ProviderError
from rejoinder.providers.routes import CERTIFICATE_VARIABLES, Network

BUFFER_SIZE = 16 * 1024
"""Buffer size per connection, also for TLS. asyncio uses 16 times as much: 128 MB for 500 connections."""
PERHAPS_CERTIFICATE = "if it requires a client certificate, name one as `client_cert` of the target"
"""Added to failures by which some servers also turn away a client without a certificate."""
_ABOUT_CLIENT_CERTIFICATE = {
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it requires a client certificate; name one as `client_cert` of the target",
    **dict.fromkeys(
        (
            *("TLSV1_ALERT_UNKNOWN_CA", "TLSV1_ALERT_ACCESS_DENIED", "TLSV1_ALERT_DECRYPT_ERROR"),
            *("SSLV3_ALERT_BAD_CERTIFICATE", "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE", "SSLV3_ALERT_CERTIFICATE_REVOKED"),
            *("SSLV3_ALERT_CERTIFICATE_EXPIRED", "SSLV3_ALERT_CERTIFICATE_UNKNOWN"),
        ),
        "it refuses the client certificate; look at `client_cert` of the target",
    ),
}
_BROKEN_HANDSHAKE = f"it broke off the handshake; {PERHAPS_CERTIFICATE}"
_NO_TLS = "it does not speak TLS; perhaps its address begins with http://"
_REASONS = {
    **_ABOUT_CLIENT_CERTIFICATE,
    # Up to TLS 1.2, a server that requires a client certificate sends this, too.
    "SSLV3_ALERT_HANDSHAKE_FAILURE": f"it refuses the handshake; {PERHAPS_CERTIFICATE}",
    "WRONG_VERSION_NUMBER": _NO_TLS,
    "RECORD_LAYER_FAILURE": _NO_TLS,
}
"""Plain words in place of OpenSSL's names for failures."""


class ClientCertificate(Struct, frozen=True):
    """The client's identity for servers: PEM files."""

    cert: str
    key: str | None = None
    """None: the certificate's file contains it."""
    password: str | None = None

    def check(self) -> None:
        """Check the files. Raises OSError if they cannot be used."""
        self.show(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))

    def show(self, context: ssl.SSLContext) -> None:
        """Present it to servers that request one."""
        context.load_cert_chain(self.cert, self.key, self.password or "")  # without one, OpenSSL asks at the terminal


def make_context(network: Network) -> ssl.SSLContext:
    """A context with the trusted certificates: those named by the environment, else the system's."""
    file, folder = network.certificate_file, network.certificate_folder
    if not file and not folder:
        return _system_context()
    try:
        return ssl.create_default_context(cafile=file, capath=folder)
    except (OSError, ssl.SSLError) as error:
        message = f"the certificates in {file or folder} cannot be read: {error}"
        hint = f"; look at {', '.join(CERTIFICATE_VARIABLES)}"
        raise ProviderError(message + hint, type="tls", ends_target=True) from None


def _system_context() -> ssl.SSLContext:
    """The system's trusted certificates. On Linux, the places that OpenSSL knows are read once. Elsewhere, or if these
    places are empty, truststore asks the system for each connection."""
    if sys.platform not in ("darwin", "win32"):
        context = ssl.create_default_context()
        folder = ssl.get_default_verify_paths().capath
        if context.cert_store_stats()["x509_ca"] or (folder and any(Path(folder).glob("*.0"))):
            return context
    import truststore

    return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def bound_buffers() -> None:
    """Make asyncio use small buffers. The attribute for their size is not documented, and may disappear."""
    from asyncio import sslproto

    protocol: Any = getattr(sslproto, "SSLProtocol", None)
    if isinstance(getattr(protocol, "max_size", None), int):
        protocol.max_size = min(protocol.max_size, BUFFER_SIZE)


def is_about_client_certificate(error: Exception | None) -> bool:
    return isinstance(error, ssl.SSLError) and error.reason in _ABOUT_CLIENT_CERTIFICATE


def explain(error: Exception, place: str) -> ProviderError:
    """The error of a failed connection, with a message that names the host."""
    if isinstance(error, ssl.SSLCertVerificationError):
        message = f"the certificate of {place} is not trusted: {error.verify_message}; SSL_CERT_FILE can name others"
        return ProviderError(message, type="tls")
    if isinstance(error, ssl.SSLError):
        reason = error.reason or str(error)
        return ProviderError(f"no secure connection to {place}: {_REASONS.get(reason, reason)}", type="tls")
    if isinstance(error, TimeoutError):
        return ProviderError(f"no connection to {place}: it does not answer", type="connection", retryable=True)
    # asyncio puts the address into the words of the error; its number says what happened. An error with neither is
    # its word for a handshake that the other side broke off.
    reason = reason_of(error) if isinstance(error, OSError) else str(error).lower()
    reason = reason or _BROKEN_HANDSHAKE
    return ProviderError(f"no connection to {place}: {reason}", type="connection", retryable=True)
