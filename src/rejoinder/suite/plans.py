"""Plans, users, conversation checks and sharded tasks of the model, built from a case's `turns`, `user`,
`conversation_checks` and `shards`. The schema has already validated the shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, Protocol

import msgspec
from msgspec import Struct, structs

from rejoinder.model import (
    MARKED,
    OVER_TIME,
    Attached,
    AttachedPicture,
    Case,
    Check,
    Condition,
    ConversationCheck,
    Extract,
    FilePart,
    ImagePart,
    Item,
    JsonSchema,
    Level,
    Message,
    OtherPart,
    Over,
    Plan,
    Quote,
    Step,
    User,
    Words,
    follow_ups_of,
)
from rejoinder.model.tools import Tool
from rejoinder.suite.assertions import ASSERTIONS, read_assertions, read_whole_assertions
from rejoinder.suite.checks import Texts, compile_path, compile_pattern, read_check, read_context, read_items
from rejoinder.suite.context import CaseDefaults
from rejoinder.suite.ready_followups import add_ready
from rejoinder.suite.replies import read_reply
from rejoinder.suite.schema import follow_up_key
from rejoinder.suite.templates import REPLIES_ALONE, Quotable

MOST_TURNS = 10
"""Of a simulated user, unless the author sets it."""
_INNER = {"after": ("when", "then"), "before": ("first", "second")}


class StepTexts(Texts, Protocol):
    """Reads the words of planned turns."""

    def message(self, value: dict[str, Any], at: str) -> Message: ...

    def tools(self, written: list[Any], at: str) -> tuple[Tool, ...]: ...

    def quoting(self, quotable: Quotable) -> None:
        """Set the names that later texts may quote."""
        ...

    def use_context(self, context: tuple[str, ...] | None) -> None:
        """Set what `{{ context }}` stands for in later texts; None: the case's context."""
        ...

    def warn(self, code: str, at: str, message: str) -> None: ...


class Course(Struct, frozen=True):
    """The course of a case's conversation, and its grading."""

    level: Level
    plan: Plan | None
    user: User | None
    whole: tuple[ConversationCheck, ...]
    output_schema: JsonSchema | None = None


At = Callable[[str], str]
"""The place of a key of the case."""


def read_course(
    data: dict[str, Any], items: tuple[Item, ...], defaults: CaseDefaults, at: At, texts: StepTexts
) -> Course:
    """`items`: the grading of the case, from the suite and the case."""
    ready = data.get("ready_followups", defaults.ready_followups)
    mode = data.get("followups", defaults.followups)
    plan, level = None, add_ready(Level(items, data.get("threshold")), ready, at("ready_followups"), mode)
    if data.get("turns"):
        steps = read_steps(data["turns"], at("turns"), texts, data.get("window_size"))
        plan = plan_of(data, steps, items)
        levels = [add_ready(step.level, ready, at("ready_followups"), mode) for step in plan.steps]
        pairs = zip(plan.steps, levels, strict=True)
        plan = structs.replace(plan, steps=tuple(_with_needs(structs.replace(step, level=one)) for step, one in pairs))
        level = levels[0]
    user = read_user(data["user"], at("user"), texts) if "user" in data else None
    texts.quoting(Quotable(checks=extracted_names(data)))
    whole = read_whole(defaults.conversation_checks, "conversation_checks", texts)
    whole += read_whole(data.get("conversation_checks", []), at("conversation_checks"), texts)
    for key in ASSERTIONS:
        whole += read_whole_assertions(data.get(key, []), at(key), texts)
    texts.quoting(REPLIES_ALONE)
    if plan is not None:
        _look_for_unused(plan.steps, whole, texts)
    return Course(level, plan, user, whole)


def extracted_names(data: dict[str, Any]) -> tuple[str, ...]:
    """The values that a case's turns extract, for the checks at its end."""
    turns = (turn for turn in data.get("turns", ()) if isinstance(turn, dict))
    return tuple(name for turn in turns for name in turn.get("extract", ()))


def _with_needs(step: Step) -> Step:
    return structs.replace(step, needs=tuple(sorted(_used_in(step))))


def _used_in(step: Step) -> set[str]:
    """The extracted values that a step uses in its words and checks."""
    own = {one.variable for one in step.extracts}
    quoted = {
        piece.name
        for words in step.says
        for piece in words.pieces
        if isinstance(piece, Quote) and piece.what == "extracted"
    }
    return (quoted | _marked_in(step.level)) - own


def _marked_in(value: Any) -> set[str]:
    return set(MARKED.findall(msgspec.json.encode(value).decode()))


def opening_words(data: dict[str, Any], at: At, texts: StepTexts) -> Iterator[tuple[Any, str]]:
    """The first words after `input_messages`, a prompt or messages, and their place."""
    if "input" in data:
        yield data["input"], at("input")
    if data.get("turns"):
        key, value = _words_of(data["turns"][0])
        place = f"{at('turns')}[0].{key}"
        if value is None:
            texts.problem("missing-field", place, _NO_WORDS)
        read_turn_context(data["turns"][0], f"{at('turns')}[0]", texts)
        yield "..." if value is None else value, place
        texts.use_context(None)
    if "user" in data and "opening" in data["user"]:
        yield data["user"]["opening"], f"{at('user')}.opening"


_NO_WORDS = "a turn needs a `prompt` or `messages`"

# Planned turns


def _words_of(turn: dict[str, Any]) -> tuple[str, Any]:
    key = next((key for key in ("prompt", "messages", "input") if key in turn), "prompt")
    return key, turn.get(key)


def read_steps(turns: Sequence[dict[str, Any]], at: str, texts: StepTexts, window: int | None) -> tuple[Step, ...]:
    """The planned turns, each with its own checks. The turns before a turn decide what it may quote."""
    steps: list[Step] = []
    replies: int | None = 0
    for position, turn in enumerate(turns):
        place = f"{at}[{position}]"
        context = read_turn_context(turn, place, texts)
        names = tuple(step.name for step in steps if step.name)
        extracted = tuple(one.variable for step in steps for one in step.extracts)
        texts.quoting(Quotable(names, extracted, replies, failures=False))
        says = () if position == 0 else _read_words(turn, place, texts)
        name, extracts = turn.get("name", ""), tuple(_read_extracts(turn.get("extract", {}), place, texts))
        if name and name in names:
            texts.problem("duplicate-id", f"{place}.name", f"two turns of this case are named `{name}`")
        own = tuple(one.variable for one in extracts)
        texts.quoting(Quotable((*names, *((name,) if name else ())), (*extracted, *own), checks=extracted))
        step = Step(
            at=place,
            level=Level(_read_checks(turn, place, texts)),
            name=name,
            says=says,
            expected=_read_expected(turn, place, texts),
            context=context,
            extracts=extracts,
            window_size=turn.get("window_size", window),
            reply=read_reply(turn["reply"], f"{place}.reply", texts) if "reply" in turn else None,
            tools=texts.tools(turn["tools"], f"{place}.tools") if "tools" in turn else None,
        )
        steps.append(step)
        replies = None if replies is None or any(follow_ups_of(step.level)) else replies + 1
    texts.use_context(None)
    texts.quoting(REPLIES_ALONE)
    return tuple(steps)


def read_turn_context(turn: dict[str, Any], at: str, texts: StepTexts) -> tuple[str, ...] | None:
    """The turn's own context, which `{{ context }}` in its texts stands for, instead of the case's."""
    texts.use_context(None)
    context = read_context(turn["context"], f"{at}.context", texts) if "context" in turn else None
    texts.use_context(context)
    return context


def _read_words(turn: dict[str, Any], at: str, texts: StepTexts) -> tuple[Words, ...]:
    key, value = _words_of(turn)
    if value is None:
        texts.problem("missing-field", f"{at}.prompt", _NO_WORDS)
        return (Words("user", ("",)),)
    if isinstance(value, list):
        said = tuple(_read_message(one, f"{at}.{key}[{place}]", texts) for place, one in enumerate(value))
        if said[-1].role != "user":
            texts.problem("no-user-words", f"{at}.{key}", "the last message of a turn has to be the user's")
        return said
    return (Words("user", texts.follow_up(value, f"{at}.{key}")),)


def _read_message(value: dict[str, Any], at: str, texts: StepTexts) -> Words:
    content = value["content"]
    if isinstance(content, str):
        return Words(value["role"], texts.follow_up(content, at))
    pieces: list[str | Quote | Attached | AttachedPicture] = []
    for place, part in enumerate(content):
        if pieces:
            pieces.append("\n")
        if isinstance(part, str) or part["type"] == "text":
            pieces += texts.follow_up(part if isinstance(part, str) else part["value"], f"{at}.content[{place}]")
            continue
        [read] = texts.message({"role": value["role"], "content": [part]}, f"{at}.content[{place}]").parts
        if isinstance(read, FilePart):
            pieces.append(Attached(read.path, read.text or ""))
        elif isinstance(read, ImagePart):
            pieces += [] if read.picture is None else [AttachedPicture(read.picture, read.resolved)]
        elif isinstance(read, OtherPart):
            texts.problem("wrong-type", read.at, f"a planned turn cannot have a part of type `{read.type}`")
    return Words(value["role"], tuple(pieces))


def _read_checks(turn: dict[str, Any], at: str, texts: StepTexts) -> tuple[Item, ...]:
    own = read_items(turn["checks"], f"{at}.checks", texts) if "checks" in turn else ()
    for key in ASSERTIONS:
        own += read_assertions(turn.get(key, []), f"{at}.{key}", texts)
    return own


def _read_expected(turn: dict[str, Any], at: str, texts: StepTexts) -> str | None:
    key = "expected" if "expected" in turn else "expected_output"
    value = turn.get(key)
    if isinstance(value, list):
        contents = [one["content"] for one in value if isinstance(one["content"], str)]
        value = contents[-1] if contents else None
    return None if value is None else texts.text(value, f"{at}.{key}")


def _read_extracts(extract: dict[str, Any], at: str, texts: StepTexts) -> Iterator[Extract]:
    for name, how in extract.items():
        place = f"{at}.extract.{name}"
        if ("json_path" in how) == ("regex" in how):
            texts.problem("missing-field", place, "say by one of `json_path` and `regex` what is to be extracted")
            continue
        path, pattern = how.get("json_path"), how.get("regex")
        if path is not None:
            compile_path(path, f"{place}.json_path", texts)
        else:
            compile_pattern(pattern, f"{place}.regex", texts)
        yield Extract(variable=name, path=path, pattern=pattern, weight=0.0, required=True, at=place)


def _look_for_unused(steps: Sequence[Step], whole: tuple[ConversationCheck, ...], texts: StepTexts) -> None:
    said = (follow_up.prompt for step in steps for follow_up in _every_follow_up(step.level))
    used = {piece.name for pieces in said for piece in pieces if isinstance(piece, Quote) and piece.what == "extracted"}
    used |= _marked_in(whole).union(*(_used_in(step) for step in steps))
    for step in steps:
        for extract in step.extracts:
            if extract.variable not in used:
                name = extract.variable
                message = f"`{name}` is extracted here, and no later turn or check has `{{{{ {name} }}}}`"
                texts.warn("unused-extract", extract.at, message)


def _every_follow_up(level: Level) -> Iterator[Any]:
    for follow_up in follow_ups_of(level):
        yield follow_up
        yield from _every_follow_up(follow_up.level)


def plan_of(data: dict[str, Any], steps: tuple[Step, ...], items: tuple[Item, ...]) -> Plan:
    """The plan of a case. Its own checks judge the last reply, and those with `every_turn` all of them."""
    kept = tuple(item for item in items if item.check is not None and item.check.every_turn)
    last = tuple(item for item in items if item not in kept)
    levels = [Level(step.level.items + kept) for step in steps]
    threshold = None if data.get("pass_steps") == "aggregate" else data.get("threshold")
    levels[-1] = Level(levels[-1].items + last, threshold)
    written = {key: data[key] for key in ("aggregation", "pass_steps", "threshold") if key in data}
    usual = "continue" if "mode" in data else "stop"
    return Plan(
        steps=tuple(structs.replace(step, level=level) for step, level in zip(steps, levels, strict=True)),
        on_failure=data.get("on_turn_failure", usual),
        **written,
    )


def look_for_unreachable(case: Case, texts: StepTexts) -> None:
    steps = case.plan.steps if case.plan is not None else ()
    if case.max_turns is not None and case.max_turns < len(steps):
        message = f"never said: `max_turns: {case.max_turns}` ends the conversation before this turn"
        texts.warn("unreachable-turn", steps[case.max_turns].at, message)


# Simulated users


def read_user(user: dict[str, Any], at: str, texts: StepTexts) -> User:
    words = {
        key: texts.text(user[key], f"{at}.{key}") for key in ("persona", "goal", "knows", "opening") if key in user
    }
    stop = user.get("stop")
    if stop is None:
        message = "nothing but `max_turns` ends this user; add `stop: DONE`, or a check of the reply as `stop`"
        texts.warn("user-without-stop", at, message)
    if not words.get("goal") and not words.get("persona"):
        texts.problem("missing-field", f"{at}.goal", "a simulated user needs a `goal` or a `persona`")
    reached = read_check(stop, f"{at}.stop", texts) if isinstance(stop, dict) else None
    if isinstance(stop, dict) and (reached is None or follow_up_key(stop) is not None):
        texts.problem("missing-field", f"{at}.stop", "`stop` is a word, or one check of the reply")
    return User(
        at=at,
        target=texts.target(user["target"], f"{at}.target"),
        manner=user.get("manner", "patient"),
        max_turns=user.get("max_turns", MOST_TURNS),
        stop=texts.text(stop, f"{at}.stop") if isinstance(stop, str) else None,
        reached=reached,
        audit=texts.target(user["audit"], f"{at}.audit") if "audit" in user else None,
        **words,
    )


# Checks of the whole


def read_whole(items: list[Any], at: str, texts: StepTexts) -> tuple[ConversationCheck, ...]:
    return tuple(_read_over(item, f"{at}[{place}]", texts) for place, item in enumerate(items))


def _read_over(item: dict[str, Any], at: str, texts: StepTexts) -> ConversationCheck:
    over: Over | None = next((key for key in OVER_TIME if key in item), None)
    shared = {key: item[key] for key in ("name", "weight", "required", "metric") if key in item}
    if over is None:
        for key in ("turns", "replies"):
            if key in item:
                texts.problem("no-effect", f"{at}.{key}", f"`{key}` belongs to {', '.join(OVER_TIME)}")
        check = read_check(item, at, texts) or _no_check(at, texts)
        on: Over = "transcript" if item.get("on") == "transcript" else "last"
        return ConversationCheck(over=on, checks=(check,), at=check.at or at, **shared)
    value, place = item[over], f"{at}.{over}"
    if over in _INNER:
        checks = tuple(_read_inner(value[key], f"{place}.{key}", texts) for key in _INNER[over])
    else:
        is_nested = over == "by_turn"
        checks = (_read_inner(value["check"] if is_nested else value, f"{place}.check" if is_nested else place, texts),)
    turns = item.get("turns")
    if turns is not None and turns[0] > turns[1]:
        texts.problem("out-of-range", f"{at}.turns", f"the first turn comes first: [{turns[1]}, {turns[0]}]")
    return ConversationCheck(
        over=over,
        checks=checks,
        at=place,
        turn=value.get("turn") if over == "by_turn" else None,
        turns=None if turns is None else (turns[0], turns[1]),
        final=item.get("replies") == "final",
        **shared,
    )


def _read_inner(item: dict[str, Any], at: str, texts: StepTexts) -> Check:
    return read_check(item, at, texts) or _no_check(at, texts)


def _no_check(at: str, texts: StepTexts) -> Check:
    texts.problem("missing-field", at, "this item has no check")
    return Check(at=at)


# Sharded tasks


def shard_conditions(case: dict[str, Any]) -> tuple[Condition, ...]:
    shards = case.get("shards")
    return tuple(shards.get("conditions", ("full", "concat", "sharded"))) if isinstance(shards, dict) else ()


def put_task(data: dict[str, Any], condition: Condition) -> dict[str, Any]:
    """A case that puts a sharded task in one form: whole, in one message of all pieces, or one piece per turn."""
    shards = data["shards"]
    rest = {key: value for key, value in data.items() if key != "shards"}
    if condition == "full":
        return {**rest, "prompt": shards["task"]}
    pieces = list(shards["pieces"])
    if shards.get("order") == "shuffled":
        later = pieces[1:]
        Random(shards.get("seed", 0)).shuffle(later)
        pieces = [pieces[0], *later]
    if condition == "concat":
        return {**rest, "prompt": "\n".join(f"- {piece}" for piece in pieces)}
    return {**rest, "turns": [{"prompt": piece} for piece in pieces]}
