"""What a case sends to a target of the user's own: the request of an `http` target, the command of a `cli` target.

Variables of the environment stay as they are written, so nothing has to be set and no key is shown.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import msgspec

from rejoinder.formatting.files import attached_files
from rejoinder.formatting.prompt import guidelines_block
from rejoinder.model import Brief, Case, Prompt, Request, Suite, Target
from rejoinder.providers.settings import Settings
from rejoinder.runs.secrets import Mask

SHOWN = frozenset({"http", "cli"})
"""Providers whose requests are of the author's own making."""
_SCRATCH = Path("SCRATCH")
_ID = "conversation-id"


def outgoing_of(suite: Suite, case: Case, target: Target, prompt: Prompt) -> dict[str, Any]:
    """The first turn as it goes out, under `request` or `command`. Raises UsageError if the target cannot be asked."""
    request = Request(
        target=target.name,
        case_id=case.id,
        trial=1,
        turn=1,
        call=0,
        messages=tuple(prompt.messages),
        question=prompt.question,
        conversation_id=_ID,
    )
    shown = _request(target, request) if target.provider == "http" else _command(suite, case, target, prompt, request)
    return msgspec.json.decode(_mask(suite, target).hide(msgspec.json.encode(shown)))


def _mask(suite: Suite, target: Target) -> Mask:
    from rejoinder.providers.secret_finder import SecretFinder

    finder = SecretFinder()
    finder.add_settings(f"target {target.name}", Settings(target, {}).values)
    secrets = {value: name for value, name in finder.secrets.items() if "${{" not in value}
    return Mask({**secrets, **suite.secrets})


def _request(target: Target, request: Request) -> dict[str, Any]:
    from rejoinder.providers.http import TemplatedHttp

    wire = TemplatedHttp(Settings(target, {}))
    sent = {"request": wire.write(request)}
    if wire.opening is not None:
        sent = {"open": wire.opening.write(request), **sent}
    return {name: _as_data(one.method, one.url, one.headers, one.body) for name, one in sent.items()}


def _as_data(method: str, url: str, headers: Any, body: bytes | None) -> dict[str, Any]:
    has_type = body is None or "content-type" in headers
    own = {} if has_type else {"content-type": "application/json"}
    return {"method": method, "url": url, "headers": {**own, **headers}, "body": _read(body)}


def _read(body: bytes | None) -> Any:
    if body is None:
        return None
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError:
        return body.decode("utf-8", "replace")


def _command(suite: Suite, case: Case, target: Target, prompt: Prompt, request: Request) -> dict[str, Any]:
    from rejoinder.providers.cli import read_template, texts_for
    from rejoinder.providers.command_template import Values

    template = read_template(Settings(target, {}))
    first = request.messages[0] if request.messages else None
    system = first.content if first is not None and first.role == "system" else ""
    files = attached_files(case, suite.formatting)
    brief = Brief(
        prompt=prompt.question,
        system_prompt=system.removesuffix(guidelines_block(prompt.guidelines)).rstrip(),
        guidelines=prompt.guidelines,
        files=files,
    )
    said, guidelines = texts_for(brief)
    values = Values(
        prompt=said,
        guidelines=guidelines,
        eval_id=case.id,
        files=tuple(dict.fromkeys(file.source for file in files)),
        scratch=_SCRATCH,
    )
    return {"command": template.shown(values), **({"stdin": said} if template.reads_stdin else {})}


def schema_blocks(schema: dict[str, Any] | None) -> list[str]:
    """The output schema as a block of text; no block without one."""
    if schema is None:
        return []
    return [f"--- output schema ---\n{msgspec.json.format(msgspec.json.encode(schema), indent=2).decode()}"]


def outgoing_words(record: dict[str, Any]) -> list[str]:
    """The same as blocks of text."""
    blocks = [f"--- {name} ---\n{_request_words(record[name])}" for name in ("open", "request") if name in record]
    if "command" in record:
        command = record["command"]
        blocks.append(f"--- command ---\n{command if isinstance(command, str) else shlex.join(command)}")
    if "stdin" in record:
        blocks.append(f"--- standard input ---\n{record['stdin']}")
    return blocks


def _request_words(request: dict[str, Any]) -> str:
    body = request["body"]
    head = [
        f"{request['method']} {request['url']}",
        *(f"{name}: {value}" for name, value in request["headers"].items()),
    ]
    if body is None:
        return "\n".join(head)
    text = body if isinstance(body, str) else msgspec.json.format(msgspec.json.encode(body), indent=2).decode()
    return "\n".join([*head, "", text])
