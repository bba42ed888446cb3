"""What a `.env` file may decide: no address, proxy or certificate of it gets a key that comes from elsewhere.

A cloned repository can bring a `.env` with OPENAI_BASE_URL, and the key of the user's own environment would go there.
So such a target is refused before anything is sent, unless the address is on this machine or the user allows it: by
--trust-env, by REJOINDER_TRUST_ENV=1, or by `rejoinder trust`, which remembers the file as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from rejoinder.errors import UsageError, reason_of
from rejoinder.model import Target
from rejoinder.model.tools import McpTools
from rejoinder.project import Environment, own_environment, user_folder, user_folder_held
from rejoinder.providers import Provider
from rejoinder.providers.http_api import ApiProvider
from rejoinder.providers.routes import CERTIFICATE_VARIABLES
from rejoinder.providers.settings import normalize_keys
from rejoinder.providers.vendors import address_variables
from rejoinder.run_files import replace_file
from rejoinder.spelling import list_words
from rejoinder.suite import environment_names

VARIABLE = "REJOINDER_TRUST_ENV"
_ADDRESSES = ("base_url", "endpoint", "url")


def refuse_foreign_address(
    target: Target, ready: Target, provider: Provider, environment: Environment, secrets: Iterable[str]
) -> None:
    """Raises UsageError where a `.env` file says where a key from elsewhere is sent. `ready`: the target with its
    variables filled in; `secrets`: all values in use that are to be hidden."""
    assert isinstance(provider, ApiProvider)
    names = _address_names(target, ready, provider.address, environment)
    deciding = list(_deciding(names, provider.address, environment))
    sent = list(_texts(ready.settings)) + [str(value) for value in provider.headers.values()]
    _refuse((f"target `{target.name}`", provider.address), deciding, sent, environment, secrets)


def _refuse(
    what: tuple[str, str], names: list[str], sent: list[str], environment: Environment, secrets: Iterable[str]
) -> None:
    """`what`: who would send a key, and where. `names`: what decides that; `sent`: what may hold a key."""
    if not names or own_environment().get(VARIABLE) == "1":
        return
    keys = [secret for secret in secrets if any(secret in text for text in sent)]
    values = {environment[name] for name in environment.files}
    foreign = [key for key in keys if key not in values and key.rpartition(" ")[2] not in values]  # `Bearer KEY`
    files = {environment.files[name] for name in names}
    if not foreign or all(is_trusted(file) for file in files):
        return
    raise UsageError(
        f"{what[0]} would send a key to {_host(what[1])}: {list_words(sorted(names))} in"
        f" {list_words(sorted(map(str, files)))} sets where it goes, and the key does not come from that file",
        "If you know the file, allow it with `rejoinder trust`, or once with --trust-env. If you do not, the key would"
        " go to the author of the file.",
    )


def refuse_foreign_server(written: McpTools, ready: McpTools, environment: Environment, secrets: Iterable[str]) -> None:
    """The same for the address of an MCP server, whose keys stand in its headers."""
    names = environment_names(written.url) or _names_of_host(ready.url, environment)
    deciding = list(_deciding(names, ready.url, environment))
    what = f"MCP server `{ready.name}`", ready.url
    _refuse(what, deciding, [ready.url, *ready.headers.values()], environment, secrets)


def _deciding(names: Iterable[str], address: str, environment: Environment) -> Iterator[str]:
    """The variables of a `.env` file that decide where requests go. `names`: those that the address is made of."""
    if not _is_on_this_machine(address):
        yield from (name for name in names if name in environment.files)
    scheme = urlsplit(address).scheme.lower()
    for name in environment.files:
        is_proxy = name.lower() in (f"{scheme}_proxy", "all_proxy") and not _is_on_this_machine(environment[name])
        if environment[name] and (is_proxy or (scheme == "https" and name in CERTIFICATE_VARIABLES)):
            yield name


def _address_names(target: Target, ready: Target, address: str, environment: Environment) -> Iterable[str]:
    settings, filled = normalize_keys(target.settings), normalize_keys(ready.settings)
    written = next((key for key in _ADDRESSES if str(filled.get(key) or "").strip()), None)
    if written is None:
        return [name for name in address_variables(target.provider) if environment.get(name, "").strip()][:1]
    if names := environment_names(str(settings.get(written))):
        return names
    return _names_of_host(address, environment)


def _names_of_host(address: str, environment: Environment) -> list[str]:
    """A suite may have filled in a variable already; then its value stands in the address."""
    return [name for name in environment.files if _is_host_of(environment[name], address)]


def _is_host_of(value: str, address: str) -> bool:
    return _host(value) != "" and _host(value) == _host(address)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _texts(one)


def _host(address: str) -> str:
    with suppress(ValueError):
        return urlsplit(address if "://" in address else f"//{address}").hostname or ""
    return ""


def _is_on_this_machine(address: str) -> bool:
    host = _host(address)
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return host == "localhost" or host.endswith(".localhost")


# Files that the user trusts, by path and content.


def trusted_files() -> dict[str, str]:
    """The digest of each file that `rejoinder trust` was given, by its path."""
    with suppress(OSError, msgspec.MsgspecError, UsageError):
        return msgspec.json.decode(_place().read_bytes(), type=dict[str, str])
    return {}


def is_trusted(file: Path) -> bool:
    return trusted_files().get(str(file.resolve())) == _digest(file)


def trust_files(files: Iterable[Path]) -> None:
    with user_folder_held():
        _write({**trusted_files(), **{str(file.resolve()): _digest(file) for file in files}})


def forget_files(files: Iterable[Path]) -> None:
    gone = {str(file.resolve()) for file in files}
    with user_folder_held():
        _write({path: digest for path, digest in trusted_files().items() if path not in gone})


def deciding_variables(names: Iterable[str]) -> list[str]:
    """Those of a file's variables that can say where keys are sent."""
    endings = ("_url", "_host", "_endpoint", "_proxy", "_resource_name")
    return sorted(name for name in names if name in CERTIFICATE_VARIABLES or name.lower().endswith(endings))


def _digest(file: Path) -> str:
    try:
        return sha256(file.read_bytes()).hexdigest()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {reason_of(error)}") from None


def _place() -> Path:
    place = user_folder()
    if place is None:
        raise UsageError("there is no home folder to remember trusted files in", f"Set {VARIABLE}=1 instead.")
    return place / "trusted.json"


def _write(files: dict[str, str]) -> None:
    place = _place()
    try:
        with replace_file(place) as stream:
            stream.write(msgspec.json.format(msgspec.json.encode(files), indent=2) + b"\n")
    except OSError as error:
        raise UsageError(f"{place} cannot be written: {reason_of(error)}") from None
