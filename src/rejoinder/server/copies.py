"""A conversation to take elsewhere: its case as YAML, or the request of a turn as a command of curl.

The case is taken from the suite of the project, where it still stands there, else made of what was recorded. A command
holds no key, and no address of a target, which may hold one: it names variables.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import yaml

from rejoinder.model import ChatMessage, CheckResult, Receipt, Result
from rejoinder.run_files import RunDamaged, read_whole
from rejoinder.server.errors import ApiError
from rejoinder.suite.yaml import YamlFault, parse_yaml
from rejoinder.words.inert import OBEYED, to_json

LARGEST_SUITE = 1 << 24
_PLAIN = ("contains", "icontains", "equals", "match", "not_match", "starts_with", "ends_with", "regex")
"""Checks that are their kind and one text."""
_ENDINGS = (".yaml", ".yml", ".json")
_SIMPLE = re.compile(r"[A-Za-z0-9._/:@-]{1,100}")
"""Names that stand in a comment as they are."""
_CASE_ALONE = "What its suite has for all cases, such as tools or a system prompt, is not in it."
_AS_TOLD = """\
# Only the words of the conversation: a system prompt, tools and settings are not in it.
# A run with --include messages keeps requests as they were sent.
"""
_OBEYED = re.compile(f"[{OBEYED}]")


def as_yaml(result: Result, root: Path, run: str, text: str = "") -> str:
    """A suite of one case. `text`: the YAML of a suite that is not a file."""
    case = _written(result, root, text) or dict(_made(result))
    text = yaml.dump({"evals": [case]}, Dumper=_InertDumper, allow_unicode=True, sort_keys=False, width=100)
    target = result.target if _SIMPLE.fullmatch(result.target) else "TARGET"
    return f"# From run {run}. {_CASE_ALONE}\n# `rejoinder run FILE -m {target}` runs it.\n{text}"


class _InertDumper(yaml.SafeDumper):
    """Writes characters that a terminal or an editor would obey as escapes, in double quotes."""

    def write_double_quoted(self, text: str, split: bool = True) -> None:
        self.allow_unicode = _OBEYED.search(text) is None
        super().write_double_quoted(text, split)
        self.allow_unicode = True


def _text_of(dumper: _InertDumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, '"' if _OBEYED.search(text) else None)


_InertDumper.add_representer(str, _text_of)


def _written(result: Result, root: Path, text: str) -> dict[str, Any] | None:
    """The case as its file has it now, or the text has it; None if it cannot be found."""
    if not text and not result.file.endswith(_ENDINGS):
        return None
    with contextlib.suppress(OSError, RunDamaged, ValueError, RecursionError, yaml.YAMLError, YamlFault):
        path = (root / result.file).resolve()
        if not path.is_relative_to(root.resolve()):
            return None
        document = parse_yaml(text or read_whole(path, LARGEST_SUITE).decode("utf-8")).data
        for key in ("evals", "evalcases", "tests", "cases"):
            cases: Any = document.get(key) if isinstance(document, dict) else None
            for one in cast("list[Any]", cases) if isinstance(cases, list) else ():
                if isinstance(one, dict) and cast("dict[str, Any]", one).get("id") == result.id:
                    return cast("dict[str, Any]", one)
    return None


def _made(result: Result) -> Iterator[tuple[str, Any]]:
    """The case as far as the results tell it."""
    yield "id", result.id
    if result.name:
        yield "name", result.name
    if result.tags:
        yield "tags", list(result.tags)
    yield "prompt", result.turns[0].prompt if result.turns else result.raw_request.question
    checks = [made for check in (result.turns[0].checks if result.turns else ()) if (made := _check(check))]
    if checks:
        yield "checks", checks


def _check(check: CheckResult) -> dict[str, Any] | None:
    kind = check.kind or ""
    if kind not in _PLAIN or not check.check.startswith(f"{kind} "):
        return None
    return {kind: check.check.removeprefix(f"{kind} "), **({"name": check.name} if check.name else {})}


# curl


def as_curl(result: Result, receipt: Receipt | None, turn: int) -> str:
    """The request of a turn, as the target's vendor takes it; that of OpenAI where it is another."""
    targets = () if receipt is None else receipt.targets
    target = next((one for one in targets if one.name == result.target), None)
    provider, model = ("", None) if target is None else (target.provider, target.model)
    return ("" if _sent(result, turn) else _AS_TOLD) + _request(provider, model, _messages(result, turn))


def _request(provider: str, model: str | None, messages: list[dict[str, str]]) -> str:
    if provider == "anthropic":
        system = "\n\n".join(message["content"] for message in messages if message["role"] == "system")
        said = [message for message in messages if message["role"] != "system"]
        asked = {"model": model or "MODEL", "max_tokens": 1024, **({"system": system} if system else {})}
        return _command(
            '"${ANTHROPIC_BASE_URL:-https://api.anthropic.com}/v1/messages"',
            ('"x-api-key: $ANTHROPIC_API_KEY"', "'anthropic-version: 2023-06-01'"),
            {**asked, "messages": said},
        )
    return _command(
        '"${OPENAI_BASE_URL:-https://api.openai.com/v1}/chat/completions"',
        ('"Authorization: Bearer $OPENAI_API_KEY"',),
        {"model": model or "MODEL", "messages": messages},
    )


def _sent(result: Result, turn: int) -> Sequence[ChatMessage]:
    """The messages of a turn, where the run has kept them."""
    return (result.turns[turn - 1].messages if 1 <= turn <= len(result.turns) else None) or ()


def _messages(result: Result, turn: int) -> list[dict[str, str]]:
    """What was sent in a turn: as it was recorded, else as the conversation tells it."""
    if not 1 <= turn <= max(1, len(result.turns)):
        raise ApiError(404, "the conversation has no such turn")
    if sent := _sent(result, turn):
        return [{"role": message.role, "content": message.content} for message in sent]
    first = result.raw_request.chat_prompt or ()
    told = [{"role": message.role, "content": message.content} for message in first]
    for number, one in enumerate(result.turns[:turn], 1):
        if number > 1 or not told:
            told.append({"role": "user", "content": one.prompt})
        if number < turn and one.response is not None:
            told.append({"role": "assistant", "content": one.response})
    return told or [{"role": "user", "content": result.raw_request.question}]


def _command(address: str, headers: tuple[str, ...], body: dict[str, Any]) -> str:
    """Everything that comes from the run stands in single quotes; variables are the shell's own."""
    lines = [f"curl {address}", "-H 'Content-Type: application/json'", *(f"-H {header}" for header in headers)]
    return " \\\n  ".join([*lines, f"-d {shlex.quote(to_json(body, indent=2))}"]) + "\n"
