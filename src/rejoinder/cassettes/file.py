"""Cassettes: the requests and answers of one conversation, in a small file that people can read and review.

A recording answers requests with the same words, whatever rejoinder's version is: it stores no keys, only the target
and the request. Of a later turn only the new messages are written; the others are above it in the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from math import ceil
from pathlib import Path, PurePath
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct, structs

from rejoinder.errors import CassetteError, reason_of
from rejoinder.model import ChatMessage, Failure, Reply, file_in_project
from rejoinder.run_files import replace_file
from rejoinder.yaml_text import to_yaml

FORMAT = 1
LONGEST_NAME = 60
"""Bytes of a name in a file name; a file system allows 255 for the whole."""
AT_ONCE_S = 0.0001
"""No model and no server is as fast as this."""
Kind: TypeAlias = Literal["candidate", "judge", "other", "embedding", "work", "user", "tool"]
Change: TypeAlias = Callable[[str], str]
"""Replaces secrets with their names, or the names with the secrets."""


class Recording(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A request to a target, and its result."""

    asked: Kind
    of: str
    model: str = ""
    """The requested model. If either side does not name one, any model matches."""
    turn: int
    whole: bool = False
    """Whether all messages of a later turn are here, because they do not continue the previous one."""
    messages: tuple[ChatMessage, ...] = ()
    """In a file: the messages since the target was last asked."""
    text: str = ""
    """The text that was embedded, or the sent request."""
    output_schema: str = ""
    """The digest of the JSON Schema that the reply had to satisfy."""
    reply: Reply | None = None
    failure: Failure | None = None
    attempts: int = 1

    def describe(self) -> str:
        return f"turn {self.turn} of `{self.of}`" + ("" if self.asked == "candidate" else f" ({self.asked})")

    def answers(self, wanted: Recording) -> bool:
        """Whether this answers the wanted request."""
        # A variable that was not filled in says nothing.
        models = {"" if "${{" in model else model for model in (self.model, wanted.model)}
        return self._question() == wanted._question() and ("" in models or len(models) == 1)

    def _question(self) -> tuple[str, str, int, tuple[ChatMessage, ...], str, str]:
        # A target that is compared with was asked as it would be as the candidate.
        asked = "candidate" if self.asked == "other" else self.asked
        return asked, self.of, self.turn, self.messages, self.text, self.output_schema


def schema_digest(schema: str) -> str:
    """The digest of an output schema; empty without one."""
    return blake2b(schema.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest() if schema else ""


class Cassette(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: int = FORMAT
    suite: str
    case: str
    target: str
    trial: int = 1
    calls: list[Recording]


class Shelf:
    """The folders of suites' recorded conversations: by the suite's file relative to its project.

    Suites of two projects may have the same file; if both are in one run, the project's name is put in front. A run of
    only one of them finds it there, too.
    """

    def __init__(self, folder: Path, suites: Iterable[tuple[str, str]] = ()) -> None:
        """`suites`: the run's suites, each with its path and its project's root. Raises CassetteError."""
        self.folder = folder
        self._places: dict[tuple[str, str], Path] = {}
        same: dict[str, list[tuple[str, str]]] = {}
        for one in dict.fromkeys(suites):
            same.setdefault(file_in_project(*one), []).append(one)
        for shared in (ones for ones in same.values() if len(ones) > 1):
            self._places |= {one: self._apart(*one) for one in shared}
            if len({self._places[one] for one in shared}) < len(shared):
                raise CassetteError(
                    f"{shared[0][0]} and {shared[1][0]} would share their cassettes in {folder}",
                    "Give each a folder of its own: record and replay them in two runs.",
                )

    def place(self, path: str, root: str) -> Path:
        """The folder of a suite."""
        found = self._places.get((path, root))
        if found is None:
            apart = self._apart(path, root)
            found = apart if apart.is_dir() else suite_folder(self.folder, file_in_project(path, root))
            self._places[path, root] = found
        return found

    def _apart(self, path: str, root: str) -> Path:
        home = Path(root if Path(path).is_relative_to(root) else Path(path).parent).name
        # With a slash, which no name of a file has: it is never taken for a suite's own folder.
        return suite_folder(self.folder / _file_name(f"{home}/"), file_in_project(path, root))


def suite_folder(folder: Path, suite: str) -> Path:
    """The folder of a suite's recorded conversations. `suite` is its file relative to the project."""
    return folder.joinpath(*map(_file_name, PurePath(suite.removesuffix(".yaml")).parts))


def cassette_name(case: str, target: str, trial: int, variant: str = "") -> str:
    """The file of a conversation, in the folder of its suite."""
    parts = [case, target, *([f"variant-{variant}"] if variant else []), *([f"trial-{trial}"] if trial > 1 else [])]
    return f"{'.'.join(map(_file_name, parts))}.yaml"


def _file_name(text: str) -> str:
    """A name that every file system accepts; if it differs from the text, a digest makes it unique. Some file systems
    ignore letter case, so capital letters also lead to a digest."""
    plain = re.sub(r"[^\w-]+", "-", text).encode("utf-8", "replace")[:LONGEST_NAME].decode("utf-8", "ignore").strip("-")
    if plain == text and text == text.casefold():
        return plain
    return f"{plain}-{blake2b(text.encode('utf-8', 'surrogatepass'), digest_size=5).hexdigest()}"


# Writing.


def write_cassette(path: Path, cassette: Cassette, hide: Change = str) -> None:
    """Replace the file whole or not at all. Raises CassetteError."""
    calls = [_each_text(msgspec.to_builtins(call), hide) for call in _shortened(map(_timed, cassette.calls))]
    head = _each_text(msgspec.to_builtins(structs.replace(cassette, calls=[])), hide)
    text = to_yaml({**head, "calls": _as_before(path, calls)})
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replace_file(path, durable=False) as stream:
            stream.write(text.encode())
    except OSError as error:
        raise CassetteError(f"{path} cannot be written: {reason_of(error)}") from error


def check_folder(folder: Path) -> None:
    """Check, before anything is asked, that cassettes can be written there. Raises CassetteError."""
    from tempfile import TemporaryFile

    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise CassetteError(f"{folder} cannot be written: {reason_of(error)}") from error


def _timed(call: Recording) -> Recording:
    """A recording with times in whole milliseconds, without times of instant answers, and without the provider's call
    id, which has no use later."""
    if call.reply is None:
        return call
    measured = call.reply.latency_s
    milliseconds = ceil(measured * 1000) if measured is not None and measured >= AT_ONCE_S else 0
    latency_s = None if measured is None else milliseconds / 1000 or _NO_TIME
    return structs.replace(
        call, reply=structs.replace(call.reply, latency_s=latency_s, request_id=None, first_token_s=None)
    )


_NO_TIME = Reply("").latency_s
"""The default object itself: only it is left out of the file, another zero is not."""


def _as_before(path: Path, calls: list[Any]) -> list[Any]:
    """The recordings, with an earlier one in place of one that differs only in its time. So a review of the file shows
    only real changes."""
    if not path.is_file():
        return calls
    try:
        before = _from_yaml(path)
    except (CassetteError, OSError):
        return calls
    known = list(before.get("calls") or []) if isinstance(before, dict) else []
    kept: list[Any] = []
    for call in calls:
        at = next((n for n, old in enumerate(known) if _timeless(old) == _timeless(call)), None)
        kept.append(call if at is None else known.pop(at))
    return kept


def _timeless(call: Any) -> Any:
    if not isinstance(call, dict) or not isinstance(call.get("reply"), dict):
        return call
    return {**call, "reply": {**call["reply"], "latency_s": 0}}


def _each_text(value: Any, change: Change) -> Any:
    """A copy with every foreign text changed; our own words stay."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list | tuple):
        return [_each_text(one, change) for one in value]
    if isinstance(value, dict):
        return {key: one if key in {"asked", "role"} else _each_text(one, change) for key, one in value.items()}
    return value


def _shortened(calls: Iterable[Recording]) -> Iterator[Recording]:
    """The recordings without messages that are already above in the file."""
    before: tuple[ChatMessage, ...] = ()
    for call in calls:
        if call.asked != "candidate":
            yield call
            continue
        goes_on = call.turn > 1 and call.messages[: len(before)] == before
        messages = call.messages[len(before) :] if goes_on else call.messages
        yield structs.replace(call, messages=messages, whole=call.turn > 1 and not goes_on)
        before = _after(call)


def _after(call: Recording) -> tuple[ChatMessage, ...]:
    """The conversation after the target's answer."""
    return (*call.messages, ChatMessage("assistant", call.reply.text)) if call.reply is not None else call.messages


# Reading.


def read_cassette(path: Path, reveal: Change = str) -> Cassette:
    """Read a cassette. Raises CassetteError."""
    try:
        cassette = msgspec.convert(_each_text(_from_yaml(path), reveal), Cassette)
    except OSError as error:
        raise CassetteError(f"{path} cannot be read: {reason_of(error)}") from error
    except msgspec.ValidationError as error:
        raise _no_cassette(path, str(error)) from None
    if cassette.format != FORMAT:
        raise CassetteError(
            f"{path} has format {cassette.format}, and this version reads {FORMAT}", "Record it again with --record."
        )
    for number, call in enumerate(cassette.calls):
        if (call.reply is None) == (call.failure is None):
            raise _no_cassette(path, f"either `reply` or `failure` is expected - at `$.calls[{number}]`")
    return structs.replace(cassette, calls=list(_whole(cassette.calls)))


def _from_yaml(path: Path) -> Any:
    from rejoinder.suite.yaml import YamlFault, parse_yaml

    try:
        document = parse_yaml(path.read_text(encoding="utf-8"))
        if document.faults:
            raise document.faults[0]
    except YamlFault as fault:
        raise _no_cassette(path, f"line {fault.line}: {fault.message}") from None
    except UnicodeError:
        raise _no_cassette(path, "it is not UTF-8") from None
    return document.data


def _no_cassette(path: Path, why: str) -> CassetteError:
    return CassetteError(f"{path} is not a cassette: {why}", "Record it again with --record.")


def _whole(calls: Iterable[Recording]) -> Iterator[Recording]:
    before: tuple[ChatMessage, ...] = ()
    for call in calls:
        if call.asked != "candidate":
            yield call
            continue
        goes_on = call.turn > 1 and not call.whole
        whole = structs.replace(call, messages=(*before, *call.messages) if goes_on else call.messages, whole=False)
        yield whole
        before = _after(whole)
