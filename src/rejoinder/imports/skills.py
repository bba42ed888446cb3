"""Evals of Agent Skills, `evals/evals.json`: a suite for an agent that has the skill, and for one that has not.

The guide of agentskills.io describes the form, and authors vary it: the keys that are read here were found in public
files. A key that is not known is kept as metadata, because a label is harmless; that nothing checks it is reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rejoinder.imports.sources import ImportFault, SourceFile, Spot
from rejoinder.imports.texts import Ids, literal, literal_tree, text_at
from rejoinder.imports.workbench import Workbench
from rejoinder.project.files import in_quotes
from rejoinder.yaml_text import Comment

_LISTS = ("evals", "test_cases", "cases", "tests", "queries")
_PROMPTS = ("prompt", "query", "input", "task", "question")
_OUTCOMES = ("expected_output", "expected_outcome", "expected_behavior", "expected", "outcome")
_CRITERIA = ("assertions", "expectations", "expected_behavior", "expect", "criteria", "success_criteria")
_SENTENCES = ("text", "description", "assertion", "expectation", "criterion", "statement", "check", "name")
_LABELS = frozenset({"difficulty", "priority", "type", "domain", "notes", "note", "rationale", "source", "version"})
"""Keys that describe a case, and ask for nothing."""
_TOP = frozenset({*_LISTS, "skill_name", "skill", "name", "description"})
_PARTS = frozenset({"SKILL.md", "references", "scripts", "assets"})
"""The files and folders of a skill by its specification: an agent that has the skill has them."""
_FOLDER = "evals"
"""The folder of the file, inside the skill's."""
_USUAL_JUDGE = "anthropic/claude-haiku-4-5"
_AGENT = {"provider": "claude"}
_PERMISSIONS = Comment("permissions: { edit: allow, execute: allow } # if the skill writes files or runs scripts")


def convert(source: SourceFile, bench: Workbench) -> None:
    """Make the suite of an `evals.json`. Raises ImportFault."""
    top = source.spot
    evals = _evals(top)
    name = text_at(top, "skill_name", "skill", "name")
    suite: dict[Any, Any] = {Comment(line): None for line in _about(name)}
    if name is not None:
        suite["name"] = literal(name.value)
        bench.ledger.map(name)
    if (description := text_at(top, "description")) is not None:
        suite["description"] = literal(description.value)
        bench.ledger.map(description)
    for key, spot in top.pairs:
        if key in _LABELS and isinstance(spot.value, str | int | float):
            bench.ledger.map(spot)
            suite[Comment(f"{key}: {spot.value}")] = None
        elif key not in _TOP:
            suite[bench.ledger.leave_out(spot, f"`{key}`", "a suite has nothing like it")] = None
    suite |= _targets(source, bench, top)
    folder = _skill_folder(source)
    skill = literal(name.value) if name is not None else folder.name if folder is not None else None
    reader = _Reader(source, bench, skill)
    suite["evals"] = [case for spot in evals for case in reader.case(spot)]
    bench.ledger.count_cases(reader.cases)
    if not reader.cases:
        raise top.fault("none of its evals has a prompt", f"An eval has one of the keys {', '.join(_PROMPTS)}.")
    bench.suite(source, suite)


def _evals(top: Spot) -> list[Spot]:
    found = top if isinstance(top.value, list) else next((top[key] for key in _LISTS if key in top), None)
    if found is None or not isinstance(found.value, list):
        raise top.fault("this is not a file of a skill's evals", "Such a file has a list `evals`.")
    evals = list(found.items)
    if not any(isinstance(spot.value, dict) for spot in evals):
        raise found.fault("there are no evals in it")
    return evals


def _about(name: Spot | None) -> Iterator[str]:
    skill = "a skill" if name is None else f"the skill {literal(name.value)}"
    yield f"Evals of {skill}. To see what the skill changes, run them without it, too:"
    yield "  rejoinder run evals.yaml -m with-skill,without-skill"


def _targets(source: SourceFile, bench: Workbench, top: Spot) -> dict[Any, Any]:
    """The agent with the skill, and without it."""
    folder = _skill_folder(source)
    with_skill: dict[Any, Any] = {"name": "with-skill", **_AGENT}
    if folder is None:
        how = "no SKILL.md was found in the imported folder; name the skill's folder here: `skills: [PATH]`"
        with_skill[bench.ledger.approximate(top, "the agent with the skill", how)] = None
    else:
        with_skill["skills"] = [bench.link(top, folder)]
    with_skill[_PERMISSIONS] = None
    without = {"name": "without-skill", **_AGENT, Comment(_PERMISSIONS.text): None}
    return {"targets": [with_skill, without], "target": "with-skill", "judge_target": _USUAL_JUDGE}


def _skill_folder(source: SourceFile) -> Path | None:
    """The nearest folder above with a SKILL.md."""
    root = source.folder.root
    above = (folder for folder in source.path.parents if folder.is_relative_to(root))
    return next((folder for folder in above if (folder / "SKILL.md").is_file()), None)


class _Reader:
    """Evals as cases."""

    def __init__(self, source: SourceFile, bench: Workbench, skill: str | None) -> None:
        self.bench = bench
        self.ledger = bench.ledger
        self.skill = skill
        self.ids = Ids()
        self.cases = 0
        folder = source.path.parent
        self.base = (_skill_folder(source) or (folder.parent if folder.name == _FOLDER else folder)) / "SKILL.md"
        """Paths of files are relative to its folder."""

    def case(self, spot: Spot) -> Iterator[Any]:
        """The case of an eval, or the comment in its place."""
        prompt = text_at(spot, *_PROMPTS)
        if prompt is None:
            yield self.ledger.leave_out(spot, "an eval", "it has no prompt")
            return
        self.cases += 1
        self.ledger.map(prompt)
        case: dict[Any, Any] = dict.fromkeys(spot.above())
        case["id"] = self.ids.take(spot["id"], f"eval-{self.cases}")
        case |= self._words(spot)
        case |= self._prompt(spot, prompt)
        used = {*self._graded(spot, case), prompt.path[-1], "should_trigger"}
        case |= self._rest(spot, used)
        yield case

    def _words(self, spot: Spot) -> dict[Any, Any]:
        """Name, description and tags."""
        case: dict[Any, Any] = {}
        for key, names in {"name": ("name", "title"), "description": ("description", "intent")}.items():
            if (found := text_at(spot, *names)) is not None:
                case[key] = literal(found.value)
                self.ledger.map(found)
        labels = [one for key in ("category", "tags") for one in spot[key].items]
        tags = dict.fromkeys(literal(str(one.value)) for one in labels if isinstance(one.value, str | int))
        return case | ({"tags": list(tags)} if tags else {})

    def _prompt(self, spot: Spot, prompt: Spot) -> dict[Any, Any]:
        """The prompt, with the files that come with it."""
        parts: list[Any] = [literal(prompt.value)]
        for file in (one for key in ("files", "input_files") for one in spot[key].items):
            parts.append(self._file(file))
        if len(parts) == 1:
            return {"prompt": parts[0]}
        if all(isinstance(part, str | Comment) for part in parts):
            return {**dict.fromkeys(parts[1:]), "prompt": parts[0]}
        return {"input_messages": [{"role": "user", "content": parts}]}

    def _file(self, spot: Spot) -> Any:
        """A part of the message, or the comment in its place."""
        named = spot if isinstance(spot.value, str) else text_at(spot, "path", "file", "name")
        if named is None:
            return self.ledger.leave_out(spot, "a file", "it has no path")
        path = self._located(named)
        if isinstance(path, Comment):
            return path
        self.ledger.map(spot)
        return {"type": "file", "value": self.bench.link(named, path)}

    def _located(self, spot: Spot) -> Path | Comment:
        """The file that is named: relative to the skill, or to the file of the evals."""
        what = f"the file {in_quotes(spot.value)}"
        try:
            paths = [spot.locate(spot.value, self.base), spot.locate(spot.value)]
        except ImportFault as fault:
            return self.ledger.leave_out(spot, "a file", fault.what)
        found = next((path for path in paths if path.exists()), None)
        if found is None:
            return self.ledger.leave_out(spot, what, "it does not exist")
        if found.is_relative_to(self.base.parent) and _PARTS & {*found.relative_to(self.base.parent).parts[:1]}:
            return self.ledger.leave_out(spot, what, "it is part of the skill, which the agent has")
        if found.is_dir():
            return self.ledger.leave_out(spot, what, "it is a folder: name it as `workspace_template` of the targets")
        return found

    def _graded(self, spot: Spot, case: dict[Any, Any]) -> Iterator[str]:
        """Add what a good reply does; the keys that say it."""
        outcome = text_at(spot, *_OUTCOMES)
        if outcome is not None:
            case["outcome"] = literal(outcome.value)
            self.ledger.map(outcome)
            yield str(outcome.path[-1])
        criteria: list[Any] = []
        for key in _CRITERIA:
            if isinstance(spot[key].value, list):
                criteria += self._criteria(spot[key])
                yield key
        checks = [*self._trigger(spot["should_trigger"])]
        if any(not isinstance(one, Comment) for one in criteria):
            checks.append({"rubric": criteria})
        else:
            case |= dict.fromkeys(criteria)
            if outcome is not None and checks:
                checks.append({"llm_judge": case["outcome"]})
        if outcome is None and not checks:
            checks = [Comment("the eval says nothing about a good reply"), {"min_words": 0}]
        if checks:
            case["checks"] = checks

    def _trigger(self, spot: Spot) -> Iterator[Any]:
        """The check that the agent uses the skill, or does not."""
        if not isinstance(spot.value, bool):
            return
        if self.skill is None:
            yield self.ledger.leave_out(spot, "`should_trigger`", "the file does not name the skill")
            return
        self.ledger.map(spot)
        used = {"skill_used": self.skill}
        yield used if spot.value else {"not": used}

    def _criteria(self, spot: Spot) -> Iterator[Any]:
        names = Ids()
        for one in spot.items:
            sentence = one if isinstance(one.value, str) else text_at(one, *_SENTENCES)
            if sentence is None or not sentence.value.strip():
                yield self.ledger.leave_out(one, "an assertion", "it has no words")
                continue
            self.ledger.map(one)
            criterion: dict[Any, Any] = {}
            if (name := text_at(one, "id", "name")) is not None and name.path != sentence.path:
                criterion["id"] = names.take(name, "")
            criterion["criterion"] = literal(sentence.value)
            criterion |= self._options(one, sentence)
            yield criterion if len(criterion) > 1 else criterion["criterion"]

    def _options(self, spot: Spot, sentence: Spot) -> dict[Any, Any]:
        """The other keys of an assertion: its weight, or comments."""
        options: dict[Any, Any] = {}
        for key, one in spot.pairs:
            is_weight = isinstance(one.value, int | float) and not isinstance(one.value, bool) and one.value > 0
            if key in {"id", "name", "type", "kind"} or one.path == sentence.path:
                continue
            if key == "weight" and is_weight:
                options["weight"] = one.value
            else:
                options[self.ledger.leave_out(one, f"`{key}` of an assertion", "a criterion has nothing like it")] = (
                    None
                )
        return options

    def _rest(self, spot: Spot, used: set[Any]) -> dict[Any, Any]:
        """The keys without a meaning here, as metadata."""
        read = {"id", "name", "title", "description", "intent", "category", "tags", "files", "input_files", *used}
        kept: dict[Any, Any] = {}
        for key, one in spot.pairs:
            if key in read or one.value in (None, "", [], {}):
                continue
            if key in _LABELS:
                self.ledger.map(one)
            else:
                kept[self.ledger.approximate(one, f"`{key}`", "it is kept as metadata, and nothing checks it")] = None
            kept[literal(key)] = literal_tree(one.value)
        return {"metadata": kept} if kept else {}
