"""The targets of a case: the one that answers, the judges, and the one that gives embeddings."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import cache
from itertools import islice
from typing import TypeVar

from msgspec import Struct, structs

from rejoinder.errors import UsageError
from rejoinder.model import (
    Canary,
    Case,
    Check,
    Compare,
    Judged,
    Kind,
    Semantic,
    Suite,
    Target,
    ToolState,
    for_target,
    kind_of,
    walk_case,
)
from rejoinder.model.pictures import PICTURE_TYPES, Picture, PictureType
from rejoinder.model.providers import CALLABLE, PROVIDERS, list_providers, row_of
from rejoinder.model.tools import (
    ScriptedTool,
    Tool,
    allows,
    has_several,
    is_conversations_own,
    join_tools,
    tool_named,
)
from rejoinder.placeholders import requested_in
from rejoinder.providers import wordllama
from rejoinder.providers.registry import info_of
from rejoinder.providers.settings import normalize_keys
from rejoinder.spelling import did_you_mean
from rejoinder.suite.schema_files import OUTPUT_SCHEMA, output_schema_of
from rejoinder.suite.target_names import check_target
from rejoinder.suite.target_rules import NO_STRUCTURED_OUTPUT, find_answer_form
from rejoinder.suite.targets import is_known_provider, resolve
from rejoinder.words.numbers import listed

_MOST_LISTED = 6
_MOST_CASES = 1000
"""Maximum cases that are searched for judges before a hint is written."""


class Pair(Struct, frozen=True):
    """A case and its target."""

    suite: Suite
    case: Case
    target: Target
    judge: Target


def pair_of(suite: Suite, case: Case, target_name: str | None) -> Pair:
    """A case with its target, and the judge there."""
    if target_name is None:
        raise no_target(suite, case.id)
    target = find_target(suite, target_name)
    if target is None:
        [fault] = check_target(target_name, suite.targets)
        known = f"; the targets are {', '.join(suite.targets)}" if suite.targets else ""
        raise UsageError(fault.message, None if fault.lists_known else f"A model is named as provider/model{known}.")
    asked = with_variant(suite, target, case.variant)
    case = for_target(case, asked)
    judge_name = _judge_name(suite, case, target)
    judge = find_target(suite, judge_name) if judge_name else target
    if judge is None and _asks_judge(case):
        raise UsageError(f"there is no target `{judge_name}` to judge the replies of `{target.name}`")
    return Pair(suite, case, asked, judge or target)


def _judge_name(suite: Suite, case: Case, target: Target | None) -> str | None:
    """The judging target if a check names none; None if the target judges itself."""
    return case.judge_target or (target.judge_target if target else None) or suite.judge_target


def _asks_judge(case: Case) -> bool:
    return any(isinstance(check, Judged) and not check.target for check in walk_case(case))


def names_asked(suite: Suite, case: Case, candidate: str) -> Iterator[str]:
    """The names of all targets that a case asks, including invalid ones."""
    yield candidate
    if case.user is not None:
        yield case.user.target
    if _asks_judge(case) and (judge := _judge_name(suite, case, find_target(suite, candidate))):
        yield judge
    for check in walk_case(case):
        if isinstance(check, Judged) and check.target:
            yield check.target
        elif isinstance(check, Compare) and check.other_target:
            yield check.other_target
        elif isinstance(check, Semantic) and (name := check.target or suite.embedding_target):
            yield name


def tools_of(pair: Pair) -> tuple[Tool, ...]:
    """Every tool that the target may call in some turn: its own, the case's and the planned turns' tools."""
    return join_tools(pair.case.all_tools, pair.target.tools)


def offers_of(case: Case, target: Target | None) -> list[tuple[Tool, ...]]:
    """The tools that are offered in each planned turn, or in all turns of a case without a plan. Tools of a turn
    replace the tools of suite and case; the target's are always offered."""
    own = () if target is None else target.tools
    steps = case.plan.steps if case.plan is not None else ()
    turns = [step.tools for step in steps] or [None]
    return [join_tools(case.tools if tools is None else tools, own) for tools in turns]


def find_tools_fault(case: Case, target: Target) -> UsageError | None:
    """Why the tools of a case cannot be offered, if they cannot."""
    if (case.all_tools or target.tools) and not row_of(target.provider).takes_tools:
        what = f"case `{case.id}` has tools, and target `{target.name}` ({target.provider}) cannot be offered any"
        return UsageError(what, "Agents have tools of their own, and take `mcp_servers`; models of APIs take `tools`.")
    twice = find_two_tools(case, target)
    return None if twice is None else UsageError(f"case `{case.id}`: {twice}")


def find_pictures_fault(pair: Pair, pictures: Collection[Picture]) -> UsageError | None:
    """Why the pictures of a case cannot be sent to a target that answers, if they cannot."""
    rivals = (check.other_target for check in walk_case(pair.case) if isinstance(check, Compare))
    others = (find_target(pair.suite, name) for name in rivals if name)
    for target in (pair.target, *(one for one in others if one is not None)):
        what = f"case `{pair.case.id}` has pictures, and target `{target.name}` ({target.provider})"
        taken = _picture_types(target)
        if not taken:
            return UsageError(f"{what} takes none", f"The providers that do are {list_providers(shows=True)}.")
        other = next((one for one in pictures if one.type not in taken), None)
        if other is not None:
            kinds = listed([one.upper() for one in taken])
            return UsageError(f"{what} takes {kinds}, but {other.name} is {other.mime_type}", "Convert the picture.")
        if target.provider == "http" and not _is_sent_messages(target):
            return UsageError(
                f"{what} is not sent `messages`, which hold them",
                "Put the placeholder `{{ messages }}` into its `body`; docs/guides/pictures.md shows their form.",
            )
    return None


def _is_sent_messages(target: Target) -> bool:
    body = normalize_keys(target.settings).get("body")
    return body is None or "messages" in requested_in(body)


def _picture_types(target: Target) -> tuple[PictureType, ...]:
    """The types of pictures that a target takes. A Python object gets them like a function of the project."""
    return PICTURE_TYPES if target.provider == CALLABLE else info_of(target.provider).pictures


def sees_pictures(target: Target, pictures: Iterable[Picture]) -> bool:
    """Whether a judge can be shown these pictures."""
    taken = _picture_types(target)
    return can_see(target) and all(picture.type in taken for picture in pictures)


def can_see(target: Target) -> bool:
    """Whether a judge can be shown pictures of some type. An agent that judges gets one text. Code of a plug-in is not
    loaded for this."""
    if target.mode == "agent" or (target.provider == "http" and not _is_sent_messages(target)):
        return False
    return target.provider not in PROVIDERS or bool(row_of(target.provider).pictures)


def judging_targets(suite: Suite, case: Case, candidate: str) -> Iterator[Target]:
    """The targets that judge a case on a target, as far as they exist."""
    own = find_target(suite, candidate)
    for check in walk_case(case):
        if isinstance(check, Judged):
            name = check.target or _judge_name(suite, case, own) or candidate
            if (judge := find_target(suite, name)) is not None:
                yield judge


def find_output_schema_fault(case: Case, target: Target, kind: Kind = "candidate") -> UsageError | None:
    """Why the target of a case, or a rival, cannot be sent an output schema, if it cannot."""
    if not schema_of(case, kind, target):
        return None
    said = f"case `{case.id}` has an `output_schema`, and"
    if target.provider != CALLABLE and not info_of(target.provider).structured:
        what = f"{said} target `{target.name}` ({target.provider}) cannot be sent one"
        return UsageError(what, NO_STRUCTURED_OUTPUT)
    form = find_answer_form(target.settings)
    if form is None:
        return None
    return UsageError(f"{said} `{form}` of target `{target.name}` sets the form of replies too", "Keep one of them.")


def find_two_tools(case: Case, target: Target | None) -> str | None:
    """A name that two tools of one turn share, if any."""
    for offer in offers_of(case, target):
        names = [tool.name for tool in offer]
        if (twice := next((name for name in names if names.count(name) > 1), None)) is not None:
            return f"two tools have the name `{twice}`"
    return None


def find_idle_faults(tool: Tool) -> Iterator[str]:
    """Faults that cannot occur, because the tool that they name is not offered."""
    for fault in tool.fails:
        if not fault.tool:
            continue
        if not has_several(tool):
            if fault.tool != tool.name:
                yield f"a fault of `{tool.name}` names another tool, `{fault.tool}`; `tool` is only for a server"
        elif not allows(tool, fault.tool):
            yield f"a fault names the tool `{fault.tool}`, which `allow` of `{tool.name}` leaves out"


_MaybeTarget = TypeVar("_MaybeTarget", Target, Target | None)


def with_variant(suite: Suite, target: _MaybeTarget, variant: str) -> _MaybeTarget:
    """A target with the settings of a variant, which win however either of them spells a setting."""
    if target is None:
        return target
    changed = next((one.settings for one in suite.variants if one.name == variant), {})
    if not changed:
        return target
    names = normalize_keys(changed).keys()
    kept = {name: value for name, value in target.settings.items() if names.isdisjoint(normalize_keys({name: value}))}
    schema = output_schema_of(changed) or target.output_schema
    changed = {name: value for name, value in changed.items() if name not in OUTPUT_SCHEMA}
    return structs.replace(target, settings={**changed, **kept}, output_schema=schema, variant=variant)


def find_unmeasured_texts(case: Case, tools: tuple[Tool, ...]) -> Iterator[tuple[str, str]]:
    """Problems of texts that are put into answers of tools while no check says whether the model obeys; with codes."""
    said = [fault for tool in tools for fault in tool.fails if fault.fault == "says"]
    if not said:
        return
    checks = list(walk_case(case))
    names = {check.name for check in checks} | {over.name for over in case.conversation_checks}
    for fault in said:
        if fault.attack is not None and fault.attack not in names:
            known = [name for name in names if name]
            meant = did_you_mean(fault.attack, known) or "; give the check a `name`"
            yield "unknown-check", f"`attack` names the check `{fault.attack}`, and case `{case.id}` has none{meant}"
        elif fault.attack is None and not any(isinstance(check, Canary) for check in checks):
            message = "a text is put into a tool's answer, and nothing says whether the model obeys it"
            yield "no-effect", f"{message}: add a `canary`, or name a check as `attack`"


class NoTarget(UsageError):
    """A suite names no target for a case."""


def no_target(suite: Suite, case_id: str) -> NoTarget:
    """The error if a suite names no target: the known targets, and the command that chooses one."""
    names = answering_targets(suite)
    if not names:
        what = f"no target is set for case `{case_id}` of {suite.path}"
        return NoTarget(what, "Name a model: `-m openai/gpt-5-mini`, or `metadata: {model: openai/gpt-5-mini}`.")
    known = listed([f"`{name}`" for name in names[:_MOST_LISTED]])
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    what = f"{suite.path} does not say which target answers case `{case_id}`; the targets are {known}{more}"
    every = "both" if len(names) == 2 else "these"
    first = names[:_MOST_LISTED]
    hint = (
        f"`-m {names[0]}` runs one, `-m {','.join(first)}` runs {every}; in the suite, `target: {names[0]}` names one"
        f" and `target: [{', '.join(first)}]` names {every}."
    )
    return NoTarget(what, hint)


def answering_targets(suite: Suite) -> list[str]:
    """The targets that may answer: targets that are only judges, simulated users or embedders of the suite's cases are
    left out, unless there are no others."""
    others = {suite.judge_target, suite.embedding_target}
    for case in islice(suite.cases, _MOST_CASES):
        others.add(case.judge_target)
        others.update(names_asked(suite, case, ""))
    return [name for name in suite.targets if name not in others] or list(suite.targets)


def find_provider_fault(target: Target) -> UsageError | None:
    """Why the provider of a target cannot be run here, if it cannot."""
    if is_known_provider(target.provider) or target.provider == CALLABLE:
        return None
    [fault] = check_target(f"{target.provider}/{target.settings.get('model', 'MODEL')}", {})
    return UsageError(fault.message, f"The providers that run are {list_providers()}.")


def find_workspace_fault(case: Case, target: Target, check: Check) -> UsageError | None:
    """Why a check cannot read a workspace, if it cannot."""
    if not check.in_workspace or row_of(target.provider).workspaces:
        return None
    what = f"case `{case.id}` has the check `{kind_of(check)}`, which looks into the workspace of an agent, and"
    return UsageError(
        f"{what} target `{target.name}` does not work in one", "docs/guides/agents.md lists those that do."
    )


def find_state_fault(case: Case, target: Target, check: Check) -> UsageError | None:
    """Why a `tool_state` cannot call its tool, as far as is known before servers are asked."""
    if not isinstance(check, ToolState):
        return None
    tools, what = join_tools(case.all_tools, target.tools), f"case `{case.id}` has `tool_state` with the tool"
    if not tools:
        hint = "Declare the server or class under `tools`; a coding agent's own tools cannot be asked."
        return UsageError(f"{what} `{check.tool}`, and no tools are declared for target `{target.name}`", hint)
    found = tool_named(tools, check.tool)
    if isinstance(found, ScriptedTool):
        hint = "Ask an MCP server or a Python tool."
        return UsageError(f"{what} `{check.tool}`, which is scripted: it answers from a list and has no state", hint)
    if found is None and not any(map(has_several, tools)):
        names = [tool.name for tool in tools]
        meant = did_you_mean(check.tool, names) or f"; the tools are {', '.join(names)}"
        return UsageError(f"{what} `{check.tool}`, which is not declared{meant}")
    return None


def find_shared_state(case: Case, target: Target, check: Check) -> str | None:
    """A warning if other conversations may change the state that a `tool_state` looks at."""
    if not isinstance(check, ToolState):
        return None
    tools = join_tools(case.all_tools, target.tools)
    found = tool_named(tools, check.tool)
    asked = [one for one in tools if has_several(one)] if found is None else [found]
    if any(map(is_conversations_own, asked)):
        return None
    names = listed([f"`{one.name}`" for one in asked], "or")
    return (
        f"all conversations share {names}, so others may change what `tool_state` finds, and a resumed run may have"
        " lost it; use `scope: conversation`, or a class"
    )


def find_embedding_fault(suite: Suite, case_id: str, check: Semantic) -> UsageError | None:
    """Why a check cannot compare meanings, if it cannot: no target is named for it, or one without embeddings."""
    embedder = find_embedder(suite, check.target)
    if embedder is None:
        from rejoinder.installing import install_hint

        return UsageError(
            f"case `{case_id}` compares meanings, and no target for embeddings is set",
            "Name one as `embedding_target` in the suite or in .rejoinder/config.yaml, for example"
            " openai/text-embedding-3-small, or as `target` of the check; or use a small model that runs here."
            f" {install_hint('semantic')}",
        )
    if not info_of(embedder.provider).embeds:
        return UsageError(
            f"target `{embedder.name}` has the provider `{embedder.provider}`, which gives no embeddings",
            f"The providers that do are {list_providers(embeds=True)}.",
        )
    return None


def find_target(suite: Suite, name: str) -> Target | None:
    """A target by name or as `provider/model`; the same object for every call with the same suite."""
    return suite.targets.get(name) or _model_target(suite.path, name)


@cache
def _model_target(suite: str, name: str) -> Target | None:  # noqa: ARG001 - suites share no target
    return resolve(name, {})


def find_embedder(suite: Suite, name: str | None) -> Target | None:
    """The embedding target of a check, else of the suite, else the model of wordllama."""
    wanted = name or suite.embedding_target or (wordllama.NAME if wordllama.is_installed() else None)
    return find_target(suite, wanted) if wanted else None


def judge_for(pair: Pair, name: str | None) -> Target | None:
    """The target that a check names as its judge, or the judge of the case."""
    return find_target(pair.suite, name) if name else pair.judge


def judges_of(pair: Pair) -> Iterator[Target]:
    """The targets of every judge of the case, in follow-ups too."""
    for check in walk_case(pair.case):
        if isinstance(check, Judged) and (judge := judge_for(pair, check.target)) is not None:
            yield judge


def user_of(pair: Pair) -> Target | None:
    """The target that plays the simulated user of a case, if there is one."""
    return find_target(pair.suite, pair.case.user.target) if pair.case.user is not None else None


def other_targets(pair: Pair, *, vectors: bool = True) -> Iterator[Target]:
    """Every target that a conversation may ask besides its own: for a simulated user, and for checks including judges.
    `vectors`: include targets for embeddings."""
    if (user := user_of(pair)) is not None:
        yield user
    for check in walk_case(pair.case):
        targets = (
            judge_for(pair, check.target) if isinstance(check, Judged) else None,
            find_target(pair.suite, check.other_target) if isinstance(check, Compare) and check.other_target else None,
            find_embedder(pair.suite, check.target) if isinstance(check, Semantic) and vectors else None,
        )
        yield from (target for target in targets if target is not None)


def schema_of(case: Case, kind: Kind, target: Target | None) -> str:
    """The output schema that a call of a case is sent with. A rival gets the schema of the case or the suite, or else
    its own, and not that of the target that it is compared with."""
    schema = case.output_schema
    if kind == "candidate":
        return "" if schema is None else schema.document
    if kind != "rival" or target is None:
        return ""
    return schema.document if schema is not None and not schema.of_target else target.output_schema or ""
