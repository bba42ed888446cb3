"""`http`: any service that answers a request with a text. The target says how to ask and where the reply stands.

Texts of `url`, `headers` and `body` may hold `{{ prompt }}` (the last user message), `{{ messages }}`,
`{{ system }}`, `{{ question }}` (turn 1 as a transcript), `{{ case_id }}`, `{{ trial }}` and `{{ turn }}`. A text that
is nothing but `{{ messages }}` becomes the list itself.

A body that is written as a text is JSON where it would be with something in the place of its variables; then it is JSON
afterwards, whatever they hold. Any other text is filled in as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from rejoinder.model import ChatMessage, Reply, Request
from rejoinder.providers.http1 import HttpAnswer
from rejoinder.providers.http_api import ErrorDetails, Outgoing, shortened
from rejoinder.providers.json_fields import read_json
from rejoinder.providers.settings import Settings
from rejoinder.spelling import did_you_mean

DEFAULT_BODY = {"messages": "{{ messages }}"}
_PLACEHOLDER = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_QUOTED_OR_PLACEHOLDER = re.compile(r'"(?:[^"\\]|\\.)*"|\{\{\s*\w+\s*\}\}', re.DOTALL)
_BARE = "\0"
"""Marks a placeholder that stands in JSON without quotes, which no text of an author can begin with."""
_STEP = re.compile(r"""\.?([^.\[\]'"]+)|\[(-?\d+)\]|\[(?:'([^']*)'|"([^"]*)")\]""")

Step = str | int
_DECODER = msgspec.json.Decoder()


class TemplatedHttp:
    def __init__(self, settings: Settings) -> None:
        values = settings.values
        self._url = settings.needed("url")
        self._method = (settings.text("method") or "POST").upper()
        self._headers = {name.lower(): str(value) for name, value in settings.mapping("headers").items()}
        self._body: Any = _read_body(values.get("body", DEFAULT_BODY if self._method != "GET" else None))
        path = settings.text("reply_path")
        self._path = _steps(path, settings) if path else None
        self._path_text = path
        for text in _texts((self._url, self._headers, self._body)):
            for name in _PLACEHOLDER.findall(text):
                if name not in _VALUES:
                    hint = f"There are {', '.join(_VALUES)}."
                    raise settings.error(f"uses an unknown `{{{{ {name} }}}}`{did_you_mean(name, _VALUES)}", hint)

    def write(self, request: Request) -> Outgoing:
        url = _fill(self._url, request, lambda text: quote(text, safe=""))
        headers = {name: _utf8(_fill(value, request, _one_line)) for name, value in self._headers.items()}
        body = _render(self._body, request)
        data = None if body is None else body.encode() if isinstance(body, str) else msgspec.json.encode(body)
        return Outgoing(url, data, self._method, headers)

    def read(self, answer: HttpAnswer) -> Reply:
        if self._path is None:
            if answer.content_type == "application/json":
                value = read_json(_DECODER, answer.body, nulls=True)
                if not isinstance(value, str):
                    raise msgspec.DecodeError("it is JSON; `reply_path` has to say where in it the reply stands")
                return Reply(value)
            return Reply(answer.body.decode("utf-8", "replace"))
        value = read_json(_DECODER, answer.body, nulls=True)
        for step in self._path:
            value = _follow(value, step, self._path_text or "")
        if value is None:
            raise msgspec.DecodeError(f"at `{self._path_text}` it has only null")
        return Reply(value if isinstance(value, str) else msgspec.json.encode(value).decode())

    def explain(self, answer: HttpAnswer) -> ErrorDetails:
        if answer.content_type not in ("application/json", "application/problem+json", "text/plain"):
            return ErrorDetails()
        return ErrorDetails(message=shortened(answer.body.decode("utf-8", "replace")))


def _read_body(body: Any) -> Any:
    """The body as values: JSON that is written as a text is filled in as JSON, so that quotes cannot break it."""
    if not isinstance(body, str):
        return body
    for text in (body, _QUOTED_OR_PLACEHOLDER.sub(_quoted, body)):
        try:
            read = _DECODER.decode(text)
        except msgspec.DecodeError:
            continue
        if isinstance(read, dict | list):
            return read
    return body


def _quoted(found: re.Match[str]) -> str:
    return found[0] if found[0].startswith('"') else msgspec.json.encode(f"{_BARE}{found[0]}").decode()


def _last_user_message(request: Request) -> str:
    return next((message.content for message in reversed(request.messages) if message.role == "user"), "")


def _system(request: Request) -> str:
    return "\n\n".join(message.content for message in request.messages if message.role == "system")


def _plain(message: ChatMessage) -> dict[str, Any]:
    return msgspec.to_builtins(message)


_VALUES: Mapping[str, Callable[[Request], Any]] = {
    "prompt": _last_user_message,
    "messages": lambda request: [_plain(message) for message in request.messages],
    "system": _system,
    "question": lambda request: request.question,
    "case_id": lambda request: request.case_id,
    "trial": lambda request: request.trial,
    "turn": lambda request: request.turn,
}


def _render(template: Any, request: Request) -> Any:
    if isinstance(template, str):
        whole = _PLACEHOLDER.fullmatch(template.removeprefix(_BARE).strip())
        if whole is None:
            return _fill(template, request, str)
        value = _VALUES[whole[1]](request)
        return _unquoted(value) if template.startswith(_BARE) and isinstance(value, str) else value
    if isinstance(template, list):
        return [_render(item, request) for item in template]
    if isinstance(template, dict):
        return {_fill(str(key), request, str): _render(value, request) for key, value in template.items()}
    return template


def _unquoted(text: str) -> Any:
    """A text where the author has no quotes: JSON as it stands, where it is some."""
    try:
        _DECODER.decode(text)
    except msgspec.DecodeError:
        return text
    return msgspec.Raw(text.encode())


def _fill(template: str, request: Request, write: Callable[[str], str]) -> str:
    def value(found: re.Match[str]) -> str:
        one = _VALUES[found[1]](request)
        return write(one if isinstance(one, str) else msgspec.json.encode(one).decode())

    return _PLACEHOLDER.sub(value, template)


def _one_line(text: str) -> str:
    """A header is one line of what can be seen; a line break in it would begin another header."""
    return re.sub(r"[\x00-\x1f\x7f]+", " ", text)


def _utf8(text: str) -> str:
    """A header's text so that its bytes, which go out one a character, are UTF-8."""
    return text if text.isascii() else text.encode().decode("latin-1")


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return [text for one in inner for text in _texts(one)]


def _steps(path: str, settings: Settings) -> tuple[Step, ...]:
    """`$.choices[0].message.content` as the steps to take."""
    rest = path.removeprefix("$")
    steps: list[Step] = []
    position = 0
    while position < len(rest):
        found = _STEP.match(rest, position)
        if found is None:
            hint = "Write it like choices[0].message.content."
            raise settings.error(f"has the reply_path `{path}`, which cannot be read at `{rest[position:]}`", hint)
        name, index, *quoted = found.groups()
        steps.append(int(index) if index is not None else next(text for text in (name, *quoted) if text is not None))
        position = found.end()
    return tuple(steps)


def _follow(value: Any, step: Step, path: str) -> Any:
    try:
        if isinstance(step, str) and isinstance(value, dict):
            return value[step]
        if isinstance(step, int) and isinstance(value, list):
            return value[step]
    except (KeyError, IndexError):
        pass
    if isinstance(value, dict):
        there = f"there are {', '.join(f'`{key}`' for key in list(value)[:10])}" if value else "it is empty"
    else:
        there = f"there is {'a list of ' + str(len(value)) if isinstance(value, list) else type(value).__name__}"
    raise msgspec.DecodeError(f"`reply_path: {path}` finds no `{step}` in it; {there}")
