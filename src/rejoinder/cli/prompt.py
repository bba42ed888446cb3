"""`rejoinder prompt`"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import click
import msgspec

from rejoinder.cli.grouping import format_option, grouped, targets_option
from rejoinder.cli.outgoing import SHOWN, outgoing_of, outgoing_words, schema_blocks
from rejoinder.cli.output import echo, echo_text, show_problems, tell_passed_over, write_data
from rejoinder.errors import UsageError
from rejoinder.formatting.judge import find_judges, format_judge_prompts
from rejoinder.formatting.prompt import diagnose_reference, format_case
from rejoinder.formatting.steps import format_plan
from rejoinder.model import (
    Attached,
    AttachedPicture,
    Case,
    Diagnostic,
    Formatting,
    JsonSchema,
    LlmJudge,
    Mode,
    Problem,
    Prompt,
    Quote,
    Suite,
    Target,
    for_target,
)
from rejoinder.model.chosen_names import ChosenNames
from rejoinder.model.tools import PythonTool, ScriptedTool, Tool
from rejoinder.spelling import did_you_mean
from rejoinder.suite.context import LoadOptions
from rejoinder.suite.discover import find_files
from rejoinder.suite.load import read_suite
from rejoinder.suite.targets import resolve
from rejoinder.validation.lost_system_prompts import loses_system_prompt
from rejoinder.validation.roles import offers_of, with_variant
from rejoinder.views.course import step_words

_WITHOUT_WORDS = ("file-not-found", "empty-file")
Unsaid: TypeAlias = Mapping[str, str]
"""The codes of missing and empty files, by place."""


def _as_tuple(_ctx: click.Context, _option: click.Parameter, name: str | None) -> tuple[str, ...]:
    return () if name is None else (name,)


@click.command("prompt")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option(
    "--case", "case_ids", multiple=True, metavar="ID,...", help="Show only these cases; patterns such as 'refund*'."
)
@click.option(
    "--mode",
    type=click.Choice(["lm", "agent"]),
    help="Format for an LLM API (files embedded) or for an agent (files by reference). Default: as the target needs.",
)
@format_option
@click.option("--judge", is_flag=True, help="Also show the prompt of each LLM judge about the reply.")
@click.option("--reply", metavar="TEXT", help="Judge this reply, with --judge.")
@grouped(
    "options",
    lambda values: LoadOptions(**values, only_format=True),
    targets=click.option(
        "--target",
        "targets",
        metavar="NAME",
        callback=_as_tuple,
        help="Format for this target.",
    ),
    targets_file=targets_option,
    system_prompt=click.option("--system-prompt", metavar="TEXT", help="Replace the system prompt of the suite."),
)
def command(
    file: Path | None,
    case_ids: tuple[str, ...],
    mode: Mode | None,
    form: str,
    judge: bool,
    reply: str | None,
    options: LoadOptions,
) -> None:
    """Show exactly what would be sent for each case of FILE, without sending it. FILE may be a folder or a pattern.

    For an `http` target that is its request, for a `cli` target its command. Variables of the environment stay as they
    are written.

    Files that are missing or empty are named and left out, with --judge also files of judges. Exit code 2 if the suite
    cannot be loaded.
    """
    if judge and reply is None:
        raise click.UsageError("--judge needs the reply that is judged: add --reply TEXT")
    files, passed_over = find_files([file] if file else [])
    tell_passed_over(passed_over)
    selected = _select([_load(suite, options) for suite in files], case_ids)
    reply = reply if judge else None
    shown = [one for suite, case, unsaid in selected for one in _show(suite, case, mode, reply, unsaid)]
    if form == "json":
        write_data([case.record() for case in shown])
    else:
        echo_text("\n\n".join(case.text() for case in shown))
    if any(case.refuses_markers and case.has_marker_line for case in shown):
        echo("error: a line of text looks like a role marker, which `marker_in_text: error` refuses", err=True)
        sys.exit(2)


def _is_left_out(problem: Problem) -> bool:
    """Is it a missing file that is only left out? Without its data set, its targets or a prompt of its own a suite is
    not itself."""
    return problem.code == "file-not-found" and problem.path != "" and not problem.path.endswith(("cases", ".file"))


def _load(file: Path, options: LoadOptions) -> tuple[Suite, Unsaid]:
    """A suite that can be shown. What keeps it from that is shown, and ends the command."""
    loaded = read_suite(file, options)
    blocking = [problem for problem in loaded.errors if loaded.suite is None or not _is_left_out(problem)]
    show_problems(blocking, err=True)
    if loaded.suite is None or blocking:
        sys.exit(2)
    return loaded.suite, {problem.path: problem.code for problem in loaded.problems if problem.code in _WITHOUT_WORDS}


def _select(loaded: list[tuple[Suite, Unsaid]], case_ids: tuple[str, ...]) -> list[tuple[Suite, Case, Unsaid]]:
    every = [(suite, case, unsaid) for suite, unsaid in loaded for case in suite.cases]
    ids = [case.id for _, case, _ in every]
    names = ChosenNames(case_ids)
    if missing := names.missing(word for name in ids for word in names.found_by(name)):
        files = ", ".join(suite.path for suite, _ in loaded)
        hint = (
            did_you_mean(missing[0].replace("*", ""), ids).removeprefix("; ") or f"the cases are {', '.join(ids[:20])}"
        )
        raise UsageError(f"there is no case `{missing[0]}` in {files}", hint)
    return [(suite, case, unsaid) for suite, case, unsaid in every if not case_ids or case.id in names]


def _show(suite: Suite, case: Case, mode: Mode | None, reply: str | None, unsaid: Unsaid) -> list[_Shown]:
    """The case as its targets receive it: once, if all of them receive the same."""
    targets = [with_variant(suite, resolve(name, suite.targets), case.variant) for name in case.targets]
    distinct: dict[tuple[str, JsonSchema | None, str, bytes, str], Target | None] = {}
    for target in targets or [None]:
        put = for_target(case, target)
        tools = msgspec.json.encode(target.tools if target is not None else ())
        own = target.name if target is not None and target.provider in SHOWN else ""
        mode_of_target = target.mode if target is not None else "lm"
        distinct.setdefault((put.system_prompt, put.output_schema, mode_of_target, tools, own), target)
    shown = [_Shown(suite, case, target, mode, reply, unsaid) for target in distinct.values()]
    for one in shown if len(shown) > 1 else ():
        one.names_target = True
    return shown


class _Shown:
    """A case as it is shown: formatted, with the values of secrets replaced by their names."""

    def __init__(
        self, suite: Suite, case: Case, target: Target | None, mode: Mode | None, reply: str | None, unsaid: Unsaid
    ) -> None:
        self.refuses_markers = suite.formatting.marker_in_text == "error"
        self.secrets = suite.secrets
        self.target = target
        self.names_target = False
        """Does it differ from what another target of the case receives?"""
        self.case = case = for_target(case, target)
        self.mode: Mode = mode or (target.mode if target is not None else "lm")
        self.prompt: Prompt = format_case(case, suite.formatting, self.mode)
        self.tools = offers_of(case, target)[0]
        self.later = list(_later_turns(case, suite.formatting))
        self.judges = format_judge_prompts(case, self.prompt, reply) if reply is not None else None
        self.outgoing: dict[str, Any] = {}
        """What an `http` or a `cli` target is sent."""
        if target is not None and target.provider in SHOWN and self.mode == target.mode:
            self.outgoing = outgoing_of(suite, case, target, self.prompt)
        self.loses_system = (
            target is not None
            and any(message.role == "system" for message in self.prompt.messages)
            and loses_system_prompt(target, is_in_question=not case.system_prompt.strip())
        )
        self.judged_by = list(_diagnose_judging(case, unsaid)) if reply is not None else []

    @property
    def has_marker_line(self) -> bool:
        return any(diagnostic.code == "marker-in-text" for diagnostic in self.prompt.diagnostics)

    def record(self) -> dict[str, Any]:
        prompt = self.prompt
        of_judges = [diagnostic for judge in self.judges or () for diagnostic in judge.diagnostics]
        record: dict[str, Any] = {
            "id": self.case.id,
            **({"variant": self.case.variant} if self.case.variant else {}),
            **({"target": self.target.name} if self.names_target and self.target is not None else {}),
            "question": prompt.question,
            "role_markers": prompt.role_markers,
            "guidelines": prompt.guidelines,
            "chat_prompt": prompt.chat_prompt,
            "messages": prompt.messages,
            "diagnostics": list(dict.fromkeys([*prompt.diagnostics, *self.judged_by, *of_judges])),
        }
        record |= self.outgoing
        if self.case.output_schema is not None:
            record["output_schema"] = msgspec.json.decode(self.case.output_schema.document)
        if self.loses_system:
            record["system_sent"] = False
        if self.later:
            record["later_turns"] = self.later
        if self.tools:
            record["tools"] = list(map(_tool, self.tools))
        if prompt.question_toon is not None:
            record["question_toon"] = prompt.question_toon
        if self.judges is not None:
            record["judge_prompts"] = [
                {"name": judge.name, "system": judge.system, "user": judge.user} for judge in self.judges
            ]
        return self._masked(msgspec.to_builtins(record))

    def text(self) -> str:
        record = self.record()
        names = [name for name in (record.get("variant"), record.get("target")) if name]
        variant = f" ({', '.join(names)})" if names else ""
        receiver = "an agent" if self.mode == "agent" else "an LLM API"
        if self.outgoing and self.target is not None:
            receiver = f"target `{self.target.name}` ({self.target.provider})"
        blocks = [f"##### {record['id']}{variant}: as {receiver} receives it"]
        if self.mode == "agent":
            parts = ["question", "guidelines"] if record["guidelines"] else ["question"]
            blocks += [f"--- {part} ---\n{record[part]}" for part in parts]
        else:
            unsent = " (not sent)" if self.loses_system else ""
            blocks += [
                f"--- {message['role']}{unsent if message['role'] == 'system' else ''} ---\n{message['content']}"
                for message in record["messages"]
            ]
        blocks += [f"--- tools ---\n{_tool_words(tool)}" for tool in record.get("tools", ())[:1]]
        blocks += [_tool_words(tool) for tool in record.get("tools", ())[1:]]
        blocks += schema_blocks(record.get("output_schema"))
        blocks += outgoing_words(record)
        for turn in record.get("later_turns", ()):
            start = step_words(turn["step"], turn["of"], turn["name"])
            blocks += [f"--- {start}: {message['role']} ---\n{message['content']}" for message in turn["messages"]]
        for judge in record.get("judge_prompts", ()):
            blocks += [f"--- judge {judge['name']}: {role} ---\n{judge[role]}" for role in ("system", "user")]
        return "\n".join([*blocks, *map(_note, record["diagnostics"])])

    def _masked(self, value: Any) -> Any:
        if isinstance(value, str):
            for secret, expression in self.secrets.items():
                for form in (secret, secret.strip()):
                    value = value.replace(form, expression) if form else value
            return value
        if isinstance(value, list | tuple):
            return [self._masked(item) for item in value]
        if isinstance(value, dict):
            return {key: self._masked(item) for key, item in value.items()}
        return value


def _tool(tool: Tool) -> dict[str, Any]:
    """A tool as far as it is known without asking a server or running code."""
    if isinstance(tool, ScriptedTool):
        parameters = msgspec.json.decode(tool.parameters)
        return {"name": tool.name, "description": tool.description, "parameters": parameters}
    if isinstance(tool, PythonTool):
        return {"name": tool.name, "python": tool.call}
    return {"name": f"{tool.name}__*", "mcp": tool.name}


def _tool_words(tool: dict[str, Any]) -> str:
    if "parameters" in tool:
        said = f": {' '.join(tool['description'].split())}" if tool["description"] else ""
        return f"{tool['name']}{said}\n{msgspec.json.encode(tool['parameters']).decode()}"
    where = f"the function {tool['python']}" if "python" in tool else f"the MCP server `{tool['mcp']}`"
    return f"{tool['name']}: as {where} describes it (see `rejoinder tools`)"


def _later_turns(case: Case, formatting: Formatting) -> Iterator[dict[str, Any]]:
    """The planned turns after the first as they are written, with names in the place of what they quote."""
    steps = format_plan(case.plan, formatting).steps if case.plan is not None else ()
    for number, step in enumerate(steps[1:], 2):
        messages = [{"role": words.role, "content": "".join(map(_as_written, words.pieces))} for words in step.says]
        yield {"step": number, "of": len(steps), "name": step.name, "messages": messages}


def _as_written(piece: str | Quote | Attached | AttachedPicture) -> str:
    if isinstance(piece, str):
        return piece
    if isinstance(piece, AttachedPicture):
        return piece.reference
    if isinstance(piece, Attached):
        return piece.text
    if piece.what == "extracted":
        return f"{{{{ {piece.name} }}}}"
    if piece.what != "response":
        return "{{ failed(answer) }}" if piece.what == "answer" else "{{ failed }}"
    if piece.name:
        return f"{{{{ turn('{piece.name}').response }}}}"
    return "{{ response }}" if piece.turn is None else f"{{{{ response({piece.turn}) }}}}"


def _diagnose_judging(case: Case, unsaid: Mapping[str, str]) -> Iterator[Diagnostic]:
    """What judges should have been shown and are not: references and templates, by their files."""
    yield from diagnose_reference(case)
    for judge in find_judges(case.level):
        place = f"{judge.at}.prompt"
        if isinstance(judge, LlmJudge) and judge.prompt == () and place in unsaid:
            yield Diagnostic(unsaid[place], place, msgspec.json.decode(judge.written)["prompt"])


def _note(diagnostic: dict[str, str]) -> str:
    path = f" {diagnostic['path']}" if "path" in diagnostic else ""
    return f"! {diagnostic['code']}{path} at {diagnostic['at']}"
