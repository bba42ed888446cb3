"""Compares `rejoinder import promptfoo` with promptfoo itself, on the example configurations of a checkout.

Every configuration that is imported completely, providers aside, is run by both programs against one server on
loopback, whose replies make assertions both pass and fail; the verdicts are compared row by row.

    python scripts/compare_promptfoo.py CHECKOUT NODE_MODULES [--only TEXT] [--limit N]

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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from rejoinder.imports.kinds import KINDS
from rejoinder.imports.sources import ImportFault
from rejoinder.imports.workbench import import_files
from rejoinder.testing import FakeServer
from rejoinder.testing.values import Received

KIND = next(kind for kind in KINDS if kind.name == "promptfoo")
MOST_PROVIDERS = 2
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
    form = settings.get("response_format") if isinstance(settings, dict) else None
    config = {"apiBaseUrl": url, "apiKey": "any", **({"response_format": form} if isinstance(form, dict) else {})}
    label = str(options.get("label") or options["id"])
    kept = {"prompts": options["prompts"]} if "prompts" in options else {}
    return {"id": "openai:chat:fake", "label": label, "config": config, **kept}


def without_graders(value: Any, inside: str = "") -> Any:
    if isinstance(value, list):
        return [without_graders(one, inside) for one in value]
    if not isinstance(value, dict):
        return value
    drops = inside in ("options", "assert", "defaultTest")
    return {key: without_graders(one, key) for key, one in value.items() if not (drops and key == "provider")}


# The server


class Model:
    """Replies by the digest of the prompt: one with all that is looked for, one with none of it, JSON, or a part."""

    def __init__(self, config: Any) -> None:
        texts = list(dict.fromkeys(_wanted(config)))
        rows = [text for text in texts if 0 < len(text) < 200 and "{{" not in text][:60]
        self._replies = [
            f"{GOOD} {' '.join(rows)}",
            f"{BAD} I do not know.",
            json.dumps({"answer": " ".join(rows[:5]), "mark": GOOD}),
            f"{GOOD} {' '.join(rows[::2])}",
            rows[0] if rows else "Yes",
        ]

    def __call__(self, received: Received) -> str:
        body: Any = received.body
        said = "\n".join(_text(one.get("content")) for one in body.get("messages", []))
        if is_judged(said):
            reply = said.rpartition("[[ ## output")[2] or said.rpartition("<Output>")[2] or said
            passed = GOOD in reply
            return json.dumps(
                {"reason": "By its mark.", "pass": passed, "score": float(passed), "reasoning": "By its mark."}
            )
        digest = hashlib.sha256(re.sub(r"\s+", " ", said).strip().encode()).digest()
        return self._replies[digest[0] % len(self._replies)]


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


def run_theirs(config: Path, modules: Path, env: dict[str, str]) -> list[dict[str, Any]]:
    """The rows of promptfoo, in the order of tests and prompts."""
    out = config.with_name("theirs.json")
    main = modules / "promptfoo" / "dist" / "src" / "main.js"
    command = ["node", str(main), "eval", "-c", config.name, "-o", out.name, "--no-cache", "--no-progress-bar"]
    command += ["--no-table", "--no-write", "-j", "2"]
    done = subprocess.run(command, cwd=config.parent, env=env, capture_output=True, timeout=300, check=False)
    if not out.exists():
        raise RuntimeError((done.stderr or done.stdout).decode("utf-8", "replace")[-300:])
    rows = json.loads(out.read_text())["results"]["results"]
    return sorted(rows, key=lambda row: (row["testIdx"], row["promptIdx"]))


def run_ours(config: Path, env: dict[str, str]) -> tuple[list[dict[str, Any]], list[str]]:
    """Our results in the order of cases and variants, and the names of our targets."""
    bench, _ = import_files(KIND, config, config.parent)
    [suite] = [name for name in bench.write() if name.endswith("evals.yaml")]
    path = Path(suite) if Path(suite).is_absolute() else Path.cwd() / suite
    text = path.read_text()
    command = [str(Path(sys.executable).with_name("rejoinder")), "run", path.name, "--format", "json"]
    done = subprocess.run(command, cwd=path.parent, env=env, capture_output=True, timeout=300, check=False)
    if not done.stdout.startswith(b"{"):
        raise RuntimeError(done.stderr.decode("utf-8", "replace")[-600:])
    document = json.loads(done.stdout)
    data = yaml.load(text, Texts)
    targets = data["target"] if isinstance(data["target"], list) else [data["target"]]
    variants = [one["name"] for one in data.get("variants", [])] or [None]
    cases = list(dict.fromkeys(one["id"] for one in document["results"]))
    order = {case: place for place, case in enumerate(sorted(cases, key=_by_number))}
    results = sorted(
        document["results"], key=lambda one: (order[one["id"]], variants.index(one.get("variant") or variants[0]))
    )
    return results, targets


def _by_number(case: str) -> tuple[str, int]:
    found = re.fullmatch(r"(.*?)(\d*)", case)
    return ("", int(found[2])) if found is not None and found[2] else (case, 0)


def compare(config: Path, example: Path, modules: Path) -> dict[str, Any]:
    """Both programs on one configuration."""
    original = yaml.load(config.read_text(), Texts)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "example"
        shutil.copytree(example, place, ignore=shutil.ignore_patterns("node_modules", ".git"), symlinks=False)
        model = Model(original)
        with FakeServer(model) as server:
            env = {**os.environ, "OPENAI_API_KEY": "any", "OPENAI_BASE_URL": server.openai_url}
            env |= {"PROMPTFOO_DISABLE_TELEMETRY": "1", "PROMPTFOO_DISABLE_UPDATE": "1", "PROMPTFOO_CONFIG_DIR": folder}
            env |= {"PROMPTFOO_DISABLE_REMOTE_GENERATION": "1", "PROMPTFOO_PYTHON": sys.executable}
            path = place / config.relative_to(example)
            path.write_text(yaml.safe_dump(prepared(original, server.openai_url), sort_keys=False, allow_unicode=True))
            theirs = run_theirs(path, modules, env)
            ours, targets = run_ours(path, env)
    return matched(theirs, ours, targets)


def matched(theirs: list[dict[str, Any]], ours: list[dict[str, Any]], targets: list[str]) -> dict[str, Any]:
    """Rows of both, target by target."""
    labels = list(dict.fromkeys(row["provider"].get("label") or row["provider"]["id"] for row in theirs))
    counted: Counter[str] = Counter()
    differences: list[dict[str, Any]] = []
    for label, target in zip(labels, targets, strict=False):
        left = [row for row in theirs if (row["provider"].get("label") or row["provider"]["id"]) == label]
        right = [one for one in ours if one["target"] == target]
        if len(left) != len(right):
            differences.append({"rows": [len(left), len(right)]})
            counted["rows"] += max(len(left), len(right))
            continue
        if Counter(map(_asked_there, left)) == Counter(map(_asked_here, right)):  # files of a pattern have no order
            left, right = sorted(left, key=_asked_there), sorted(right, key=_asked_here)
        for row, one in zip(left, right, strict=True):
            counted["rows"] += 1
            counted["passed"] += bool(row["success"])
            passed = one["status"] == "passed" if "status" in one else bool(one["passed"])
            if passed == bool(row["success"]):
                counted["equal"] += 1
            else:
                differences.append(_difference(row, one))
    return {**counted, "differences": differences}


def _asked_there(row: dict[str, Any]) -> str:
    return " ".join(str((row.get("prompt") or {}).get("raw")).split())


def _asked_here(one: dict[str, Any]) -> str:
    return " ".join(str((one.get("turns") or [{}])[0].get("prompt")).split())


def _difference(row: dict[str, Any], one: dict[str, Any]) -> dict[str, Any]:
    parts = (row.get("gradingResult") or {}).get("componentResults") or []
    failed = [
        f"{(part.get('assertion') or {}).get('type')}: {str(part.get('reason'))[:100]}"
        for part in parts
        if not part.get("pass")
    ]
    checks = [check for turn in one.get("turns", []) for check in turn.get("checks", [])]
    ours = [
        f"{check['check']}: {str(check.get('error') or check.get('reason'))[:100]}"
        for check in checks
        if not check["passed"]
    ]
    return {
        "theirs": bool(row["success"]),
        "failed_there": failed,
        "failed_here": ours,
        "error": str(row.get("error"))[:100],
        "reply_there": str(row.get("response", {}).get("output"))[:60],
        "reply_here": str((one.get("turns") or [{}])[-1].get("response"))[:60],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("modules", type=Path, help="a `node_modules` folder with promptfoo")
    parser.add_argument("--only", default="", help="configurations whose path has this text")
    parser.add_argument("--limit", type=int, default=1_000_000)
    given = parser.parse_args()
    figures: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as out:
        for number, config in enumerate(examples(given.checkout)):
            figures["files"] += 1
            losses = losses_of(config, Path(out) / str(number))
            if losses or given.only not in str(config) or figures["compared"] >= given.limit:
                figures["refused" if isinstance(losses, str) else "incomplete" if losses else "complete"] += 1
                continue
            figures["complete"] += 1
            example = given.checkout / "examples" / config.relative_to(given.checkout / "examples").parts[0]
            name = config.relative_to(given.checkout / "examples")
            try:
                found = compare(config, example, given.modules)
            except (RuntimeError, subprocess.TimeoutExpired, KeyError, ImportFault) as error:
                figures["not run"] += 1
                print(f"{name}: not run: {' '.join(str(error).split())[-200:]}", flush=True)
                continue
            figures["compared"] += 1
            figures.update({key: found[key] for key in ("rows", "equal", "passed") if key in found})
            print(f"{name}: {found.get('equal', 0)} of {found.get('rows', 0)} equal", flush=True)
            for one in found["differences"]:
                print(f"    {json.dumps(one)}", flush=True)
    print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
