"""Finds the secrets of targets, which must not be shown: in keys, settings, headers, addresses and the environment."""

from __future__ import annotations

import contextlib
import re
from binascii import a2b_base64, b2a_base64
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any
from urllib.parse import unquote, unquote_plus, urlsplit

import msgspec

from rejoinder.model.secret_forms import SECRET_WORDS
from rejoinder.project.environment import is_secret

# Compiled when they are used: most runs of a suite that is being written send nothing.
_SECRET_HEADER = r"(?i)key|token|secret|auth|cookie|pass"
_PERHAPS_HEADER = r"(?i)session|cred|signature"
_BEFORE = r"(?:^|[_-]|(?<=[a-z])(?=[A-Z]))"
_SECRET_FIELD = rf"{_BEFORE}(?i:{SECRET_WORDS}|key|credentials|bearer)$"
_PERHAPS_FIELD = rf"{_BEFORE}(?i:auth|sig|signature|session|cookie)$"
"""Names that harmless settings have as well: a value counts as a secret if it has a digit and some length."""
_SECRET_PARAMETER = rf"{_SECRET_FIELD}|{_PERHAPS_FIELD}|^code$"
"""Query parameters of addresses that hold secrets, including login codes."""
_ADDRESS_VARIABLE = r"(?i)(?:_url|_host|_endpoint|_proxy)$"
_PLACEHOLDERS = frozenset(
    {
        *("any", "anything", "changeme", "default", "dummy", "empty", "example", "fake", "foobar", "key", "local"),
        *("localhost", "mock", "none", "null", "placeholder", "secret", "test", "testing", "token", "unused", "xxxx"),
        *("lmstudio", "lm-studio", "ollama", "vllm", "nokey", "no-key", "not-needed", "no-key-required"),
        *("sk-no-key-required", "abcd", "1234"),
    }
)
"""Placeholders that people write if a key is required but not needed. They are common words: hiding them would garble
replies, and restoring them would insert whatever key is set on another day."""
LONG_KEY = 16
"""Minimum length of a key from which a few characters of a digest can be shown without revealing it."""
SHORTEST_COOKIE = 8
"""Shorter cookies are settings such as `theme=dark`, and hiding them would garble texts."""
_ADDRESSES = frozenset({"base_url", "endpoint", "url"})


class SecretFinder:
    """Collects the secrets of targets and of their environment."""

    def __init__(self) -> None:
        self.secrets: dict[str, str] = {}
        """Values that must never be shown, with the name to show instead."""

    def add(self, value: str, name: str) -> None:
        if value.lower() not in _PLACEHOLDERS:
            self._add(value, name)

    def add_variables(self, variables: Mapping[str, str]) -> None:
        """Add secrets among environment variables."""
        for name, value in variables.items():
            if is_secret(name, value) and len(value) >= SHORTEST_COOKIE:
                self.add(value, f"env {name}")

    def add_settings(self, owner: str, settings: Mapping[str, Any]) -> None:
        """Add secrets that settings hold literally, not by the name of a variable. `owner`: the owner of the
        settings."""
        for name, value in settings.items():
            if name == "headers":
                for header, text in dict(value or {}).items():
                    if re.search(_SECRET_HEADER, header) or (
                        re.search(_PERHAPS_HEADER, header) and _has_digits(str(text))
                    ):
                        self._add_header(str(text), f"header {header} of {owner}")
            elif name == "env" and isinstance(value, dict):
                for variable, text in value.items():
                    if is_secret(str(variable), str(text)) and len(str(text)) >= SHORTEST_COOKIE:
                        self.add(str(text), f"{variable} of {owner}")
                self._add_field(name, value, f"{name} of {owner}")
            else:
                self._add_field(name, value, f"{name} of {owner}")

    def add_addresses(self, environment: Mapping[str, str]) -> None:
        """Add passwords and keys in addresses that environment variables hold."""
        for name, value in environment.items():
            if ("@" in value and ("://" in value or re.search(_ADDRESS_VARIABLE, name))) or (
                "?" in value and re.search(_ADDRESS_VARIABLE, name)
            ):
                self._add_address(value, name)

    def _add(self, value: str, name: str) -> None:
        if value and "{{" not in value:  # what is filled in is hidden where it comes from
            for text in dict.fromkeys((value, value.strip())):  # programs trim what they are given
                self.secrets.setdefault(text, _marked(text, name))

    def _add_field(self, name: str, value: Any, title: str) -> None:
        if name == "body" and isinstance(value, str):
            value = _read_body(value)
        if isinstance(value, dict):
            for inner, one in value.items():
                self._add_field(str(inner), one, title)
        elif isinstance(value, list):
            for one in value:
                self._add_field(name, one, title)
        elif isinstance(value, str):
            if re.search(_SECRET_FIELD, name) or (re.search(_PERHAPS_FIELD, name) and _has_digits(value)):
                self.add(value.strip(), title)
            elif name in _ADDRESSES or "//" in value:
                self._add_address(value, title)

    def _add_header(self, value: str, title: str) -> None:
        """Add a header's value and its parts: `Bearer TOKEN`, `Basic PAIR`, `session=ID; theme=dark`."""
        self.add(value, title)
        scheme, space, rest = value.partition(" ")
        if space and scheme.isalpha():
            self.add(rest.strip(), title)
        if scheme.lower() == "basic":
            with contextlib.suppress(ValueError):
                self.add(a2b_base64(rest).decode().partition(":")[2], title)
        for pair in value.split(";"):
            if len(cookie := pair.partition("=")[2].strip()) >= SHORTEST_COOKIE:
                self.add(cookie, title)

    def _add_address(self, text: str, name: str) -> None:
        """Add user and password, in written and in sent form, and keys in the query."""
        user, colon, password = _userinfo(text).partition(":")
        if user or colon:
            secret = password if colon else user
            self._add(secret, f"password in {name}")
            self._add(unquote(secret), f"password in {name}")
            sent = f"{unquote(user)}:{unquote(password)}".encode()
            self._add(b2a_base64(sent, newline=False).decode(), f"password in {name}")
        for pair in text.partition("?")[2].split("&"):
            field, _, value = pair.partition("=")
            if re.search(_SECRET_PARAMETER, field):
                self._add(value, f"{field} in {name}")
                self._add(unquote_plus(value), f"{field} in {name}")


def _userinfo(address: str) -> str:
    """The part of an address before the host. In an invalid address more of it may be a password."""
    place = (address.partition("//")[2] or address).split(maxsplit=1)[:1]
    try:
        parts = urlsplit(f"//{''.join(place)}")
        _ = parts.port
    except ValueError:
        return "".join(place).rpartition("@")[0]
    return parts.netloc.rpartition("@")[0]


def _has_digits(value: str) -> bool:
    return len(value) >= SHORTEST_COOKIE and any(map(str.isdigit, value))


def _read_body(text: str) -> Any:
    """A body written as text, as fields: it may be JSON, or a form."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        pairs = (pair.partition("=") for pair in text.split("&"))
        return {name.strip(): value for name, _, value in pairs}


def _marked(value: str, name: str) -> str:
    """The name that replaces a secret. A long secret gets a mark of its own, so that another value of that name, which
    may be set when the text is read again, never replaces it."""
    if len(value) < LONG_KEY:
        return name
    return f"{name} #{blake2b(value.encode('utf-8', 'surrogatepass'), digest_size=2).hexdigest()}"
