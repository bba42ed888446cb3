"""An eval of AgentV 4 or 5 as a suite."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from rejoinder.imports.agentv.assertions import PASSES, Assertions, CaseFacts, needs_case
from rejoinder.imports.agentv.graders import Graders
from rejoinder.imports.agentv.messages import Messages, joined
from rejoinder.imports.agentv.prompts import Prompt, read_prompts
from rejoinder.imports.agentv.targets import Targets, read_workspace
from rejoinder.imports.agentv.tests import MOST_CASES, Test, Tests
from rejoinder.imports.agentv.words import Words, variables_of
from rejoinder.imports.promptfoo.words import Lost, slug, whole
from rejoinder.imports.sources import SourceFile, Spot
from rejoinder.imports.texts import Ids, literal, literal_tree
from rejoinder.imports.verified import refusal_of_suite
from rejoinder.imports.workbench import Workbench
from rejoinder.yaml_text import Comment, Commented

Entry = dict[Any, Any]

_TESTS = ("tests", "eval_cases", "evalcases")
_MODERN = frozenset({"prompts", "providers", "default_test", "evaluate_options", "environment", "scenarios", "assert"})
"""Keys of AgentV 5."""
_LABELS = frozenset({"version", "author", "license", "category", "requires"})
"""Keys that describe an eval, and ask for nothing."""
_READ = frozenset(
    {*_TESTS, "scenarios", "$schema", "name", "description", "tags", "input", "input_files", "target", "providers"}
    | {"prompts", "assertions", "assert", "evaluators", "execution", "workspace", "environment", "metadata"}
    | {"governance", "default_test", "evaluate_options", "threshold", "evaluator", "suite"}
)
_HOW = {
    "extensions": "hooks are code of AgentV",
    "preprocessors": "files are sent unchanged",
    "defaults": "AgentV reads it in .agentv/config.yaml only",
    "nunjucks_filters": "filters are code, which an import does not run",
    "derived_metrics": "sums of metrics are not computed",
    "env": "set these variables in the environment or in a .env file",
    "output_path": "use `run --out`",
    "timeout_seconds": "set it on the target",
}
_OF_RUNS = {
    "cache": "replies of models are kept by `run --cache`",
    "fail_on_error": "use `run --fail-fast`",
    "delay": "set `rate` on the target",
    "timeout_ms": "set `timeout_seconds` on the target",
    "max_eval_time_ms": "set `timeout_seconds` on the target",
    "filter_range": "use `run --case`",
    "generate_suggestions": "nothing here is like it",
}
_OF_EXECUTION = frozenset(
    {"target", "targets", "trials", "repeat", "threshold", "assertions", "assert", "evaluators", "skip_defaults"}
)
"""Keys of `execution` that are read elsewhere."""
_NO_CHECK = "the source says nothing about a good reply"


def is_eval(source: SourceFile) -> bool:
    """Whether a file of a folder is an eval of AgentV."""
    top = source.spot
    return (
        isinstance(top.value, dict)
        and any(key in top.value for key in (*_TESTS, "scenarios"))
        and (source.path.parent.name != ".agentv")
    )


def convert(source: SourceFile, bench: Workbench) -> None:
    """Add the suite of an eval. Raises ImportFault."""
    root = source.spot
    if not is_eval(source):
        raise root.fault("this is not an eval of AgentV", "Such a file has the key `tests`.")
    try:
        bench.suite(source, Conversion(root, bench).verified())
    except Lost as lost:
        raise root.fault(f"{lost.what}: {lost.how}") from None


class Conversion:
    """One eval on its way."""

    def __init__(self, root: Spot, bench: Workbench) -> None:
        self.root = root
        self.bench = bench
        self.ledger = bench.ledger
        self.graders = Graders(root.file.path, bench)
        self.tests = [*Tests(root, self.graders, bench).read()]
        self.modern = bool(_MODERN & set(root.value)) or any(
            isinstance(one, Test) and "input" in one.vars and "input" not in one.spot for one in self.tests
        )
        self.words = Words(modern=self.modern)
        self.targets = Targets(root, bench, self.graders)
        self.assertions = Assertions(bench, self.words, self.graders, self.targets.use)
        self.messages = Messages(bench, self.words, self.graders)
        self._lost: list[Comment] = []
        """Comments for the top of the suite."""
        self.default = self._default_test()
        self.ids = Ids()
        self.passes = self._threshold()
        self.cases = 0
        self._spots: dict[int, Spot] = {}
        """The places of cases, by the cases."""

    def verified(self) -> Entry:
        """The suite without the cases that a suite refuses. Raises ImportFault if it is refused as a whole."""
        suite = self.suite()
        if refusal_of_suite(suite) is None:
            return suite
        evals: list[Any] = []
        for case in suite["evals"]:
            spot = self._spots.get(id(case))
            refusal = None if spot is None else refusal_of_suite({**suite, "evals": [case]})
            if spot is None or refusal is None:
                evals.append(case)
            else:
                self.cases -= 1
                self.ledger.count_cases(-1)
                evals.append(self.ledger.leave_out(spot, "a test", f"a suite refuses it: {refusal[:150]}"))
        suite["evals"] = evals
        refusal = refusal_of_suite(suite) if self.cases else "it has no cases"
        if refusal is not None:
            raise self.root.fault(f"a suite refuses the result: {refusal[:300]}")
        return suite

    def suite(self) -> Entry:
        root = self.root
        above = {key: root[key].above() for key in root.value}
        lost = self._without_form(above)
        targets, workspace = self._targets()
        execution = self._execution()
        prompts = self._prompts()
        checks, defaults = self._shared()
        cases = self._cases(prompts, graded=any(not isinstance(one, Comment) for one in checks))
        suite: Entry = dict.fromkeys(above.get("$schema", []))
        for key in ("name", "description"):
            suite |= dict.fromkeys(above.get(key, [])) | self._text(key)
        suite |= lost | dict.fromkeys(self._lost)
        suite |= dict.fromkeys([*self._lines(above, "execution", "target", "providers"), *workspace])
        suite |= self._with_judges(targets) | execution
        if len(prompts) > 1 and all(one.fits_variant for one in prompts):
            suite |= dict.fromkeys(self._lines(above, "prompts")) | {
                "variants": [one.variant(self.words) for one in prompts]
            }
        suite |= dict.fromkeys(self._lines(above, "assertions", "assert", "default_test"))
        if checks:
            suite |= (
                {"checks": checks} if any(not isinstance(one, Comment) for one in checks) else dict.fromkeys(checks)
            )
        suite["defaults"] = defaults
        suite |= dict.fromkeys(self._lines(above, *_TESTS, "scenarios", "input", "input_files", "tags", "metadata"))
        suite["evals"] = cases
        self.ledger.count_cases(self.cases)
        if not self.cases:
            raise root.fault("none of its tests can be imported", "A test has an `id` and an `input`.")
        return suite | dict.fromkeys(map(Comment, root.file.remarks.rest()))

    # The parts of the suite

    def _lines(self, above: Mapping[str, list[Comment]], *keys: str) -> list[Comment]:
        """The comments above and beside keys of the eval."""
        found: list[Comment] = []
        for key in keys:
            found += above.get(key, [])
            beside = self.root[key].beside() if key in self.root else None
            if beside:
                found.append(Comment(beside))
        return found

    def _text(self, key: str) -> Entry:
        value = self.root[key].value
        if not isinstance(value, str) or not value.strip():
            return {}
        self.ledger.map(self.root[key])
        beside = self.root[key].beside()
        return {key: Commented(literal(value.strip()), beside) if beside else literal(value.strip())}

    def _without_form(self, above: Mapping[str, list[Comment]]) -> Entry:
        """Comments for keys that only describe the eval, and for those that have no form here."""
        found: Entry = {}
        for key, spot in self.root.pairs:
            if key in _READ or spot.value in (None, [], {}):
                continue
            found |= dict.fromkeys(above.get(key, []))
            if key in _LABELS:
                self.ledger.map(spot)
                found[Comment(f"{key}: {_line(spot.value)}")] = None
            else:
                found[self.ledger.leave_out(spot, f"`{key}`", _HOW.get(key, "a suite has nothing like it"))] = None
        return found

    def _default_test(self) -> Spot:
        spot = self.root["default_test"]
        if isinstance(spot.value, str):
            path = self.graders.file(spot, spot.value)
            if path is not None:
                return spot.file.folder.read(path).spot
            self._lost.append(
                self.ledger.leave_out(spot, "`default_test`", "there is no such file in the imported folder")
            )
        return spot

    def _targets(self) -> tuple[Entry, list[Comment]]:
        """The targets that answer, and comments of the workspace."""
        workspace, lost = None, []
        for key in ("workspace", "environment"):
            if self.root[key].value is not None:
                workspace, lost = read_workspace(self.root[key], self.graders, self.bench)
                lost = [*self.root[key].above(), *lost]
        self.targets.workspace = workspace
        names: list[str] = []
        for spot in self._answering():
            if (name := self.targets.use_entry(spot)) is not None:
                names.append(name)
            else:
                lost.append(self.ledger.leave_out(spot, "a target", "it has no name"))
            if isinstance(spot.value, dict) and spot["hooks"].value:
                lost.append(self.ledger.leave_out(spot["hooks"], "hooks of a target", "write `setup` for it"))
        if not names and self.targets.has("default"):
            names.append(self.targets.use("default", self.root))
        if workspace is not None and not self.targets.has_workspace:
            settings = ", ".join(f"{key}: {_line(value)}" for key, value in workspace.settings.items())
            how = f"only coding agents have workspaces; write on one: {settings}"
            lost.append(self.ledger.leave_out(workspace.spot, "the workspace", how))
        names = list(dict.fromkeys(names))
        return ({"target": names[0] if len(names) == 1 else names} if names else {}), lost

    def _answering(self) -> Iterator[Spot]:
        execution = self.root["execution"]
        for spot in (execution["target"], execution["targets"], self.root["target"], self.root["providers"]):
            if isinstance(spot.value, dict) and not {"id", "name", "label"} & set(spot.value):
                yield from (one.of({**_mapping(one.value), "id": key}) for key, one in spot.pairs)
            else:
                yield from spot.items

    def _with_judges(self, targets: Entry) -> Entry:
        judge: str | None = None
        if self.assertions.judges or self._asks_by_outcome:
            named = [*self.targets.judges, *(name for name in ("grader",) if self.targets.has(name))]
            if named:
                judge = self.targets.use(named[0], self.root)
        if self.targets.written:
            targets["targets"] = self.targets.written
        return targets | ({} if judge is None else {"judge_target": judge})

    def _execution(self) -> Entry:
        """Repeats, budget, and comments for what belongs to a run."""
        keys: Entry = {}
        for spot in (self.root["execution"], self.root["evaluate_options"]):
            for key, one in spot.pairs:
                if key in ("budget_usd", "budgetUsd") and isinstance(one.value, int | float):
                    self.ledger.map(one)
                    keys["budget"] = {"usd": whole(one.value)}
                elif key in ("workers", "max_concurrency") and isinstance(one.value, int) and one.value > 0:
                    self.ledger.map(one)
                    keys["metadata"] = {"threads": one.value}
                elif key in _OF_RUNS:
                    keys |= dict.fromkeys(one.above())
                    keys[self.ledger.leave_out(one, f"`{key}`", _OF_RUNS[key])] = None
                elif key not in _OF_EXECUTION:
                    keys[self.ledger.leave_out(one, f"`{key}`", "a suite has nothing like it")] = None
        return keys

    def _repeats(self) -> Entry:
        """The number of trials, and how many of them have to pass."""
        options = self.root["evaluate_options"]["repeat"]
        spot = self.root["execution"]["trials"] if options.value is None else options
        number = spot["count"].value if isinstance(spot.value, dict) else spot.value
        if not isinstance(number, int) or isinstance(number, bool) or not 1 < number <= 1000:
            return {}
        strategy = spot["strategy"].value or "pass_at_k"
        keys: Entry = {}
        for key, one in spot.pairs:
            if key in ("cost_limit_usd", "costLimitUsd", "early_exit") and one.value:
                how = "set `budget` for the run" if key != "early_exit" else "all trials are run"
                keys[self.ledger.leave_out(one, f"`{key}` of trials", how)] = None
        if strategy in ("mean", "confidence_interval"):
            how = "more than half of the trials have to pass, and not the mean of their scores"
            keys[self.ledger.approximate(spot, f"trials by {strategy}", how)] = None
        else:
            self.ledger.map(spot)
        passing = number // 2 + 1 if strategy in ("mean", "confidence_interval") else 1
        return {**keys, "repeat": number, "pass": f"{passing} of {number}"}

    def _threshold(self) -> float:
        spots = (self.default["threshold"], self.root["execution"]["threshold"], self.root["threshold"])
        for spot in spots:
            if isinstance(spot.value, int | float) and not isinstance(spot.value, bool) and 0 <= spot.value <= 1:
                self.ledger.map(spot)
                return whole(spot.value)
        return PASSES

    def _prompts(self) -> list[Prompt]:
        found: list[Prompt] = []
        for spot in (self.default["prompts"], self.root["prompts"]):
            if not found and spot.value is not None:
                found = read_prompts(spot, self.graders, self.ledger)
        return found

    def _shared(self) -> tuple[list[Any], Entry]:
        """The checks of all cases, and the keys of cases that have none of their own."""
        judged = CaseFacts(variables=_mapping(self.default["vars"].value), passes=self.passes)
        root, execution = self.root, self.root["execution"]
        spots = [
            root["assertions"],
            root["assert"],
            execution["assertions"],
            execution["assert"],
            self.default["assert"],
        ]
        given = [one for spot in spots for one in spot.items]
        by_case = any(isinstance(one, Test) and _skips(one) for one in self.tests) or any(map(needs_case, given))
        checks = [] if by_case else self.assertions.convert(given, judged)
        self._given = given if by_case else []
        defaults: Entry = {}
        if (tags := self.root["tags"]).value:
            defaults |= {"tags": list(self._tags(tags))}
            self.ledger.map(tags)
        defaults["threshold"] = Commented(self.passes, "of the mean of the scores, as in AgentV")
        defaults |= self._repeats()
        if (metadata := self._suite_metadata()) and not any(
            isinstance(one, Test) and one.spot["metadata"].value for one in self.tests
        ):
            defaults["metadata"] = literal_tree(metadata)
        return checks, defaults

    def _tags(self, spot: Spot) -> Iterator[str]:
        for key, one in spot.pairs:
            yield literal(f"{key}:{one.value}")
        for one in spot.items if isinstance(spot.value, list | str) else ():
            if isinstance(one.value, str | int) and str(one.value).strip():
                yield literal(str(one.value).strip())

    def _suite_metadata(self) -> dict[str, Any]:
        metadata = _mapping(self.root["metadata"].value)
        if self.root["governance"].value is not None:
            metadata["governance"] = self.root["governance"].value
            self.ledger.map(self.root["governance"])
        return metadata | _mapping(self.default["metadata"].value)

    # Cases

    _asks_by_outcome = False
    """Whether only its outcome judges a case."""

    def _cases(self, prompts: list[Prompt], *, graded: bool) -> list[Any]:
        written: list[Any] = []
        self._are_variants = len(prompts) > 1 and all(one.fits_variant for one in prompts)
        for test in self.tests:
            if isinstance(test, Comment):
                written.append(test)
                continue
            for prompt in [None] if self._are_variants or not prompts else prompts:
                try:
                    case = self._case(test, prompt, graded=graded, is_one_of=len(prompts) > 1)
                except Lost as lost:
                    written += [*test.spot.above(), self.ledger.leave_out(test.spot, lost.what, lost.how)]
                    continue
                self.cases += 1
                if self.cases > MOST_CASES:
                    raise self.root.fault(f"its tests and prompts make more than {MOST_CASES:,} cases")
                self._spots[id(case)] = test.spot
                written += [Comment("")] * bool(written and not isinstance(written[-1], Comment)) + [case]
        return written

    def _case(self, test: Test, prompt: Prompt | None, *, graded: bool, is_one_of: bool) -> Entry:
        spot = test.spot
        variables = self._variables(test)
        messages = self._input(test, prompt, variables)
        case: Entry = dict.fromkeys(spot.above()) if test.first else {}
        own = spot["id"].value if isinstance(spot["id"].value, str | int) else test.name or None
        wanted = spot.of(test.name or own)
        if is_one_of and prompt is not None and own is not None:
            wanted = spot.of(f"{test.name or own}-{prompt.name}")
        case["id"] = self.ids.take(wanted, self._otherwise(spot))
        case |= self._words_of(spot)
        case |= self._above(spot, "input", "input_files", "prompts") | messages
        kept = {name: value for name, value in variables.items() if name not in ("input", "expected_output", "vars")}
        if written := variables_of(kept):
            case["vars"] = written
        for name in kept.keys() - written.keys():
            how = "names of variables here have only letters, digits and `_`"
            case[self.ledger.leave_out(spot["vars"], f"the variable `{name[:40]}`", how)] = None
        outcome = self._outcome(spot, variables)
        case |= self._above(spot, "criteria", "expected_outcome", "outcome") | outcome
        expected = self._expected(spot, test, variables)
        case |= self._above(spot, "expected_output") | ({"expected_messages": expected} if expected else {})
        judged = CaseFacts(
            variables,
            str(next(iter(outcome.values()), "")),
            self._raw_expected(spot, test, variables),
            self._passes(spot),
        )
        case |= self._above(spot, "execution", "assertions", "assert", "evaluators", "turns", "mode")
        case |= self._graded(test, judged, graded=graded)
        case |= self._rest(spot)
        if test.first:
            case |= dict.fromkeys(spot.within())
        for key in spot.value:
            self.ledger.map(spot[key])
        return case

    def _above(self, spot: Spot, *keys: str) -> Entry:
        """The comments above keys of a test."""
        return {comment: None for key in keys if key in spot for comment in spot[key].above()}

    def _otherwise(self, spot: Spot) -> str:
        description = spot["description"].value
        return slug(description, set(), "case") if isinstance(description, str) else f"case-{self.cases + 1}"

    def _variables(self, test: Test) -> dict[str, Any]:
        given = {**_mapping(self.default["vars"].value), **test.vars}
        if not self.modern:
            return given
        full = {**given, "vars": given}
        for name, value in given.items():  # a variable may name others
            if isinstance(value, str) and "{{" in value and name != "input":
                try:
                    full[name] = given[name] = self.words.rendered(value, full)
                except Lost:
                    continue
        return full

    def _words_of(self, spot: Spot) -> Entry:
        entry: Entry = {}
        if isinstance(spot["description"].value, str) and spot["description"].value.strip():
            entry["description"] = literal(spot["description"].value.strip())
        tags = list(self._tags(spot["tags"]))
        return entry | ({"tags": tags} if tags else {})

    def _input(self, test: Test, prompt: Prompt | None, variables: Mapping[str, Any]) -> Entry:
        """The keys of a case for what it asks."""
        spot = test.spot
        is_talk = spot["mode"].value == "conversation" or isinstance(spot["turns"].value, list)
        asked = spot["input"] if "input" in spot else spot["vars"]["input"]
        if "input" in test.vars and "input" not in spot:
            asked = asked.of(test.vars["input"])
        if self._are_variants:
            return {}
        if prompt is not None and not prompt.is_input:
            return {} if is_talk else prompt.keys(self.words, variables)
        messages = [] if asked.value is None else self.messages.read(asked, variables)
        if not is_talk and not any(_has_words(one["content"]) for one in messages):
            raise Lost("a test", "it has no input")
        if not _skips(test):
            files = spot["input_files"] if "input_files" in spot else self.root["input_files"]
            messages = self.messages.with_files(files, messages) if files.value else messages
            if self.root["input"].value is not None:
                messages = [*self.messages.read(self.root["input"], variables), *messages]
        if not is_talk:
            return joined(messages)
        return {"input_messages": messages} if messages else {}

    def _outcome(self, spot: Spot, variables: Mapping[str, Any]) -> Entry:
        for key in ("criteria", "expected_outcome", "outcome"):
            if isinstance(spot[key].value, str) and spot[key].value.strip():
                return {"outcome": self.words.fill(spot[key].value.strip(), variables)}
        return {}

    def _raw_expected(self, spot: Spot, test: Test, variables: Mapping[str, Any]) -> Any:
        value = self.words.resolved(self._expected_spot(spot, test).value, variables)
        if isinstance(value, list) and value and isinstance(value[-1], dict) and "role" in value[-1]:
            return value[-1].get("content")
        return value.get("content") if isinstance(value, dict) and "role" in value else value

    def _expected_spot(self, spot: Spot, test: Test) -> Spot:
        if "expected_output" in spot:
            return spot["expected_output"]
        return spot["vars"]["expected_output"].of(test.vars.get("expected_output"))

    def _expected(self, spot: Spot, test: Test, variables: Mapping[str, Any]) -> list[Any]:
        found = self._expected_spot(spot, test)
        messages = [] if found.value is None else self.messages.expected(found, variables)
        return messages if any(one["role"] == "assistant" for one in messages) else []

    def _passes(self, spot: Spot) -> float:
        for one in (spot["threshold"], spot["execution"]["threshold"]):
            if isinstance(one.value, int | float) and not isinstance(one.value, bool) and 0 <= one.value <= 1:
                return whole(one.value)
        return self.passes

    def _graded(self, test: Test, judged: CaseFacts, *, graded: bool) -> Entry:
        """The checks of a case, its threshold, and its turns."""
        spot = test.spot
        keys = ("assertions", "assert", "evaluators")
        own = next((spot[key] for key in keys if spot[key].value is not None), None)
        if own is None:
            own = next((one for key in keys if (one := spot["execution"][key]).value is not None), None)
        given = [*test.asserts, *(own.items if own is not None else ())]
        checks: list[Any] = []
        if spot["rubrics"].value:
            checks += self.assertions.convert([spot.of({"type": "rubrics", "criteria": spot["rubrics"].value})], judged)
        checks += self.assertions.convert([*given, *([] if _skips(test) else self._given)], judged)
        entry: Entry = {}
        if judged.passes != self.passes:
            entry["threshold"] = judged.passes
        if isinstance(spot["turns"].value, list):
            return entry | self._talk(spot, judged, checks)
        if any(not isinstance(one, Comment) for one in checks):
            return entry | {"checks": checks}
        entry |= dict.fromkeys(checks)
        if judged.outcome:
            self._asks_by_outcome = True
        elif not graded:
            entry["checks"] = [Comment(_NO_CHECK), {"min_words": 0}]
        return entry

    def _talk(self, spot: Spot, judged: CaseFacts, checks: list[Any]) -> Entry:
        """A live conversation as planned turns."""
        entry: Entry = {"turns": [self._turn(one, judged) for one in spot["turns"].items]}
        whole_talk = [self._over_all(one) for one in checks]
        if whole_talk:
            how = "checks of the whole conversation have to pass, and do not count in its score"
            entry[self.ledger.approximate(spot, "assertions of a conversation", how)] = None
            entry["conversation_checks"] = whole_talk
        if spot["aggregation"].value in ("min", "max"):
            entry["aggregation"] = spot["aggregation"].value
        entry["pass_steps"] = "aggregate"
        if spot["on_turn_failure"].value != "stop":
            entry["on_turn_failure"] = "continue"
        window = spot["window_size"].value
        if isinstance(window, int) and not isinstance(window, bool) and window > 0:
            how = "the last reply before these turns is not shown"
            entry[self.ledger.approximate(spot["window_size"], "`window_size`", how)] = None
            entry["window_size"] = window
        return entry

    def _turn(self, spot: Spot, judged: CaseFacts) -> Entry:
        content = self.messages.content(spot["input"], judged.variables)
        if not content:
            raise Lost("a turn", "it has no input")
        turn: Entry = dict.fromkeys(spot.above())
        turn |= (
            {"prompt": content} if isinstance(content, str) else {"messages": [{"role": "user", "content": content}]}
        )
        expected = spot["expected_output"]
        if isinstance(expected.value, str) and expected.value.strip():
            turn["expected"] = self.words.fill(expected.value, judged.variables)
        elif expected.value is not None:
            turn[self.ledger.leave_out(expected, "`expected_output` of a turn", "only a text is shown to judges")] = (
                None
            )
        given = spot["assertions"] if "assertions" in spot else spot["assert"]
        checks = self.assertions.convert(list(given.items), judged)
        is_checked = any(not isinstance(one, Comment) for one in checks)
        return turn | ({"checks": checks} if is_checked else dict.fromkeys(checks))

    @staticmethod
    def _over_all(one: Any) -> Any:
        if isinstance(one, Commented):
            return Commented({"on": "transcript", **one.value}, one.comment)
        return one if isinstance(one, Comment) else {"on": "transcript", **one}

    def _rest(self, spot: Spot) -> Entry:
        """Everything else of a test."""
        entry: Entry = {}
        if isinstance(spot["conversation_id"].value, str | int):
            entry["conversation_id"] = literal(str(spot["conversation_id"].value))
        entry |= self._targets_of(spot)
        metadata = spot["metadata"].value
        if isinstance(metadata, dict):
            entry["metadata"] = literal_tree(_merged(self._suite_metadata(), metadata))
        for key, one in spot.pairs:
            if key not in _OF_TESTS and one.value not in (None, [], {}):
                how = "cases do not wait for each other" if "depend" in key else "a case has nothing like it"
                entry[self.ledger.leave_out(one, f"`{key}`", how)] = None
        return entry

    def _targets_of(self, spot: Spot) -> Entry:
        names: list[str] = []
        execution = spot["execution"]
        for source in (execution["target"], execution["targets"], spot["provider"], spot["providers"]):
            names += [name for one in source.items if (name := self.targets.use_entry(one)) is not None]
        entry: Entry = {"execution": {"target": names[0] if len(names) == 1 else names}} if names else {}
        for key, one in execution.pairs:
            if key not in ("target", "targets", "assertions", "assert", "evaluators", "skip_defaults", "threshold"):
                entry[self.ledger.leave_out(one, f"`{key}` of a test", "a case has nothing like it")] = None
        return entry


_OF_TESTS = frozenset(
    {"id", "description", "tags", "vars", "criteria", "expected_outcome", "outcome", "input", "input_files", "suite"}
    | {"expected_output", "assertions", "assert", "evaluators", "execution", "metadata", "conversation_id", "mode"}
    | {"turns", "aggregation", "on_turn_failure", "window_size", "threshold", "provider", "providers", "rubrics"}
)


def _has_words(content: Any) -> bool:
    return bool(content.strip() if isinstance(content, str) else content)


def _skips(test: Test) -> bool:
    return test.spot["execution"]["skip_defaults"].value is True


def _mapping(value: Any) -> dict[str, Any]:
    return {str(key): one for key, one in value.items()} if isinstance(value, dict) else {}


def _merged(of_all: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata of a case: lists are joined, and its own values win."""
    merged = dict(of_all)
    for key, value in own.items():
        before = merged.get(str(key))
        if isinstance(before, dict) and isinstance(value, dict):
            merged[str(key)] = _merged(before, value)
        elif isinstance(before, list) and isinstance(value, list):
            merged[str(key)] = [*before, *(one for one in value if one not in before)]
        else:
            merged[str(key)] = value
    return merged


def _line(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return " ".join(text.split())[:200]
