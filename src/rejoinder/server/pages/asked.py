"""What a request asks for: pieces of its path and its parameters, read strictly. Raises ApiError for anything else."""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

from starlette.requests import Request

from rejoinder.server.errors import ApiError
from rejoinder.server.row_store import Address, Query

LONGEST_NAME = 4_000
"""Bytes of a name in an address."""
MOST = 10**9


def pieces(request: Request) -> list[str]:
    """The path in its pieces, each decoded by itself: a name may have a slash in it."""
    raw = request.scope.get("raw_path") or request.scope["path"].encode()
    return [_decoded(piece) for piece in raw.split(b"?")[0].split(b"/")[1:]]


def _decoded(piece: bytes) -> str:
    if len(piece) > LONGEST_NAME:
        raise ApiError(404, "a name in the address is too long")
    try:
        return unquote_to_bytes(piece).decode()
    except UnicodeDecodeError:
        raise ApiError(404, "a name in the address is not UTF-8") from None


def address_in(names: list[str]) -> Address:
    """SUITE, CASE, TARGET, VARIANT and TRIAL."""
    if len(names) != 5:
        raise ApiError(404, "a conversation is named by suite, case, target, variant and trial")
    suite, case, target, variant, trial = names
    return Address(suite, case, target, None if variant == "-" else variant, _whole(trial, "the trial"))


def address_asked(request: Request) -> Address:
    get = request.query_params.get
    variant, trial = get("variant", ""), get("trial", "1")
    given = None if variant in ("", "-") else variant
    return Address(get("suite", ""), get("case", ""), get("target", ""), given, _whole(trial, "`trial`"))


def query_asked(request: Request, before: str = "") -> Query:
    """The filters of a list. `before`: what stands before their names, where an address is asked for as well."""
    return Query(*(request.query_params.get(f"{before}{name}", "") for name in Query.__struct_fields__))


LISTED = "list_"


def number_asked(request: Request, name: str, usual: int) -> int:
    return _whole(request.query_params.get(name, str(usual)), f"`{name}`")


def _whole(text: str, what: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ApiError(400, f"{what} is not a whole number")
    return int(text)
