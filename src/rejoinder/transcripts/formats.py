"""The formats of transcripts: one row each. A file's format is detected by its content unless it is given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from rejoinder.errors import UsageError
from rejoinder.json_values import as_mapping
from rejoinder.spelling import did_you_mean
from rejoinder.transcripts import (
    agentv,
    anthropic,
    atif,
    claude,
    codex,
    copilot,
    gemini,
    openai,
    opencode,
    openinference,
    otel,
    pi,
)
from rejoinder.transcripts.files import Document, list_files, parse, read_file
from rejoinder.transcripts.values import Transcript, Unknown, own_id
from rejoinder.words.numbers import listed

LONGEST_TITLE = 200
LONGEST_ID = 1000
"""Maximum characters of a conversation's id."""
_NO_CONTENT = (
    "Spans contain messages only if the program that writes them is configured so: for OpenTelemetry set "
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT. If messages are in events, put the logs into the same file."
)


class Format(Struct, frozen=True):
    name: str
    what: str
    looks_like: Callable[[Document], bool]
    read: Callable[[Document], Iterable[Transcript]]
    if_empty: str = ""
    """Advice if a file contains no words."""


FORMATS = {
    row.name: row
    for row in (
        Format(openai.NAME, "messages of OpenAI's API", openai.looks_like, openai.read),
        Format(anthropic.NAME, "messages of Anthropic's API", anthropic.looks_like, anthropic.read),
        Format(claude.NAME, "a session of Claude Code", claude.looks_like, claude.read),
        Format(codex.NAME, "a rollout of Codex", codex.looks_like, codex.read),
        Format(copilot.NAME, "events of GitHub Copilot's command line", copilot.looks_like, copilot.read),
        Format(gemini.NAME, "a chat of Gemini CLI", gemini.looks_like, gemini.read),
        Format(pi.NAME, "a session of pi", pi.looks_like, pi.read),
        Format(opencode.NAME, "an export by `opencode export`", opencode.looks_like, opencode.read),
        Format(agentv.NAME, "a transcript of AgentV", agentv.looks_like, agentv.read),
        Format(atif.NAME, "a trajectory in ATIF", atif.looks_like, atif.read),
        Format(otel.NAME, "spans of OpenTelemetry for generative AI", otel.looks_like, otel.read, _NO_CONTENT),
        Format(openinference.NAME, "spans of OpenInference", openinference.looks_like, openinference.read, _NO_CONTENT),
    )
}


def read_transcripts(
    paths: Sequence[Path],
    format: str | None = None,
    shown: Sequence[str] = (),
    note: Callable[[str], None] = lambda _: None,
) -> list[Transcript]:
    """All conversations of files and folders, in order, each with a unique id. `shown`: the names of the paths in
    messages, if they differ; `note`: receives files of folders that are skipped because they hold no readable
    conversation. Raises UsageError."""
    check_format(format)
    names = shown or [str(path) for path in paths]
    found = [one for path, name in zip(paths, names, strict=True) for one in _read_path(path, name, format, note)]
    return list(_with_own_ids(found))


def _read_path(path: Path, name: str, format: str | None, note: Callable[[str], None]) -> list[Transcript]:
    files = list_files(path)
    if files == [path]:
        return _read(path, name, format)
    found: list[Transcript] = []
    faults: list[UsageError] = []
    for file in files:
        try:
            found += _read(file, str(Path(name, file.relative_to(path))), format)
        except UsageError as error:
            faults.append(error)
    if not found:
        raise faults[0]
    for fault in faults:
        note(f"skipped: {fault.message}")
    return found


def check_format(format: str | None) -> None:
    """Raises UsageError if the format does not exist."""
    if format is not None and format not in FORMATS:
        known = f"Formats are {listed(list(FORMATS))}."
        raise UsageError(f"there is no transcript format `{format}`{did_you_mean(format, FORMATS)}", known)


def read_bytes(data: bytes, name: str, format: str | None = None) -> list[Transcript]:
    """The conversations in the bytes of one file. Raises UsageError."""
    document = parse(data, name)
    row = FORMATS[format] if format is not None else find_format(document)
    found = [_completed(one, document, number) for number, one in enumerate(row.read(document), 1)]
    if not any(one.turns for one in found):
        raise UsageError(
            f"{name} has no conversation in the format `{row.name}` ({row.what}): it contains no user message",
            row.if_empty if format is None else "Leave out the format to have it detected from the content.",
        )
    return found


def find_format(document: Document) -> Format:
    """The only format that a file matches. Raises UsageError that describes the file."""
    found = [row for row in FORMATS.values() if row.looks_like(document)]
    if len(found) == 1:
        return found[0]
    if found:
        names = listed([f"`{row.name}` ({row.what})" for row in found])
        raise UsageError(f"{document.name} could be {names}", "Say which with `format`, or `--format`.")
    known = "; ".join(f"`{row.name}`: {row.what}" for row in FORMATS.values())
    raise UsageError(f"{document.name} is not in a known transcript format: {_seen(document)}", f"Known are {known}.")


def _read(path: Path, name: str, format: str | None) -> list[Transcript]:
    return read_bytes(read_file(path), name, format)


def _completed(transcript: Transcript, document: Document, number: int) -> Transcript:
    """The conversation with an id, a title, and the truncated last line if any."""
    unknown = transcript.unknown
    if document.cut_off:
        unknown = (*unknown, Unknown("half a line at the end", (document.cut_off,)))
    first = next((turn.prompt for turn in transcript.turns), "").strip()
    title = transcript.title.strip() or (first.splitlines()[0] if first else "")
    return structs.replace(
        transcript,
        id=id if 0 < len(id := transcript.id.strip()) <= LONGEST_ID else f"{document.stem}-{number}",
        title=title[:LONGEST_TITLE].strip(),
        unknown=unknown,
    )


def _with_own_ids(transcripts: Iterable[Transcript]) -> Iterator[Transcript]:
    """Conversations with unique ids: equal ones get numbers."""
    taken: dict[str, int] = {}
    for one in transcripts:
        yield structs.replace(one, id=own_id(one.id, taken))


def _seen(document: Document) -> str:
    """A short description of a file's content."""
    first: Any = document.entries[0].value
    if isinstance(first, list):
        inner = as_mapping(first[0]) if first else {}
        return f"it holds a list{_keys(inner) and f' of mappings with {_keys(inner)}'}"
    what = "its first line has" if document.lines else "it holds a mapping with"
    return f"{what} {_keys(as_mapping(first)) or 'no keys'}"


def _keys(value: Any) -> str:
    names = [f"`{key[:40]}`" for key in list(value)[:6] if isinstance(key, str)]
    return f"the keys {', '.join(names)}" if names else ""
