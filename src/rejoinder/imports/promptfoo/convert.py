"""A configuration of promptfoo as a suite."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rejoinder.imports.promptfoo.assertions import Assertions
from rejoinder.imports.promptfoo.prompts import Prompt, Prompts, read_prompts
from rejoinder.imports.promptfoo.providers import Targets
from rejoinder.imports.promptfoo.shims import Shims
from rejoinder.imports.promptfoo.templates import has_marks, read_template
from rejoinder.imports.promptfoo.tests import Block, Shared, Test, read_tests, read_variables
from rejoinder.imports.promptfoo.words import Lost, Words, render, resolved, slug, whole
from rejoinder.imports.sources import SourceFile, Spot
from rejoinder.imports.texts import literal, literal_tree
from rejoinder.imports.workbench import Workbench
from rejoinder.yaml_text import Comment, Commented, without_comments

Entry = dict[Any, Any]

_READ = frozenset(
    (
        "description",
        "prompts",
        "providers",
        "targets",
        "tests",
        "defaultTest",
        "scenarios",
        "evaluateOptions",
        "$schema",
    )
)
_OF_THE_PROGRAM = frozenset(
    (
        "outputPath",
        "sharing",
        "writeLatestResults",
        "commandLineOptions",
        "tags",
        "metadata",
        "assertionTemplates",
        "outputs",
    )
)
"""Keys that change nothing in cases and checks."""
_OF_RUNS = frozenset(("maxConcurrency", "showProgressBar", "cache", "generateSuggestions"))
_HOW = {
    "repeat": "use `run --repeat N`",
    "delay": "set `rate` on the target",
    "tracing": "spans of a trace are not checked",
    "extensions": "hooks are code of promptfoo",
    "derivedMetrics": "sums of metrics are not computed",
    "nunjucksFilters": "filters are code, which an import does not run",
    "env": "set these variables in the environment or in a .env file",
}
_TEST_KEYS = frozenset(
    ("vars", "assert", "description", "options", "metadata", "threshold", "providers", "prompts", "provider", "metric")
)
_OPTIONS = frozenset(
    (
        "provider",
        "rubricPrompt",
        "prefix",
        "suffix",
        "disableVarExpansion",
        "disableDefaultAsserts",
        "runSerially",
        "showOutput",
        "includeMetrics",
        "transform",
        "postprocess",
    )
)
_DEFAULT_GRADER = "openai/gpt-5-mini"
_DEFAULT_EMBEDDINGS = "openai/text-embedding-3-large"
_NO_CHECK = "the source has no assertion: every reply passes"
_LONGEST_NAME = 200
_TODO = "TODO: write the prompt"


def convert(source: SourceFile, bench: Workbench) -> None:
    """Add the suite of a configuration. Raises ImportFault."""
    root = source.spot
    if not isinstance(root.value, dict):
        raise root.fault("a configuration of promptfoo is a mapping, and this is not")
    if "redteam" in root:
        raise root["redteam"].fault("red teaming has no form here, so this configuration is not imported")
    if not {"prompts", "providers", "targets", "tests"} & set(root.value):
        raise root.fault("this is not a configuration of promptfoo: it has neither `prompts`, `providers` nor `tests`")
    bench.suite(source, Conversion(root, bench).suite())


class Conversion:
    """One configuration on its way."""

    def __init__(self, root: Spot, bench: Workbench) -> None:
        self.root = root
        self.bench = bench
        self.words = Words()
        self.shims = Shims(bench)
        self.default = self._default_test()
        self.targets = Targets(bench, self.shims, self._constants())
        self.assertions = Assertions(bench, self.words, self.shims, self._grader)
        self.defaults, self._lost_defaults = read_variables(self.default["vars"], bench)
        """Variables of all tests."""
        self.above = {key: root[key].above() for key in root.value}
        """The comments above each key."""
        self.known: set[str] = set()
        """Names of variants."""
        self._steps: list[Spot] = []
        """The `transform` of all providers."""

    # The parts of the suite, in the order in which they are read

    def suite(self) -> Entry:
        self.targets.add_all(self.root["providers"] if "providers" in self.root else self.root["targets"])
        prompts = read_prompts(self.root["prompts"], self.bench)
        blocks = [*read_tests(self.root["tests"], self.bench, self._shared_lists()), *self._scenarios()]
        self.words.known = self._known(blocks)
        reply = self._shared_reply()
        checks = self._shared_checks()
        judges = self._judges()
        shape = Shape(self, prompts, blocks, graded=any(not isinstance(one, Comment) for one in checks))
        cases = shape.cases()  # they decide what the shared parts hold
        of_prompts = [*self._lines("prompts"), *prompts.comments]
        targets = {**self._target_keys(), **self._judge_keys(*judges), **self._threads()}
        variables = self._shared_variables(blocks)
        parts: list[tuple[list[Comment], Entry]] = [
            (self._lines("description"), self._description()),
            (self._without_form(), {}),
            (self._lines("providers", "targets"), targets),
            ([], {"vars": variables} if variables else {}),
            (of_prompts if shape.variants else [], {"variants": shape.variants} if shape.variants else {}),
            (self._lines("defaultTest"), {**reply, **_checked([*checks, *shape.shared_checks()])}),
            ([] if shape.variants else of_prompts, self._defaults_of(shape)),
            (self._lines("tests", "scenarios"), cases),
        ]
        suite: Entry = {}
        for comments, keys in parts:
            suite |= dict.fromkeys(comments) | keys
        return suite | dict.fromkeys(map(Comment, self.root.file.remarks.rest()))

    def _description(self) -> Entry:
        description = self.root["description"].value
        is_text = isinstance(description, str) and description.strip()
        return {"description": literal(str(description).strip())} if is_text else {}

    def _defaults_of(self, shape: Shape) -> Entry:
        defaults = {**shape.defaults, **self._shared_threshold()}
        return {"defaults": defaults} if defaults else {}

    def _lines(self, *keys: str) -> list[Comment]:
        """The comments above and beside keys of the configuration."""
        found: list[Comment] = []
        for key in keys:
            found += self.above.get(key, [])
            beside = self.root[key].beside() if key in self.root else None
            if beside:
                found.append(Comment(beside))
        return found

    def _without_form(self) -> list[Comment]:
        """Comments for the keys that have no form here."""
        found: list[Comment] = []
        for key in self.root.value:
            if key in _READ or key.startswith("x-"):
                continue
            found += self._lines(key)
            if key not in _OF_THE_PROGRAM:
                found.append(self.bench.ledger.leave_out(self.root[key], key, _HOW.get(key, "it has no form here")))
        for key, spot in self.root["evaluateOptions"].pairs:
            if key not in _OF_RUNS:
                how = _HOW.get(key, "it has no form here")
                found.append(self.bench.ledger.leave_out(spot, f"evaluateOptions {key}", how))
        return found

    def _default_test(self) -> Spot:
        spot = self.root["defaultTest"]
        if isinstance(spot.value, str) and spot.value.startswith("file://"):
            path = spot.locate(spot.value.removeprefix("file://"))
            return spot.file.folder.read(path).spot
        return spot

    def _constants(self) -> dict[str, str]:
        """Variables that all tests have with the same text; none if tests are in other files."""
        shared = dict(self.default["vars"].pairs)
        each = [{**shared, **dict(test["vars"].pairs)} for test in self.root["tests"].items]
        if not all(isinstance(test.value, dict) for test in self.root["tests"].items) or not each:
            return {}
        return {
            name: spot.value
            for name, spot in each[0].items()
            if isinstance(spot.value, str)
            and not has_marks(spot.value)
            and "://" not in spot.value
            and all(name in one and one[name].value == spot.value for one in each)
        }

    def _shared_lists(self) -> Shared:
        lists = {name: value for name, value in self.defaults.items() if isinstance(value, list)}
        as_written = bool(self.default["options"]["disableVarExpansion"].value)
        return Shared({} if as_written else lists, as_written)

    # Targets

    def _target_keys(self) -> Entry:
        names = list(dict.fromkeys(self.targets.answering))
        keys: Entry = {}
        if names:
            keys["target"] = names[0] if len(names) == 1 else names
        if self.targets.written:
            only_comments = all(isinstance(one, Comment) for one in self.targets.written)
            if only_comments:
                return dict.fromkeys(self.targets.written) | keys
            keys["targets"] = self.targets.written
        return keys

    def _grader(self, spot: Spot, embeds: bool) -> str | None:
        value = spot.value
        if isinstance(value, dict) and not {"id"} & set(value) and {"text", "embedding"} & set(value):
            spot = spot["embedding" if embeds else "text"]
            if spot.value is None:
                return None
        if isinstance(spot.value, str) and spot.value in self.targets.called:
            return self.targets.called[spot.value][0]
        return self.targets.add(spot)

    def _judges(self) -> tuple[str | None, str | None]:
        provider = self.default["options"]["provider"]
        if provider.value is None:
            provider = self.default["provider"]
        if provider.value is None:
            return None, None
        has_both = isinstance(provider.value, dict) and {"text", "embedding"} & set(provider.value)
        return self._grader(provider, False), (self._grader(provider, True) if has_both else None)

    def _judge_keys(self, judge: str | None, embedding: str | None) -> Entry:
        keys: Entry = {}
        if self.assertions.judges or judge is not None:
            keys["judge_target"] = judge or Commented(_DEFAULT_GRADER, "the source leaves the choice to promptfoo")
        if self.assertions.embeds:
            keys["embedding_target"] = embedding or _DEFAULT_EMBEDDINGS
        return keys

    def _threads(self) -> Entry:
        number = self.root["evaluateOptions"]["maxConcurrency"].value
        return {"metadata": {"threads": number}} if isinstance(number, int) and number > 0 else {}

    # Shared parts of the tests

    def _shared_checks(self) -> list[Any]:
        checks: list[Any] = []
        rubric = self._rubric(self.default)
        for spot in self.default["assert"].items:
            checks += self.assertions.convert(spot, None, rubric)
        checks += self.lost_keys(self.default)
        return checks

    def _shared_reply(self) -> Entry:
        """The part of the replies that is checked: what the `transform` of all providers, and of all tests, makes."""
        self._steps = self.targets.shared_transform()
        steps = [*self._steps, *_transform_of(self.default)]
        self.shims.transforms = bool(steps)
        return self._reply(steps)

    def _reply(self, steps: list[Spot]) -> Entry:
        if not steps:
            return {}
        try:
            part = self.shims.part(steps)
        except Lost as lost:
            return {self.bench.ledger.leave_out(steps[-1], f"transform {lost.what}", lost.how): None}
        for spot in steps:
            self.bench.ledger.map(spot)
        return {"reply": part}

    def reply_of(self, test: Test) -> Entry:
        """The part of the replies of one test, if it has a `transform` of its own."""
        own = _transform_of(test.spot)
        return self._reply([*self._steps, *own]) if own else {}

    def _shared_threshold(self) -> Entry:
        value = self.default["threshold"].value
        return {"threshold": whole(value)} if isinstance(value, int | float) and 0 <= value <= 1 else {}

    def _shared_variables(self, blocks: list[Block]) -> Entry:
        """Variables of all tests, and empty ones for names that some test lacks: there they stand for nothing."""
        variables: Entry = {name: self._filled(value, self.defaults) for name, value in self.defaults.items()}
        variables |= dict.fromkeys(self._lost_defaults)
        tests = [test for block in blocks for test in block.tests]
        nothing = "TODO" if self.words.known is None else ""
        for name in sorted(self.words.used - {*self.defaults, *self.words.rendered}):
            if not tests or not all(name in test.vars for test in tests):
                variables[name] = nothing
        return variables if any(isinstance(name, str) for name in variables) else {}

    def _known(self, blocks: list[Block]) -> set[str] | None:
        """The variables of all tests; None if some tests could not be read, or there are none."""
        if not blocks or not all(block.tests for block in blocks):
            return None
        return {*self.defaults, *(name for block in blocks for test in block.tests for name in test.vars)}

    def _rubric(self, spot: Spot) -> str | None:
        value = spot["options"]["rubricPrompt"].value
        return value if value is None or isinstance(value, str) else json.dumps(value)

    def lost_keys(self, spot: Spot) -> list[Comment]:
        """Comments for the keys and options of a test that have no form here."""
        found: list[Comment] = []
        for key, one in spot.pairs:
            if key not in _TEST_KEYS:
                found.append(self.bench.ledger.leave_out(one, key, "it has no form here"))
        for key, one in spot["options"].pairs:
            if key not in _OPTIONS and one.value:
                found.append(self.bench.ledger.leave_out(one, f"option {key}", "it has no form here"))
        return found

    def _scenarios(self) -> list[Block]:
        """Every test of a scenario with each of its configurations."""
        blocks: list[Block] = []
        for scenario in self.root["scenarios"].items:
            comment = self.bench.ledger.leave_out(scenario, "a scenario", "write its tests out, or use a data set")
            blocks.append(Block(scenario, (), comments=(*scenario.above(), comment)))
        return blocks

    def case_checks(self, test: Test, variables: Mapping[str, Any]) -> list[Any]:
        rubric = self._rubric(test.spot) or self._rubric(self.default)
        checks: list[Any] = []
        shared = self.shims.transforms
        self.shims.transforms |= bool(_transform_of(test.spot))
        for spot in test.asserts:
            checks += self.assertions.convert(spot, variables, rubric)
        self.shims.transforms = shared
        return checks

    def own_keys(self, test: Test) -> Entry:
        """The keys of a test beside its variables and checks."""
        keys: Entry = {}
        description = test.spot["description"].value
        if isinstance(description, str) and description.strip():
            keys["name"] = " ".join(description.split())[:_LONGEST_NAME]
        return keys

    def options_of(self, test: Test) -> Entry:
        keys: Entry = {}
        execution: Entry = {}
        providers = test.spot["providers"].value
        if isinstance(providers, list) and providers:
            names = [name for one in providers for name in self.targets.called.get(str(one), [])]
            if names:
                execution["target"] = names[0] if len(names) == 1 else names
        grader = test.spot["options"]["provider"]
        if grader.value is not None:
            name = self._grader(grader, False)
            if name is not None:
                execution["judge_target"] = name
        if execution:
            keys["execution"] = execution
        keys |= self.reply_of(test)
        threshold = test.spot["threshold"].value
        if isinstance(threshold, int | float) and not isinstance(threshold, bool) and 0 <= threshold <= 1:
            keys["threshold"] = whole(threshold)
        metadata = test.spot["metadata"].value
        if isinstance(metadata, dict) and metadata:
            keys["metadata"] = literal_tree(metadata)
        return keys

    def variables_of(self, test: Test, all_of_them: Mapping[str, Any]) -> Entry:
        variables: Entry = {name: self._filled(value, all_of_them) for name, value in test.vars.items()}
        for name, template in self.words.rendered.items():
            try:
                variables[name] = literal(render(template, all_of_them))
            except Lost as lost:
                variables[name] = "TODO"
                variables[self.bench.ledger.leave_out(test.spot, lost.what, lost.how)] = None
        return variables

    def _filled(self, value: Any, variables: Mapping[str, Any]) -> Any:
        if isinstance(value, str):
            try:
                return self.words.fill(value, variables, in_variables=True)
            except Lost:
                return literal(value)
        return literal_tree(value)


class Shape:
    """The form in which prompts and tests meet: one prompt for all, variants, or a case for each prompt."""

    def __init__(self, conversion: Conversion, prompts: Prompts, blocks: list[Block], *, graded: bool) -> None:
        """`graded`: whether all cases share a check."""
        self.of = conversion
        self.prompts = prompts.prompts
        self.blocks = blocks
        self.tests = [test for block in blocks for test in block.tests]
        self.variants: list[Any] = []
        self.defaults: Entry = {}
        self.is_graded = graded
        self._graded = False
        self._ungraded: list[Entry] = []
        """Cases without a check of their own."""
        self._rows: dict[str, list[Entry]] = {}
        """Cases that are written to data sets, by their names."""
        self._files: dict[str, Entry] = {}
        self._multiplied = self._is_multiplied()
        self._prompt = self._prepare()

    def _is_multiplied(self) -> bool:
        if not self.prompts:
            return False
        if self.of.targets.prompts or any(test.spot["prompts"].value for test in self.tests):
            return True
        if any(
            test.spot["options"][key].value
            for test in (*self.tests, _Default(self.of.default))
            for key in ("prefix", "suffix")
        ):
            return True
        return len(self.prompts) > 1 and not all(_fits_variant(one) for one in self.prompts)

    def _prepare(self) -> Entry:
        """The keys of the only prompt, for the case or for all; empty if there are several."""
        if self._multiplied:
            return {}
        if len(self.prompts) > 1:
            for prompt in self.prompts:
                self._add_variant(prompt)
            return {}
        if not self.prompts:
            if "prompts" not in self.of.root:
                return {"prompt": _sent(self.of.words.fill("{{prompt}}", None))}
            return {"prompt": _TODO}
        return self._keys(self.prompts[0], None)

    def _add_variant(self, prompt: Prompt) -> None:
        name = slug(prompt.label or prompt.text[:30], self.of.known, "prompt")
        self.variants.append({"name": name, **self._keys(prompt, None)})

    def _keys(self, prompt: Prompt, variables: Mapping[str, Any] | None, options: Spot | None = None) -> Entry:
        """A prompt as keys of a case or a variant."""
        try:
            return self._filled(prompt, variables, options)
        except Lost as lost:
            comment = self.of.bench.ledger.leave_out(prompt.spot, lost.what, lost.how)
            return {comment: None, "prompt": _TODO}

    def _filled(self, prompt: Prompt, variables: Mapping[str, Any] | None, options: Spot | None) -> Entry:
        fill = self.of.words.fill
        if any("_conversation" in text for text in prompt.texts):
            raise Lost("_conversation", "write the conversation as `turns`")
        if prompt.messages:
            said = [(role, fill(text, variables)) for role, text in prompt.messages]
            roles = [role for role, _ in said]
            if roles == ["user"]:
                return {"prompt": _sent(said[0][1])}
            if roles == ["system", "user"] and said[0][1].strip():
                return {"system_prompt": said[0][1].strip(), "prompt": _sent(said[1][1])}
            return {"input_messages": [{"role": role, "content": _sent(text)} for role, text in said]}
        around = [options[key].value if options is not None else None for key in ("prefix", "suffix")]
        default = [self.of.default["options"][key].value for key in ("prefix", "suffix")]
        before, after = (own or shared or "" for own, shared in zip(around, default, strict=True))
        if prompt.file is not None and not (before or after) and _is_ours(prompt.text):
            self.of.words.used |= read_template(prompt.text).names
            return {"prompt": {"file": self.of.bench.reference(prompt.spot, prompt.file)}}
        text = f"{before}{prompt.text}{after}"
        return {"prompt": _sent(fill(text, variables))}

    # Cases

    def cases(self) -> Entry:
        blocks = list(self.blocks)
        if not self.tests:
            blocks.append(Block(self.of.root["tests"], (Test(self.of.root["tests"], {}),)))
        in_files = all(self._stays_file(block) for block in blocks)
        alone = not in_files and not self.variants and sum(len(block.tests) for block in blocks) == 1
        if not alone:
            self.defaults |= self._prompt
        written: list[Any] = []
        for block in blocks:
            written += block.comments
            written += self._of_file(block) if self._stays_file(block) else self._of_tests(block, alone=alone)
        self._grade()
        for name, rows in self._rows.items():
            text = "".join(f"{json.dumps(without_comments(row), ensure_ascii=False)}\n" for row in rows)
            self._files[name]["cases"] = self.of.bench.beside(name, text)
        if all(isinstance(one, dict) and set(one) == {"cases"} for one in written):
            files = [one["cases"] for one in written]
            return {"cases": files[0] if len(files) == 1 else files}
        return {"evals": _apart(written)}

    def _grade(self) -> None:
        """Add a check that always passes to cases that lack one, unless the suite gets it."""
        if self._graded or self.is_graded:
            for entry in [] if self.is_graded else self._ungraded:
                entry["checks"] = [*entry.get("checks", []), Commented({"min_words": 0}, _NO_CHECK)]

    def shared_checks(self) -> list[Any]:
        """The check of a suite that has no other."""
        no_check = not self._graded and not self.is_graded
        return [Commented({"min_words": 0}, _NO_CHECK)] if no_check else []

    def _stays_file(self, block: Block) -> bool:
        return block.is_data and bool(block.tests) and not self._multiplied and not self.of.words.rendered

    def _of_file(self, block: Block) -> list[Any]:
        """A data set that is used unchanged."""
        assert block.path is not None
        self.of.bench.ledger.count_cases(len(block.tests))
        self.of.bench.ledger.map(block.spot)
        entry: Entry = {"cases": self.of.bench.reference(block.spot, block.path)}
        self._ungraded.append(entry)
        return [*block.spot.above(), entry]

    def _of_tests(self, block: Block, *, alone: bool) -> list[Any]:
        entries = [entry for test in block.tests for entry in self._entries(test, alone=alone)]
        self.of.bench.ledger.count_cases(len(entries))
        if block.path is None or block.path.suffix.lower() not in (".csv", ".jsonl", ".ndjson"):
            return entries
        name = f"{block.path.stem}.cases.jsonl"
        self._rows.setdefault(name, []).extend(entries)
        if name in self._files:
            return []
        self._files[name] = {}
        return [*block.spot.above(), self._files[name]]

    def _entries(self, test: Test, *, alone: bool) -> list[Entry]:
        """The cases of a test: one, or one for each prompt."""
        variables = resolved({**self.of.defaults, **test.vars})
        entry: Entry = dict.fromkeys(test.spot.above()) if test.first else {}
        entry |= dict.fromkeys(test.comments) if test.first else {}
        beside = test.spot.beside() if test.first else None
        if beside:
            entry[Comment(beside)] = None
        entry |= self.of.own_keys(test)
        checks = self.of.case_checks(test, variables)
        checks += self.of.lost_keys(test.spot) if test.first else []
        if not self._multiplied:
            return [self._finished({**entry, **(self._prompt if alone else {})}, test, variables, checks, None)]
        options = test.spot["options"]
        return [
            self._finished({**entry, **self._keys(prompt, None, options)}, test, variables, checks, prompt)
            for prompt in self._prompts_of(test)
        ]

    def _finished(
        self, entry: Entry, test: Test, variables: Mapping[str, Any], checks: list[Any], prompt: Prompt | None
    ) -> Entry:
        written = self.of.variables_of(test, variables)
        if written:
            entry["vars"] = written
        entry |= self.of.options_of(test)
        if prompt is not None and "execution" not in entry:
            entry |= self._limited_to(prompt)
        if test.first and test.spot.path != ("tests",):
            entry |= dict.fromkeys(test.spot.within())
        if all(isinstance(one, Comment) for one in checks):
            entry |= dict.fromkeys(checks)
            self._ungraded.append(entry)
        else:
            self._graded = True
            entry["checks"] = checks
        if all(isinstance(key, Comment) for key in entry):
            entry["id"] = slug("case", self.of.known, "case")
        return entry

    def _limited_to(self, prompt: Prompt) -> Entry:
        """The targets that send a prompt, where not all do."""
        answering = list(dict.fromkeys(self.of.targets.answering))
        targets = [name for name in answering if self._sends(name, prompt)]
        if not targets or len(targets) == len(answering):
            return {}
        return {"execution": {"target": targets[0] if len(targets) == 1 else targets}}

    def _prompts_of(self, test: Test) -> list[Prompt]:
        wanted = test.spot["prompts"].value
        chosen = [one for one in self.prompts if not isinstance(wanted, list) or _is_called(one, wanted)]
        if self.of.targets.prompts:
            chosen = [one for one in chosen if any(self._sends(name, one) for name in self.of.targets.answering)]
        return chosen or list(self.prompts[:1])

    def _sends(self, target: str, prompt: Prompt) -> bool:
        limited = self.of.targets.prompts.get(target)
        return limited is None or not isinstance(limited.value, list) or _is_called(prompt, limited.value)


def _transform_of(spot: Spot) -> list[Spot]:
    """The code that changes the replies of a test; `postprocess` is its former name."""
    options = spot["options"]
    return [options[key] for key in ("transform", "postprocess") if options[key].value][:1]


class _Default:
    """The default test, which has options as tests do."""

    def __init__(self, spot: Spot) -> None:
        self.spot = spot


def _is_called(prompt: Prompt, names: list[Any]) -> bool:
    return any(
        isinstance(name, str)
        and (
            name in prompt.names
            or (name.endswith("*") and any(one.startswith(name[:-1]) for one in prompt.names if one))
        )
        for name in names
    )


def _checked(checks: list[Any]) -> Entry:
    """The checks of all cases; comments without a check make no list."""
    return dict.fromkeys(checks) if all(isinstance(one, Comment) for one in checks) else {"checks": checks}


def _fits_variant(prompt: Prompt) -> bool:
    return [role for role, _ in prompt.messages] in ([], ["user"], ["system", "user"])


def _is_ours(text: str) -> bool:
    """Whether a file of this text means the same here."""
    try:
        template = read_template(text)
    except Exception:
        return False
    return (
        bool(text.strip())
        and not _is_json(text)
        and template.is_plain
        and "env" not in template.names
        and not any(isinstance(node, str) and "{{" in node for node in template.nodes)
    )


def _is_json(text: str) -> bool:
    if text.lstrip()[:1] not in ("[", "{", '"'):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _sent(text: str) -> str:
    """A prompt without the white space around it, which is not sent."""
    return text.strip() or _TODO


def _apart(entries: list[Any]) -> list[Any]:
    """Cases with empty lines between them, if they are long."""
    long = any(isinstance(one, dict) and len(one) > 1 for one in entries)
    apart: list[Any] = []
    for place, entry in enumerate(entries):
        if place and long and not isinstance(entries[place - 1], Comment):
            apart.append(Comment(""))
        apart.append(entry)
    return apart
