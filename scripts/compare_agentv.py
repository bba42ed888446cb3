"""Compares `rejoinder import agentv` with AgentV itself, on the example files of its repository.

Each file is imported, checked, and run on scripted targets. Where a version of AgentV is installed by npm, its tests
without judges and programs are run by both programs on the same replies, and their scores are compared.

    python scripts/compare_agentv.py REPOSITORY NODE_MODULES [--only TEXT]

REPOSITORY is a clone of AgentV's repository, NODE_MODULES a folder in which npm has installed it. The last line is
JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from rejoinder.imports.agentv.convert import convert
from rejoinder.imports.sources import ImportFault, SourceFolder
from rejoinder.imports.workbench import Workbench

VERSIONS = {"4.42.4": "719513785", "5.3": "58f316ca2"}
"""The commits of the examples."""
INSTALLED = "4.42.4"
ROUNDS = 3
NEAR = 1e-6
PLAIN = re.compile(r"i?contains(-any|-all)?|starts-with|ends-with|regex|is-json|equals|field-accuracy|composite")
TOOLS = re.compile(r"tool-trajectory|skill-trigger")
_ANSWER = """import json, pathlib, sys
replies = json.loads(pathlib.Path(sys.argv[1]).read_text())
pathlib.Path(sys.argv[3]).write_text(json.dumps({"output": [replies[sys.argv[2]]]}))
"""
_JUDGE = """import json, re
def reply(messages):
    said = messages[-1]["content"].partition("[[ ## rubric ## ]]")[2]
    rubric = re.findall(r"(?m)^- \\[(.+?)\\][^:]*:.*\\n(?:(?!- |  - ).*\\n)*?(  - )?", said)
    if not rubric:
        return json.dumps({"score": 0.9, "reasoning": "By a stand-in."})
    verdicts = [(name, {"score": 9} if ranges else {"met": True}) for name, ranges in rubric]
    criteria = [{"id": name, **verdict, "reasoning": "Yes."} for name, verdict in verdicts]
    return json.dumps({"criteria": criteria, "reasoning": "By a stand-in."})
"""


class Texts(yaml.SafeLoader):
    """A loader that leaves dates as texts, and words such as `on`."""


Texts.yaml_implicit_resolvers = {
    sign: [(tag, pattern) for tag, pattern in rules if not tag.endswith((":timestamp", ":bool"))]
    for sign, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
Texts.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"(?:true|false)$"), ["t", "f"])


def unpack(repository: Path, commit: str, folder: Path) -> None:
    folder.mkdir()
    archive = subprocess.run(["git", "-C", str(repository), "archive", commit], capture_output=True, check=True)
    subprocess.run(["tar", "x", "-C", str(folder)], input=archive.stdout, check=True)


def examples(tree: Path) -> list[Path]:
    found = (path for name in ("examples", "evals") for path in (tree / name).rglob("*.y*ml"))
    return sorted(path for path in found if re.search(r"(?m)^(tests|scenarios):", path.read_text()))


def imported(path: Path, tree: Path) -> tuple[Path, Any]:
    """The suite of a file, written beside it, and the report. Raises ImportFault."""
    folder = SourceFolder(tree)
    bench = Workbench(folder, tree)
    bench.begin(path)
    convert(folder.read(path), bench)
    for name, text in bench.made.items():
        (tree / name).write_text(text)
    return tree / next(name for name in bench.made if name.endswith("evals.yaml")), bench.ledger.report()


def rejoinder(*arguments: str, cwd: Path) -> Any:
    command = [str(Path(sys.executable).with_name("rejoinder")), *arguments, "--format", "json"]
    done = subprocess.run(command, cwd=cwd, capture_output=True, timeout=300, check=False)
    if not done.stdout.startswith(b"{"):
        raise RuntimeError(done.stderr.decode("utf-8", "replace")[-600:])
    return json.loads(done.stdout)


def on_scripts(suite: Path, replies: dict[str, Any], name: str) -> Path:
    """A copy of a suite with a scripted target, and a function in place of each judge."""
    data = yaml.load(suite.read_text(), Texts)
    names = {one["name"] for one in data.get("targets", [])} | {data.get("judge_target", "judge")}
    data["targets"] = [{"name": one, "provider": "python", "call": "stand_in_judge:reply"} for one in sorted(names)]
    data["targets"].append({"name": "scripted-one", "provider": "scripted", "replies": replies})
    data["target"], data["judge_target"] = "scripted-one", data.get("judge_target", "judge")
    suite.with_name("stand_in_judge.py").write_text(_JUDGE)
    for case in data["evals"]:
        case.pop("repeat", None)
        if "execution" in case:
            case["execution"].pop("target", None)
    data.get("defaults", {}).pop("repeat", None)
    data.get("defaults", {}).pop("pass", None)
    path = suite.with_name(name)
    path.write_text(yaml.safe_dump(data, sort_keys=False, allow_unicode=True))
    return path


def runs(suite: Path) -> str:
    """Nothing, or why the suite does not run on scripted targets."""
    checked = rejoinder("validate", suite.name, cwd=suite.parent)
    errors = [error["message"] for file in checked["files"] for error in file["errors"]]
    if errors:
        return f"not valid: {errors[0]}"
    path = on_scripts(suite, {"*": ["A plain reply."] * 30}, f"{suite.stem}-scripted.evals.yaml")
    document = rejoinder("run", path.name, cwd=path.parent)
    path.unlink()
    wrong = [error for one in document["results"] for error in _errors(one)]
    return f"an error: {wrong[0]}" if wrong else ""


def _errors(result: dict[str, Any]) -> Iterator[str]:
    """The errors of a result, apart from those of programs that are not installed."""
    checks = [check for turn in result.get("turns", []) for check in turn.get("checks", [])]
    for check in [*checks, *(result.get("conversation_checks") or [])]:
        unknown = "agentv_checks" in str(check["check"]) or "cost of the reply is unknown" in str(check.get("reason"))
        if check.get("error") and not unknown:
            yield f"{check['check']}: {check.get('reason')}"
    if result.get("status") == "error" and not any(check.get("error") for check in checks):
        yield str(result.get("error"))


# Both programs on the same replies


def deterministic(data: dict[str, Any], path: Path) -> dict[str, Any] | None:
    """An eval with only the tests that need no judge and no program; None if there are none."""
    tests = data.get("tests")
    if isinstance(tests, list):
        tests = [one for test in tests for one in _expanded(test, path)]
    elif isinstance(tests, str):
        tests = list(_expanded(f"file://{tests}", path))
    shared = data.get("assertions") or []
    kept = []
    for test in tests or []:
        given = test.get("assertions") or []
        skips = (test.get("execution") or {}).get("skip_defaults")
        every = [*given, *([] if skips else shared)]
        if every and all(_is_plain(one) for one in every) and "turns" not in test:
            kept.append({key: one for key, one in test.items() if key not in ("workspace",)})
    if not kept:
        return None
    keys = ("name", "input", "input_files", "assertions", "description")
    return {**{key: data[key] for key in keys if key in data}, "execution": {"target": "replies"}, "tests": kept}


def _expanded(test: Any, path: Path) -> Iterator[dict[str, Any]]:
    if isinstance(test, dict):
        yield test
        return
    file = path.parent / str(test).removeprefix("file://")
    if file.suffix == ".jsonl":
        yield from (json.loads(line) for line in file.read_text().splitlines() if line.strip())
    elif file.is_file():
        yield from yaml.load(file.read_text(), Texts)


def _is_plain(asserted: Any) -> bool:
    if not isinstance(asserted, dict):
        return False
    kind = str(asserted.get("type")).replace("_", "-")
    inner = asserted.get("assertions") or asserted.get("assert") or []
    aggregator = (asserted.get("aggregator") or {}).get("type", "weighted_average")
    if kind == "composite" and aggregator not in ("weighted_average", "threshold"):
        return False
    return bool(PLAIN.fullmatch(kind) or TOOLS.fullmatch(kind)) and all(map(_is_plain, inner))


def replies_of(test: dict[str, Any], shared: list[Any]) -> list[dict[str, Any]]:
    """Replies of a test: one with all that is looked for, one with none of it, and the expected one."""
    asserted = [*(test.get("assertions") or []), *shared]
    texts = list(dict.fromkeys(_wanted(asserted)))
    calls = [call for one in asserted for call in _calls(one)]
    expected = test.get("expected_output")
    if isinstance(expected, list) and expected and isinstance(expected[-1], dict):
        expected = expected[-1].get("content")
    if not isinstance(expected, str):
        expected = json.dumps(expected) if expected else " ".join(texts[:1]) or "Yes."
    return [
        _reply("\n".join(texts) or "Yes.", calls),
        _reply("A plain reply.", []),
        _reply(expected.strip(), calls[:1]),
    ]


def _reply(text: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}


def _wanted(value: Any) -> Iterator[str]:
    for one in value if isinstance(value, list) else []:
        wanted = one.get("value") if not one.get("negate") else None
        yield from (str(text) for text in (wanted if isinstance(wanted, list) else [wanted]) if text)
        yield from _wanted(one.get("assertions") or one.get("assert"))


def _calls(asserted: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "skill" in asserted and asserted.get("should_trigger") is not False:
        yield {"tool": "Skill", "input": {"skill": asserted["skill"]}}
    for one in asserted.get("expected") or []:
        given = one.get("args")
        yield {"tool": one["tool"], "input": given if isinstance(given, dict) else {}}
    for name, times in (asserted.get("minimums") or {}).items():
        yield from [{"tool": name, "input": {}}] * times


def ours(call: dict[str, Any]) -> dict[str, Any]:
    """A reply of theirs as a scripted target has it."""
    calls = [{"name": one["tool"], "arguments": one["input"]} for one in call.get("tool_calls", [])]
    return {"text": call["content"], **({"tool_calls": calls} if calls else {})}


def theirs(path: Path, tree: Path, modules: Path, replies: dict[str, Any]) -> dict[str, float]:
    """The scores of AgentV, by test."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # AgentV writes on for a moment
        place = Path(folder)
        (place / "answer.py").write_text(_ANSWER)
        (place / "replies.json").write_text(json.dumps(replies))
        words = f"{sys.executable} {place / 'answer.py'} {place / 'replies.json'} {{EVAL_ID}} {{OUTPUT_FILE}}"
        target = {"name": "replies", "provider": "cli", "command": words, "cwd": folder}
        (place / "targets.yaml").write_text(yaml.safe_dump({"targets": [target]}))
        command = ["node", str(modules / "agentv" / "dist" / "cli.js"), "eval", "run", str(path), "--target", "replies"]
        command += ["--targets", str(place / "targets.yaml"), "--output", str(place / "out"), "--no-cache"]
        env = {**os.environ, "AGENTV_HOME": folder, "HOME": folder, "NO_COLOR": "1"}
        done = subprocess.run(command, cwd=tree, env=env, capture_output=True, timeout=300, check=False)
        index = next((place / "out").rglob("index.jsonl"), None)
        if index is None:
            raise RuntimeError((done.stderr or done.stdout).decode("utf-8", "replace")[-400:])
        rows = [json.loads(line) for line in index.read_text().splitlines() if line.strip()]
        return {row["test_id"]: row["score"] for row in rows if "score" in row}


def compare(data: dict[str, Any], path: Path, tree: Path, modules: Path) -> Iterator[dict[str, Any]]:
    """The scores of both programs, test by test and round by round."""
    file = path.with_name(f"{path.stem}-compared.eval.yaml")
    file.write_text(yaml.safe_dump(data, sort_keys=False, allow_unicode=True))
    suite, _ = imported(file, tree)
    by_test = {str(test["id"]): replies_of(test, data.get("assertions") or []) for test in data["tests"]}
    for number in range(ROUNDS):
        replies = {name: given[number] for name, given in by_test.items()}
        scores = theirs(file, tree, modules, replies)
        scripted = on_scripts(
            suite, {name: [ours(one)] for name, one in replies.items()}, f"{suite.stem}-scripted.evals.yaml"
        )
        for result in rejoinder("run", scripted.name, cwd=scripted.parent)["results"]:
            name = result["id"]
            if name in scores:
                yield {"test": name, "round": number, "theirs": scores[name], "ours": result["score"], "result": result}
        scripted.unlink()
    for made in (file, suite):
        made.unlink()


def passed_alike(one: dict[str, Any]) -> bool:
    return (one["theirs"] >= 0.8) == (one["result"].get("status") == "passed")


def main() -> int:
    parser = argparse.ArgumentParser(description="Compares `rejoinder import agentv` with AgentV itself.")
    parser.add_argument("repository", type=Path)
    parser.add_argument("modules", type=Path, help="a `node_modules` folder with agentv")
    parser.add_argument("--only", default="", help="files whose path has this text")
    given = parser.parse_args()
    figures: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for version, commit in VERSIONS.items():
            tree = Path(folder) / version
            unpack(given.repository, commit, tree)
            figures[version] = check_all(version, tree, given.modules, given.only)
    print(json.dumps(figures))
    return 0


def check_all(version: str, tree: Path, modules: Path, only: str) -> Counter[str]:
    counted: Counter[str] = Counter()
    with ThreadPoolExecutor(2) as pool:
        paths = [path for path in examples(tree) if only in str(path.relative_to(tree))]
        for figures, lines in pool.map(partial(check, version, tree, modules), paths):
            counted.update(figures)
            print("\n".join(lines), flush=True)
    return counted


def check(version: str, tree: Path, modules: Path, path: Path) -> tuple[Counter[str], list[str]]:
    """The figures of one example, and what is to be said about it."""
    try:
        suite, report = imported(path, tree)
        losses = [one for one in (*report.approximated, *report.left_out) if not one.what.startswith("target ")]
        wrong = runs(suite)
        suite.unlink()
    except (ImportFault, RuntimeError, subprocess.TimeoutExpired) as error:
        wrong, losses = " ".join(str(error).split())[-300:], []
    figures = Counter({"files": 1, "runs": int(not wrong), "complete": int(not wrong and not losses)})
    lines = [f"{version} {path.relative_to(tree)}: {wrong or f'{len(losses)} losses'}"]
    if version == INSTALLED and not wrong:
        figures.update(compared(path, tree, modules, lines))
    return figures, lines


def compared(path: Path, tree: Path, modules: Path, lines: list[str]) -> Counter[str]:
    counted: Counter[str] = Counter()
    data = deterministic(yaml.load(path.read_text(), Texts), path)
    if data is None:
        return counted
    try:
        found = list(compare(data, path, tree, modules))
    except (ImportFault, RuntimeError, subprocess.TimeoutExpired, KeyError) as error:
        lines.append(f"    not compared: {' '.join(str(error).split())[-300:]}")
        return Counter({"not compared": 1})
    for one in found:
        counted["scores"] += 1
        equal = abs(one["theirs"] - one["ours"]) < NEAR
        counted["equal"] += equal
        counted["passed"] += one["theirs"] >= 0.8
        counted["verdicts"] += passed_alike(one)
        if not equal:
            checks = [check for turn in one.pop("result").get("turns", []) for check in turn["checks"]]
            said = [f"{check['check']}: {check['score']} {check.get('reason')}"[:90] for check in checks]
            lines.append(f"    {json.dumps({**one, 'checks': said})}")
    return counted


if __name__ == "__main__":
    sys.exit(main())
