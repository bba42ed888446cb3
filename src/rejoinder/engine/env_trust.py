"""What a `.env` file may decide: no address, proxy or certificate of it gets a key that comes from elsewhere.

A cloned repository can bring a `.env` with OPENAI_BASE_URL, and the key of the user's own environment would go there.
So such a target is refused before anything is sent, unless the address is on this machine or the user allows it: by
--trust-env, by REJOINDER_TRUST_ENV=1, or by `rejoinder trust`, which remembers the file as it is. Programs that are
handed keys (agents, commands, MCP servers) read the same variables, and are refused before they are started.
"""

from __future__ import annotations

import re
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
from rejoinder.model.suite import COMMANDS_OF_TARGETS
from rejoinder.model.tools import McpTools
from rejoinder.project.dotenv import Environment
from rejoinder.project.environment import is_secret, own_environment
from rejoinder.project.folders import user_folder
from rejoinder.project.user_files import user_folder_held
from rejoinder.providers.base import Handed, Provider
from rejoinder.providers.http_api import ApiProvider
from rejoinder.providers.routes import CERTIFICATE_VARIABLES
from rejoinder.providers.settings import normalize_keys
from rejoinder.providers.vendors import address_variables
from rejoinder.run_files import replace_file
from rejoinder.suite.templates import environment_names, expand_environment
from rejoinder.words.numbers import listed, plural

VARIABLE = "REJOINDER_TRUST_ENV"
_ADDRESSES = ("base_url", "endpoint", "url")
_CERTIFICATE = re.compile(
    r"(.*_)?(SSL_CERT_(FILE|DIR)|CA_(BUNDLE|CERTS?|CERTIFICATE|FILE|PATH)(_FILE)?)|NODE_TLS_REJECT_UNAUTHORIZED"
    r"|NODE_USE_SYSTEM_CA|(PIP|DENO)_CERT",
    re.IGNORECASE,
)
"""Variables by which programs are told whom to trust."""
_ANY_ADDRESS = re.compile(
    r"(?!OTEL_).*_(BASE_UR[LI]|API_BASE|API_UR[LI]|API_HOST|ENDPOINT|RESOURCE|RESOURCE_NAME)", re.IGNORECASE
)
"""Variables by which a program of which nothing is known may be told where to send its keys."""
_PLACES = ("env", "args", "command", "command_template", "config", "mcp_servers")
"""Settings of programs that can hold an address."""
_SHORTEST = 8
"""Characters of a key that is told by its value alone: shorter ones stand in texts by chance."""


def refuse_foreign_address(
    target: Target, ready: Target, provider: Provider, environment: Environment, secrets: Iterable[str]
) -> None:
    """Raises UsageError where a `.env` file says where a key from elsewhere is sent. `ready`: the target with its
    variables filled in; `secrets`: all values in use that are to be hidden."""
    assert isinstance(provider, ApiProvider)
    names = _address_names(target, ready, provider.address, environment)
    deciding = list(_deciding(names, provider.address, environment))
    sent = list(_texts(ready.settings)) + [str(value) for value in provider.headers.values()]
    if ready.settings.get("auth") or _has_foreign_key(sent, environment, secrets):
        _refuse(f"target `{target.name}` would send a key to {_host(provider.address)}", deciding, environment)


def refuse_foreign_program(
    who: str,
    settings: tuple[Mapping[str, Any], Mapping[str, Any]],
    handed: Handed,
    environment: Environment,
    secrets: Iterable[str],
) -> None:
    """The same for a program that is handed keys. `settings`: as they are written, and with their variables filled
    in."""
    written, ready = settings
    sent = [*handed.keys, *_texts(ready)]
    has_key = _has_foreign_key(sent, environment, secrets)
    if not has_key and not handed.has_login:
        return
    names = {*_given_addresses(ready, handed, environment), *_addresses_in(written, ready, environment)}
    _refuse(f"{who} would use {'a key' if has_key else 'the login of your home'}", sorted(names), environment)


def refuse_foreign_commands(target: Target, ready: Target, environment: Environment, secrets: Iterable[str]) -> None:
    """The same for the commands of a target: its service, and the source of its token."""
    for name in COMMANDS_OF_TARGETS:
        written, filled = target.settings.get(name), ready.settings.get(name)
        if isinstance(written, Mapping) and isinstance(filled, Mapping):
            what = f"the command `{name}` of target `{target.name}`"
            refuse_foreign_program(what, (written, filled), Handed(), environment, secrets)


def _has_foreign_key(sent: list[str], environment: Environment, secrets: Iterable[str]) -> bool:
    """May a text that is sent hold a key that comes from no `.env` file? A suite may have filled in a variable
    already; then its value stands there."""
    outside = ((name, value) for name, value in environment.items() if name not in environment.files)
    own = (value for name, value in outside if len(value) >= _SHORTEST and is_secret(name, value))
    keys = [key for key in {*secrets, *own} if key and any(key in text for text in sent)]
    values = {environment[name] for name in environment.files}
    return any(key not in values and key.rpartition(" ")[2] not in values for key in keys)  # `Bearer KEY`


def _refuse(what: str, names: Iterable[str], environment: Environment) -> None:
    """`what` would happen. `names`: the variables of `.env` files that decide where a key goes."""
    files = {environment.files[name] for name in names}
    if own_environment().get(VARIABLE) == "1" or all(is_trusted(file) for file in files):
        return
    told = sorted(names)
    verb = plural(len(told), "sets", "set")
    where = listed(sorted(map(str, files)))
    raise UsageError(
        f"{what}: {listed(told)} in {where} {verb} where it goes, and the key does not come from that file",
        "If you know the file, allow it with `rejoinder trust`, or once with --trust-env. If you do not, the key would"
        " go to the author of the file.",
    )


def _given_addresses(ready: Mapping[str, Any], handed: Handed, environment: Environment) -> Iterator[str]:
    """The variables of `.env` files that a program gets and that can tell it an address, a proxy or a certificate."""
    own = ready.get("env") or {}
    begins = "|".join(handed.vendors)
    tells = rf"({begins})_(.*_)?(UR[LI]|BASE|HOST|ENDPOINT|RESOURCE|RESOURCE_NAME|SOCKET)" if begins else _ANY_ADDRESS
    for name in environment.files:
        if name in own or not environment[name]:
            continue
        is_proxy = name.lower().endswith("_proxy") and name.lower() != "no_proxy"
        is_address = is_proxy or re.fullmatch(tells, name, re.IGNORECASE if begins else 0)
        if _CERTIFICATE.fullmatch(name) or (is_address and not _is_on_this_machine(environment[name])):
            yield name


def _addresses_in(written: Mapping[str, Any], ready: Mapping[str, Any], environment: Environment) -> Iterator[str]:
    """The variables of `.env` files that fill in an address among the settings of a program."""
    filled = [text for name in _PLACES for text in _texts(ready.get(name))]
    for name in environment.files:
        value = environment[name]
        if "://" in value and not _is_on_this_machine(value) and any(value in text for text in filled):
            yield name
    for text in (text for name in _PLACES for text in _texts(written.get(name)) if "://" in text):
        address = expand_environment(text, environment).partition("://")[2]
        if not _is_on_this_machine(address):
            yield from (name for name in environment_names(text) if name in environment.files)


def refuse_foreign_server(written: McpTools, ready: McpTools, environment: Environment, secrets: Iterable[str]) -> None:
    """The same for the address of an MCP server, whose keys stand in its headers."""
    names = environment_names(written.url) or _names_of_host(ready.url, environment)
    deciding = list(_deciding(names, ready.url, environment))
    if _has_foreign_key([ready.url, *ready.headers.values()], environment, secrets):
        _refuse(f"MCP server `{ready.name}` would send a key to {_host(ready.url)}", deciding, environment)


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
    """No by default: programs read odd addresses in other ways than we do. For many a backslash ends the host."""
    host = _host(address)
    if "\\" in address or not re.fullmatch(r"[a-z0-9.:-]+", host):
        return False
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
    endings = ("_url", "_uri", "_base", "_host", "_endpoint", "_proxy", "_resource", "_resource_name", "_socket")
    return sorted(name for name in names if _CERTIFICATE.fullmatch(name) or name.lower().endswith(endings))


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
