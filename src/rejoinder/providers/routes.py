"""The route to a server: its address, the proxy between, and the environment's settings for both."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from msgspec import Struct

from rejoinder._version import __version__
from rejoinder.providers.base import ProviderError

CERTIFICATE_FILES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
CERTIFICATE_VARIABLES = (*CERTIFICATE_FILES, "SSL_CERT_DIR")


class Network(Struct, frozen=True):
    """Network settings from the environment."""

    proxies: Mapping[str, tuple[str, str]]
    """The variable that names a proxy and its value, by `http_proxy`, `https_proxy` and `all_proxy`."""
    no_proxy: tuple[str, ...]
    certificate_file: str | None
    certificate_folder: str | None


def read_network(environment: Mapping[str, str]) -> Network:
    """Read all variables that change the route to servers. Of two spellings, lower case wins."""
    variables = {
        name: (spelling, environment[spelling])
        for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
        if (spelling := name if name in environment else name.upper()) in environment
    }
    _, exempt = variables.pop("no_proxy", ("", ""))
    file = next((environment[name] for name in CERTIFICATE_FILES if environment.get(name)), None)
    folder = environment.get("SSL_CERT_DIR") or None
    if file and Path(file).is_dir():
        file, folder = None, file
    entries = tuple(entry for one in exempt.split(",") if (entry := one.strip()))
    return Network({name: found for name, found in variables.items() if found[1]}, entries, file, folder)


class Proxy(Struct, frozen=True):
    host: str
    port: int
    tls: bool
    headers: tuple[tuple[str, str], ...]


class Place(Struct, frozen=True):
    """The end point of a connection."""

    host: str
    port: int
    tls: bool
    proxy: Proxy | None = None

    def __str__(self) -> str:
        return authority(self.host, self.port)


class Route(Struct, frozen=True):
    place: Place
    path: str
    headers: dict[str, str]


def find_route(url: str, network: Network) -> Route:
    try:
        parts = urlsplit(url)
        port = parts.port
        host = (parts.hostname or "").encode("idna").decode() if parts.hostname else ""
    except (ValueError, UnicodeError):
        parts, port, host = SplitResult("", "", "", "", ""), None, ""
    tls = parts.scheme == "https"
    if parts.scheme not in ("http", "https") or not host:
        shown = f"...@{url.rpartition('@')[2]}" if "@" in url else url  # before it may stand a password
        message = f"`{shown}` is not an address; it has to begin with http:// or https:// and name a host"
        raise ProviderError(message, type="address", ends_target=True)
    port = port or (443 if tls else 80)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    shown = authority(host, None if port == (443 if tls else 80) else port)
    headers = {"host": shown, "user-agent": f"rejoinder/{__version__}", "accept": "application/json"}
    if parts.username is not None:
        headers["authorization"] = _basic(parts)
    proxy = _proxy(parts.scheme, host, port, network)
    if proxy is not None and not tls:  # a proxy is asked for the whole address; with TLS it only passes bytes on
        path = f"http://{shown}{path}"
        headers |= dict(proxy.headers)
    return Route(Place(host, port, tls, proxy), _quoted(path), headers)


def authority(host: str, port: int | None) -> str:
    """Host and port in the form of an address."""
    shown = f"[{host}]" if ":" in host else host
    return shown if port is None else f"{shown}:{port}"


def _quoted(path: str) -> str:
    """The path as it is sent in a request line."""
    return "".join(c if "!" <= c <= "~" else "".join(f"%{byte:02X}" for byte in c.encode()) for c in path)


def _basic(parts: SplitResult) -> str:
    pair = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    return f"Basic {b64encode(pair.encode()).decode()}"


def _proxy(scheme: str, host: str, port: int, network: Network) -> Proxy | None:
    """The proxy for an address, from the environment."""
    variable, address = network.proxies.get(f"{scheme}_proxy") or network.proxies.get("all_proxy") or ("", "")
    if not address or any(_is_exempt(host, port, entry) for entry in network.no_proxy):
        return None
    try:
        parts = urlsplit(address if "://" in address else f"http://{address}")
        tls, proxy_host, proxy_port = parts.scheme == "https", parts.hostname, parts.port
    except ValueError:
        parts, tls, proxy_host, proxy_port = SplitResult("", "", "", "", ""), False, None, None
    if parts.scheme.startswith("socks"):
        message = f"{variable} names a SOCKS proxy, which is not supported; name an HTTP proxy there"
        raise ProviderError(f"{message}, or list the host in NO_PROXY", type="proxy", ends_target=True)
    if parts.scheme not in ("http", "https") or not proxy_host:
        message = f"{variable} names a proxy that cannot be used; its address has to be http://HOST:PORT"
        raise ProviderError(message, type="proxy", ends_target=True)
    headers = (("proxy-authorization", _basic(parts)),) if parts.username is not None else ()
    return Proxy(proxy_host, proxy_port or (443 if tls else 80), tls, headers)


def _is_exempt(host: str, port: int, entry: str) -> bool:
    """Whether an entry of NO_PROXY matches the address. An entry is a host, a domain, an IP address, a network, or `*`
    for all."""
    name, _, only_port = entry.lower().partition(":") if entry.count(":") == 1 else (entry.lower(), "", "")
    name = name.removeprefix("*").lstrip(".").replace("[", "").replace("]", "") or name
    if not name or (only_port and only_port != str(port)):
        return False
    return name == "*" or host.lower() == name or host.lower().endswith(f".{name}") or _is_within(host, name)


def _is_within(host: str, network: str) -> bool:
    """Whether the host is an IP address of the network. A network without a mask is one address."""
    from ipaddress import ip_address, ip_network

    try:
        return ip_address(host) in ip_network(network, strict=False)
    except ValueError:
        return False
