"""Where a server is and how it is reached: `mysql://user:password@host:port/database?ssl_mode=…`.

Options of the address:

- `ssl_mode`: `disabled` (the default), `required` (encrypted, the certificate is not looked at), `verify_ca` (signed by
  `ssl_ca` or by an authority the system knows; the default where `ssl_ca` is given) or `verify_identity` (and made for
  this host);
- `ssl_ca`, `ssl_cert`, `ssl_key`: files in PEM format;
- `unix_socket`: a socket file instead of host and port.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from perdure.core.errors import InvalidUrlError, StorageUnavailableError

_OPTIONS = ("ssl_mode", "ssl_ca", "ssl_cert", "ssl_key", "unix_socket")
_SSL_MODES = ("disabled", "required", "verify_ca", "verify_identity")
_PORT = 3306


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A server's address, read; showing it never shows the password."""

    host: str
    port: int
    user: str  # "" is the one who runs this process
    password: str = field(repr=False)
    database: str
    options: dict[str, str]

    @property
    def place(self) -> str:
        """The address for people, without user and password."""
        where = self.options.get("unix_socket") or f"{_bracketed(self.host)}:{self.port}"
        return f"mysql://{where}/{self.database}"

    def ssl_context(self) -> ssl.SSLContext | None:
        """What encrypts the connection; None when nothing does. Files are read each time: they may be renewed."""
        mode = self.options.get("ssl_mode", "verify_ca" if "ssl_ca" in self.options else "disabled")
        if mode == "disabled":
            return None
        try:
            return self._context(mode)
        except OSError as exc:
            raise StorageUnavailableError(self.place, f"its certificates cannot be read ({exc})") from exc

    def _context(self, mode: str) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.options.get("ssl_ca"))
        context.check_hostname = mode == "verify_identity"
        context.verify_mode = ssl.CERT_NONE if mode == "required" else ssl.CERT_REQUIRED
        # The certificates that servers make for themselves do not pass the strict checks of newer Pythons.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if "ssl_cert" in self.options:
            context.load_cert_chain(self.options["ssl_cert"], self.options.get("ssl_key"))
        return context


def read_address(url: str) -> Address:
    """Read an address; raise `InvalidUrlError`, which never shows the password."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InvalidUrlError(url, "its host or port cannot be read") from None
    database = unquote(parts.path.removeprefix("/"))
    if not database or "/" in database:
        raise InvalidUrlError(url, "it names no database (mysql://user:password@host:port/database)")
    return Address(
        host=parts.hostname or "localhost",
        port=port or _PORT,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        database=database,
        options=_options(url, parts),
    )


def _options(url: str, parts: SplitResult) -> dict[str, str]:
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name in options:
        if name not in _OPTIONS:
            # It is not repeated: it may be a part of a password that was not encoded.
            raise InvalidUrlError(url, f"it has an unknown option, known are {', '.join(_OPTIONS)}")
    mode = options.get("ssl_mode", "disabled")
    if mode not in _SSL_MODES:
        raise InvalidUrlError(url, f"its ssl_mode is none of {', '.join(_SSL_MODES)}")
    return options


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
