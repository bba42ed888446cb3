"""The system prompts of a recorded run, as they were sent, or not: from its folder, and never from the suites of today.

The folder has the cases of each variant with their system prompts, and the targets with theirs. Secrets in them are
names there, and stay names. Of a run whose folder does not have them, nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import structs

from rejoinder.errors import RejoinderError
from rejoinder.formatting.prompt import format_case
from rejoinder.model import Case, Formatting, Result, Suite
from rejoinder.model.results import CaseName, SystemPrompt
from rejoinder.run_files import lines_of, open_file
from rejoinder.runs.folder import RunFolder
from rejoinder.runs.names import case_name_of
from rejoinder.runs.receipt import StoredSuite, read_stored
from rejoinder.validation.lost_system_prompts import loses_system_prompt
from rejoinder.validation.roles import Pair, pair_of


class SystemPrompts:
    """Reads a folder when the first one is asked for. `only`: the result that will be asked about, if it is one."""

    def __init__(self, folder: RunFolder, only: Result | None = None) -> None:
        self._folder = folder
        self._only = only
        self._found: dict[CaseName, SystemPrompt] | None = None

    def of(self, result: Result) -> SystemPrompt:
        """The system prompt of the first request of a conversation."""
        if self._found is None:
            self._found = {}
            targets = {one.name for one in _receipt_targets(self._folder)} or {result.target}
            with suppress(RejoinderError, OSError, msgspec.MsgspecError, RecursionError, ValueError):
                for name, found in self._read(targets):
                    self._found.setdefault(name, found)
        return self._found.get(result.case, SystemPrompt())

    def _read(self, targets: set[str]) -> Iterator[tuple[CaseName, SystemPrompt]]:
        stored = read_stored(self._folder)
        fork = stored.options.answers.fork
        suites = [_suite_of(one) for one in stored.suites]
        asked = sorted(targets) if self._only is None else [self._only.target]
        kept: dict[SystemPrompt, SystemPrompt] = {}
        for number, case in self._cases():
            suite = suites[number]
            for target in asked:
                if target not in (stored.options.selection.targets or case.targets):
                    continue
                pair = pair_of(suite, case, target)
                other = fork.system if fork is not None and fork.turn == 1 else None
                found = _of_case(pair, suite.formatting) if other is None else _sent(other, pair)
                yield case_name_of(pair), kept.setdefault(found, found)

    def _cases(self) -> Iterator[tuple[int, Case]]:
        path = self._folder.path / "cases.jsonl"
        needle = b"" if self._only is None else b'"id":' + msgspec.json.encode(self._only.id)
        decode = msgspec.json.Decoder(tuple[int, Case]).decode
        with open_file(path) as stream:
            for line in lines_of(stream, path):
                if needle in line:
                    yield decode(line)


def _of_case(pair: Pair, formatting: Formatting) -> SystemPrompt:
    messages = format_case(pair.case, formatting, pair.target.mode).messages
    text = messages[0].content if messages and messages[0].role == "system" else ""
    has_own = bool(pair.case.system_prompt.strip() or formatting.default_system_prompt.strip())
    return _sent(text, pair, is_in_question=not has_own)


def _sent(text: str, pair: Pair, *, is_in_question: bool = False) -> SystemPrompt:
    return SystemPrompt(text, not text or not loses_system_prompt(pair.target, is_in_question=is_in_question))


def _receipt_targets(folder: RunFolder) -> tuple[Any, ...]:
    with suppress(RejoinderError, OSError):
        receipt = folder.read_receipt()
        return () if receipt is None else receipt.targets
    return ()


def _suite_of(stored: StoredSuite) -> Suite:
    """Without its cases and secrets: nothing is asked."""
    fields: dict[str, Any] = structs.asdict(stored) | {"secrets": {}, "cases": ()}
    return Suite(**fields)
