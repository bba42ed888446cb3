"""Compares `rejoinder import promptfoo` with promptfoo itself, on the example configurations of a checkout.

Every configuration is run by both programs against one server on loopback, whose replies make assertions both pass and
fail; the verdicts are compared row by row. A difference has to follow from a line of the import's report or from one of
`RULES`, which the guide lists under "Small differences": any other one is UNEXPLAINED, and the exit code is then 1.

    python scripts/compare_promptfoo.py CHECKOUT NODE_MODULES [--only TEXT] [--limit N] [--jobs N] [--keep FOLDER]

CHECKOUT is a checkout of promptfoo, NODE_MODULES a folder in which npm has installed it. The last line is JSON.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from rejoinder.imports.kinds import KINDS
from rejoinder.imports.ledger import Loss
from rejoinder.imports.sources import ImportFault
from rejoinder.imports.workbench import import_files
from rejoinder.testing import FakeServer
from rejoinder.testing.values import Answer, Received, ToolCall

KIND = next(kind for kind in KINDS if kind.name == "promptfoo")
MOST_PROVIDERS = 2
MOST_SECONDS = 900
REFUSED = "red teaming has no form here"
"""The only reason for which an example may be refused."""
NOT_RUN_THERE = ("ENOTFOUND", "timed out")
"""What promptfoo itself says where it cannot run an example without a network or a service."""
GOOD, BAD = "[good]", "[bad]"
"""Marks in replies, by which the judge decides in both programs."""


class Texts(yaml.SafeLoader):
    """A loader that passes over tags."""


Texts.add_multi_constructor("!", lambda *_: None)


def examples(checkout: Path) -> list[Path]:
    found = (path for path in (checkout / "examples").rglob("*promptfooconfig*") if path.suffix in (".yaml", ".yml"))
    return sorted(found)


def losses_of(path: Path, out: Path) -> list[str] | str:
    """The constructs that an import loses, providers aside; a text if it cannot be imported."""
    try:
        report = import_files(KIND, path, out)[1]
    except ImportFault as fault:
        return fault.message
    losses = [*report.approximated, *report.left_out]
    return [f"{loss.what}: {loss.how}" for loss in losses if not loss.what.startswith("provider")]


# The configurations, with the fake server in place of all models


def prepared(config: dict[str, Any], url: str) -> dict[str, Any]:
    """A configuration that asks the fake server instead of its providers and graders."""
    config = without_graders(config)
    given = config.pop("targets", None) or config.get("providers") or ["echo"]
    providers = [one for one in (given if isinstance(given, list) else [given]) if one]
    config["providers"] = [provider(one, url) for one in providers][:MOST_PROVIDERS]
    labels = Counter(one["label"] for one in config["providers"])
    for number, one in enumerate(config["providers"]):
        if labels[one["label"]] > 1:
            one["label"] += f" {number}"
    for key in ("tracing", "outputPath", "env", "extensions", "derivedMetrics"):
        config.pop(key, None)
    return config


def provider(given: Any, url: str) -> dict[str, Any]:
    if isinstance(given, dict) and "id" not in given:
        name = next(iter(given))
        given = {"id": name, **(given[name] or {})}
    options = given if isinstance(given, dict) else {"id": str(given)}
    settings = options.get("config")
    kept = {
        key: settings[key]
        for key in ("response_format", "tools")
        if isinstance(settings, dict) and isinstance(settings.get(key), dict if key == "response_format" else list)
    }
    label = str(options.get("label") or options["id"])
    more = {key: options[key] for key in ("prompts", "transform") if key in options}
    return {"id": "openai:chat:fake", "label": label, "config": {"apiBaseUrl": url, "apiKey": "any", **kept}, **more}


def without_graders(value: Any, inside: str = "") -> Any:
    if isinstance(value, list):
        return [without_graders(one, inside) for one in value]
    if not isinstance(value, dict):
        return value
    drops = inside in ("options", "assert", "defaultTest")
    return {key: without_graders(one, key) for key, one in value.items() if not (drops and key == "provider")}


# The server


class Model:
    """Replies by the digest of the prompt: one with all that is looked for, one with none of it, JSON, XML, a part, and
    calls of the tools, with right arguments and without any."""

    def __init__(self, config: Any) -> None:
        texts = list(dict.fromkeys(_wanted(config)))
        rows = [text for text in texts if 0 < len(text) < 200 and "{{" not in text][:60]
        self._replies: list[str] = [
            f"{GOOD} {' '.join(rows)}",
            f"{BAD} I do not know.",
            json.dumps({"answer": " ".join(rows[:5]), "mark": GOOD}),
            f"{GOOD} {' '.join(rows[::2])}",
            rows[0] if rows else "Yes",
        ]
        if "-xml" in json.dumps(config, default=str):
            self._replies += ["<analysis><classification>a</classification><color>b</color></analysis>", "<a><b></a>"]

    def __call__(self, received: Received) -> str | Answer:
        body: Any = received.body
        said = "\n".join(_text(one.get("content")) for one in body.get("messages", []))
        if is_judged(said):
            reply = said.rpartition("[[ ## output")[2] or said.rpartition("<Output>")[2] or said
            passed = GOOD in reply
            return json.dumps(
                {"reason": "By its mark.", "pass": passed, "score": float(passed), "reasoning": "By its mark."}
            )
        digest = hashlib.sha256(re.sub(r"\s+", " ", said).strip().encode()).digest()
        tools = [one["function"] for one in body.get("tools") or [] if isinstance(one.get("function"), dict)]
        if tools and digest[1] % 3:
            tool = tools[digest[2] % len(tools)]
            arguments = _example(tool.get("parameters") or {}) if digest[1] % 3 == 1 else {}
            return Answer(tool_calls=(ToolCall(tool["name"], arguments),))
        return self._replies[digest[0] % len(self._replies)]


def _example(schema: Any) -> Any:
    """A value that satisfies a schema of a tool."""
    schema = schema if isinstance(schema, dict) else {}
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if kind == "object":
        return {key: _example(one) for key, one in (schema.get("properties") or {}).items()}
    if kind == "array":
        return [_example(schema.get("items"))]
    return {"integer": 1, "number": 1.5, "boolean": True, "null": None}.get(str(kind), "Paris")


def is_judged(said: str) -> bool:
    return "You are grading output" in said or "Reply with one JSON object and nothing else" in said


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content)


def _wanted(value: Any, inside: str = "") -> Iterator[str]:
    """The texts that assertions look for."""
    if isinstance(value, dict):
        kind = str(value.get("type", ""))
        plain = kind.removeprefix("not-") in ("contains", "icontains", "equals", "starts-with") or "contains-" in kind
        for key, one in value.items():
            yield from _wanted(one, "wanted" if key == "value" and plain else key)
    elif isinstance(value, list):
        for one in value:
            yield from _wanted(one, inside)
    elif inside == "wanted" and isinstance(value, str | int | float):
        yield str(value)


# Both programs


class Outcomes(Struct, frozen=True):
    """What both programs made of one configuration."""

    theirs: list[dict[str, Any]]
    ours: list[dict[str, Any]]
    targets: list[str]
    losses: list[Loss]


def run_theirs(config: Path, modules: Path, env: dict[str, str]) -> list[dict[str, Any]]:
    """The rows of promptfoo, in the order of tests and prompts."""
    out = config.with_name("theirs.json")
    main = modules / "promptfoo" / "dist" / "src" / "main.js"
    command = ["node", str(main), "eval", "-c", config.name, "-o", out.name, "--no-cache", "--no-progress-bar"]
    command += ["--no-table", "--no-write", "-j", "2"]
    done = subprocess.run(command, cwd=config.parent, env=env, capture_output=True, timeout=MOST_SECONDS, check=False)
    if not out.exists():
        said = (done.stderr or done.stdout).decode("utf-8", "replace")
        raise NotRun("promptfoo", said[max(said.find("Error"), 0) :][:600])
    rows = json.loads(out.read_text())["results"]["results"]
    return [_trimmed(row) for row in sorted(rows, key=lambda row: (row["testIdx"], row["promptIdx"]))]


def _trimmed(row: dict[str, Any]) -> dict[str, Any]:
    parts = (row.get("gradingResult") or {}).get("componentResults") or []
    return {
        "target": row["provider"].get("label") or row["provider"]["id"],
        "passed": bool(row["success"]),
        "asked": _last_message(str((row.get("prompt") or {}).get("raw"))),
        "reply": (row.get("response") or {}).get("output"),
        "error": row.get("error") if not parts else None,
        "limited": (row.get("testCase") or {}).get("threshold") is not None,
        "failed": [
            [str((part.get("assertion") or {}).get("type")), str(part.get("reason"))[:200]]
            for part in parts
            if not part.get("pass")
        ],
    }


def _last_message(raw: str) -> str:
    """The last message of a prompt that is a list of messages."""
    try:
        messages = json.loads(raw)
        return _words(_text(messages[-1]["content"])) if isinstance(messages, list) else _words(raw)
    except (ValueError, KeyError, TypeError, IndexError):
        return _words(raw)


def _words(text: str) -> str:
    return " ".join(text.split())


def run_ours(config: Path, env: dict[str, str]) -> tuple[list[dict[str, Any]], list[str], list[Loss]]:
    """Our results in the order of cases and variants, the names of our targets, and the losses of the import."""
    bench, report = import_files(KIND, config, config.parent)
    [suite] = [name for name in bench.write() if name.endswith("evals.yaml")]
    path = Path(suite) if Path(suite).is_absolute() else Path.cwd() / suite
    text = path.read_text()
    command = [str(Path(sys.executable).with_name("rejoinder")), "run", path.name, "--format", "json"]
    done = subprocess.run(command, cwd=path.parent, env=env, capture_output=True, timeout=MOST_SECONDS, check=False)
    if not done.stdout.startswith(b"{"):
        raise NotRun("rejoinder", done.stderr.decode("utf-8", "replace")[-600:])
    document = json.loads(done.stdout)
    data = yaml.load(text, Texts)
    targets = data["target"] if isinstance(data["target"], list) else [data["target"]]
    variants = [one["name"] for one in data.get("variants", [])] or [None]
    cases = list(dict.fromkeys(one["id"] for one in document["results"]))
    order = {case: place for place, case in enumerate(sorted(cases, key=_by_number))}
    results = sorted(
        document["results"], key=lambda one: (order[one["id"]], variants.index(one.get("variant") or variants[0]))
    )
    return [_result(one) for one in results], targets, [*report.approximated, *report.left_out]


def _result(one: dict[str, Any]) -> dict[str, Any]:
    turns = one.get("turns") or [{}]
    checks = [check for turn in turns for check in turn.get("checks", [])]
    return {
        "target": one["target"],
        "passed": one["status"] == "passed",
        "error": one.get("error"),
        "asked": _words(str(turns[0].get("prompt"))),
        "reply": turns[-1].get("response"),
        "failed": [
            [str(check["check"]), str(check.get("error") or check.get("reason"))[:200]]
            for check in checks
            if not check["passed"]
        ],
    }


def _by_number(case: str) -> tuple[str, int]:
    found = re.fullmatch(r"(.*?)(\d*)", case)
    return ("", int(found[2])) if found is not None and found[2] else (case, 0)


class NotRun(Exception):
    """One of the two programs refused a configuration, or took too long."""

    def __init__(self, program: str, words: str) -> None:
        super().__init__(f"{program}: {_words(words)}")
        self.program = program


def run_both(config: Path, example: Path, modules: Path, kept: Path | None) -> Outcomes:
    """Both programs on one configuration."""
    original = yaml.load(config.read_text(), Texts)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "example"
        shutil.copytree(example, place, ignore=shutil.ignore_patterns("node_modules", ".git"), symlinks=False)
        with FakeServer(Model(original)) as server:
            env = {**os.environ, "OPENAI_API_KEY": "any", "OPENAI_BASE_URL": server.openai_url}
            env |= {"PROMPTFOO_DISABLE_TELEMETRY": "1", "PROMPTFOO_DISABLE_UPDATE": "1", "PROMPTFOO_CONFIG_DIR": folder}
            env |= {"PROMPTFOO_DISABLE_REMOTE_GENERATION": "1", "PROMPTFOO_PYTHON": sys.executable}
            path = place / config.relative_to(example)
            path.write_text(yaml.safe_dump(prepared(original, server.openai_url), sort_keys=False, allow_unicode=True))
            theirs = _kept(kept, config, lambda: run_theirs(path, modules, env))
            ours, targets, losses = run_ours(path, env)
    return Outcomes(theirs, ours, targets, losses)


def _kept(folder: Path | None, config: Path, work: Callable[[], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The rows of promptfoo, from an earlier comparison if they were kept."""
    if folder is None:
        return work()
    file = folder / f"{hashlib.sha256(str(config).encode()).hexdigest()[:24]}.json"
    if not file.exists():
        try:
            found: Any = work()
        except (NotRun, subprocess.TimeoutExpired) as error:
            found = {"not run": str(error)}
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(found))
    found = json.loads(file.read_text())
    if isinstance(found, dict):
        raise NotRun("promptfoo", str(found["not run"]).removeprefix("promptfoo: "))
    return found


def pairs(outcomes: Outcomes) -> Iterator[tuple[dict[str, Any] | None, dict[str, Any] | None]]:
    """Rows of both, target by target: those with the same words, then the others in their order."""
    labels = list(dict.fromkeys(row["target"] for row in outcomes.theirs))
    for place, label in enumerate(labels):
        left = [row for row in outcomes.theirs if row["target"] == label]
        right = [one for one in outcomes.ours if [one["target"]] == outcomes.targets[place : place + 1]]
        rest: list[dict[str, Any]] = []
        for row in left:
            same = next((one for one in right if one["asked"] == row["asked"]), None)
            if same is None:
                rest.append(row)
                continue
            right.remove(same)
            yield row, same
        for row, one in zip_longest(rest, right):
            yield row, one


# What a difference follows from


OF_ROWS = re.compile(
    r"a test|a scenario|tests|a prompt|prompt|exec:|file://|.*\.(?:[cm]?[jt]s|py|rb|csv|ya?ml|xlsx)\b|huggingface:|https?:|"
    r"evaluateOptions repeat|options|option providers|providers|.*: the tests are made by code|provider "
)
"""Losses by which one program has other rows."""
OF_WORDS = re.compile(
    r"a scenario|a prompt|prompt|variable |vars|a template|option transformVars|extensions|nunjucksFilters|_conversation|file://|"
    r"exec:|.*\.(?:[cm]?[jt]s|py|rb|sh)\b"
)
"""Losses by which both programs ask something else."""
OF_REPLIES = re.compile(r"transform|option transform|provider option transform|provider setting (?:tools|functions)")
"""Losses by which both programs check something else."""


class Rule(Struct, frozen=True):
    """A documented difference between the programs: the first cell of its row in the table of the guide."""

    cell: str
    applies: Callable[[dict[str, Any], dict[str, Any]], bool]


RULES: tuple[Rule, ...] = (
    Rule("a prompt in the form of another API", lambda row, _: "are: 'text', 'image_url'" in str(row["error"])),
)


def explanation(row: dict[str, Any] | None, one: dict[str, Any] | None, losses: list[Loss]) -> str | None:
    """Why the two verdicts differ: a line of the report, or a documented rule; None if nothing explains it."""
    if row is None or one is None:
        return _first(losses, OF_ROWS)
    if row["asked"] != one["asked"] and (found := _first(losses, OF_WORDS)):
        return found
    if row["passed"]:
        names = [check for check, _ in one["failed"]]
        kinds = {loss.what for loss in losses}
        if names and all(any(_is_made_of(name, kind) for kind in kinds) for name in names):
            return f"approximated: {', '.join(names)}"
    elif row["error"] and (found := next((loss for loss in losses if _is_named(loss.what, row["error"])), None)):
        return f"{found.what}: {found.how}"
    elif row["failed"]:
        kinds = {loss.what.removeprefix("not-") for loss in losses}
        lost = [kind for kind, _ in row["failed"] if kind.removeprefix("not-") in kinds]
        if lost and (len(lost) == len(row["failed"]) or row["limited"]):
            return f"lost: {', '.join(sorted(set(lost)))}"
    if found := _first(losses, OF_REPLIES):
        return found
    return next((rule.cell for rule in RULES if rule.applies(row, one)), None)


def _is_named(kind: str, error: str) -> bool:
    """Whether an error is about an assertion of this kind, or about its missing file of code."""
    return re.search(rf"(?:type: (?:not-)?|for ){re.escape(kind)}\b", error) is not None or (
        "ENOENT" in error and re.search(r"\.(?:[cm]?[jt]s|py)\b", kind) is not None
    )


def _first(losses: list[Loss], pattern: re.Pattern[str]) -> str | None:
    return next((f"{loss.what}: {loss.how}" for loss in losses if pattern.match(loss.what)), None)


def _is_made_of(check: str, kind: str) -> bool:
    """Whether our check comes from a kind of assertion that is only near."""
    made = {"rouge-n": "rouge_l", "is-refusal": "is_refusal", "is-valid-function-call": "tool_calls", "empty": "equals"}
    made |= {"min-length": "regex", "max-length": "regex", "is-valid-openai-function-call": "tool_calls"}
    judged = ("agent-rubric", "model-graded-closedqa", "g-eval", "search-rubric", "factuality", "answer-relevance")
    made |= dict.fromkeys((*judged, "model-graded-factuality", "conversation-relevance"), "llm_judge")
    return kind in made and check.split(maxsplit=1)[0] in (made[kind], "not")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("modules", type=Path, help="a `node_modules` folder with promptfoo")
    parser.add_argument("--only", default="", help="configurations whose path has this text")
    parser.add_argument("--limit", type=int, default=1_000_000)
    parser.add_argument("--jobs", type=int, default=1, help="configurations at a time")
    parser.add_argument("--keep", type=Path, help="a folder that keeps promptfoo's rows for the next comparison")
    given = parser.parse_args()
    checkout, modules = given.checkout.resolve(), given.modules.resolve()
    chosen = [one for one in examples(checkout) if given.only in str(one)][: given.limit]
    figures: Counter[str] = Counter()
    reasons: Counter[str] = Counter()

    def work(config: Path) -> tuple[Path, list[str] | str, Outcomes | Exception | None]:
        with tempfile.TemporaryDirectory() as out:
            losses = losses_of(config, Path(out))
        if isinstance(losses, str):
            return config, losses, None
        example = checkout / "examples" / config.relative_to(checkout / "examples").parts[0]
        try:
            return config, losses, run_both(config, example, modules, given.keep)
        except (NotRun, subprocess.TimeoutExpired, ImportFault) as error:
            return config, losses, error

    with ThreadPoolExecutor(given.jobs) as pool:
        for config, losses, found in pool.map(work, chosen):
            name = config.relative_to(checkout / "examples")
            figures["files"] += 1
            if isinstance(losses, str):
                figures["refused"] += 1
                known = REFUSED in losses
                figures["unexplained"] += not known
                print(f"{name}: refused: {losses}", flush=True)
                continue
            figures["incomplete" if losses else "complete"] += 1
            if not isinstance(found, Outcomes):
                _count_not_run(name, found, figures)
                continue
            figures["compared"] += 1
            count(name, found, figures, reasons, complete=not losses)
    for reason, number in reasons.most_common():
        print(f"{number} x {reason}")
    print(json.dumps(figures))
    return 1 if figures["unexplained"] else 0


def count(name: Path, found: Outcomes, figures: Counter[str], reasons: Counter[str], *, complete: bool) -> None:
    """Count the rows of one configuration, and print those that differ."""
    equal = rows = 0
    for row, one in pairs(found):
        rows += 1
        if row is not None and one is not None and row["passed"] == one["passed"]:
            equal += 1
            figures["passed"] += row["passed"]
            continue
        reason = explanation(row, one, found.losses)
        reasons[reason or "UNEXPLAINED"] += 1
        figures["explained" if reason else "unexplained"] += 1
        print(f"    {reason or 'UNEXPLAINED'}: {json.dumps([row, one], ensure_ascii=False)[:1500]}", flush=True)
    figures["rows"] += rows
    figures["equal"] += equal
    if complete:
        figures["complete rows"] += rows
        figures["complete equal"] += equal
    print(f"{name}: {equal} of {rows} equal", flush=True)


def _count_not_run(name: Path, error: Exception | None, figures: Counter[str]) -> None:
    known = next((words for words in NOT_RUN_THERE if words in str(error)), None)
    theirs = isinstance(error, subprocess.TimeoutExpired) or (
        isinstance(error, NotRun) and error.program == "promptfoo"
    )
    figures["not run"] += 1
    figures["unexplained"] += not (theirs and known)
    print(f"{name}: {'' if theirs and known else 'UNEXPLAINED '}not run: {str(error)[-700:]}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
