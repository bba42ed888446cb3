"""`validate` says what `run` would refuse, needs no key, and runs no code."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from rejoinder.errors import UsageError
from tests.kit import Project, scripted, spec

MATCH: dict[str, Any] = {"match": "*"}
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENROUTER_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL")


@pytest.fixture(autouse=True)
def without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)


def suite_of(*checks: Any, prompt: str = "q", **suite: Any) -> dict[str, Any]:
    return {"target": "scripted/x", "evals": [{"prompt": prompt, "checks": list(checks) or [MATCH]}], **suite}


def found(project: Project, suite: Any, *arguments: str) -> list[tuple[str, str, str]]:
    """Severity, code and place of every problem that `validate` has."""
    project.write("evals.yaml", suite)
    report = project.validate("evals.yaml", *arguments)
    return [
        (kind.removesuffix("s"), one["code"], one["path"])
        for file in report["files"]
        for kind in ("errors", "warnings")
        for one in file[kind]
    ]


@spec("P34")
@pytest.mark.parametrize(
    ("suite", "code", "path"),
    [
        (suite_of(prompt="{{ env('NO_SUCH') }}"), "missing-environment", "evals[0].prompt"),
        (suite_of(prompt="{{ secret('no.such') }}"), "missing-secret", "evals[0].prompt"),
        (suite_of(metadata={"system_prompt": "{{ env('NO_SUCH') }}"}), "missing-environment", "metadata.system_prompt"),
        (suite_of(vars={"a": "{{ secret('no.such') }}"}), "missing-secret", "vars.a"),
        (suite_of(target="openai/gpt-5-mini"), "missing-environment", "target"),
        (
            suite_of(target="t", targets=[{"name": "t", "provider": "openai", "model": "${{ NO_SUCH }}"}]),
            "missing-environment",
            "targets[0].model",
        ),
        (
            suite_of(target="t", targets=[{"name": "t", "provider": "azure", "deployment": "d"}]),
            "missing-environment",
            "targets[0].provider",
        ),
    ],
)
def test_what_the_environment_lacks_is_a_warning_of_validate_and_an_error_of_run(
    project: Project, suite: dict[str, Any], code: str, path: str
) -> None:
    assert found(project, suite) == [("warning", code, path)]
    project.run("validate", "evals.yaml")
    assert found(project, suite, "--strict") == [("error", code, path)]
    project.run("validate", "--strict", "evals.yaml", code=2)
    refused = project.invoke("run", "evals.yaml")
    assert refused.exit_code == 2 or isinstance(refused.exception, UsageError)


@spec("P34")
def test_a_key_that_is_there_is_not_missed(project: Project) -> None:
    project.write(".env", "OPENAI_API_KEY=sk-some-key")
    assert found(project, suite_of(target="openai/gpt-5-mini")) == []


@spec("P34")
def test_an_undefined_variable_stays_an_error(project: Project) -> None:
    assert found(project, suite_of(prompt="{{ var('gone') }}")) == [("error", "missing-variable", "evals[0].prompt")]


@spec("P20")
@pytest.mark.parametrize("key", ["model", "target", "judge_target", "embedding_target", "execution"])
def test_a_target_whose_variable_is_missing_is_one_error(project: Project, key: str) -> None:
    suite = suite_of()
    value = "{{var('m')}}"
    if key == "model":
        del suite["target"]
        suite["metadata"] = {"model": value}
    elif key == "execution":
        suite["evals"][0]["execution"] = {"target": value}
    else:
        suite[key] = value
    [(severity, code, _)] = found(project, suite)
    assert (severity, code) == ("error", "missing-variable")


@spec("P34")
def test_a_file_whose_name_cannot_be_filled_in_is_not_missed(project: Project) -> None:
    parts = [{"type": "file", "value": "{{ env('NO_SUCH') }}/a.md"}, {"type": "text", "value": "q"}]
    case = {"input_messages": [{"role": "user", "content": parts}], "checks": [MATCH]}
    [(severity, code, _)] = found(project, {"target": "scripted/x", "evals": [case]})
    assert (severity, code) == ("warning", "missing-environment")
    rows = {"target": "scripted/x", "cases": "{{ env('NO_SUCH') }}.csv", "defaults": {"checks": [MATCH]}}
    assert found(project, rows) == [("warning", "missing-environment", "cases")]


@spec("P34")
def test_no_target_is_said_once(project: Project) -> None:
    suite = suite_of()
    del suite["target"]
    suite["evals"] *= 3
    assert found(project, suite) == [("warning", "no-target", "metadata.model")]
    refused = project.invoke("run", "evals.yaml")
    assert refused.exception is not None and "-m openai/gpt-5-mini" in str(refused.exception)


@spec("P34")
def test_two_targets_and_none_chosen_are_listed_with_the_command(project: Project) -> None:
    targets = [scripted(name, "a") for name in ("bot", "bot2")]
    suite = suite_of(targets=targets)
    del suite["target"]
    [warning] = project.warnings(suite)
    assert warning["code"] == "no-target"
    for said in (warning["message"], str(project.invoke("run", "evals.yaml").exception)):
        assert "`bot` and `bot2`" in said and "`-m bot,bot2` runs both" in said
    for option in ("-m", "--target"):
        shown = project.run("run", "evals.yaml", option, "bot,bot2", "--format", "json")
        assert '"total": 2' in shown


@spec("P34")
def test_semantic_without_embeddings_is_said(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rejoinder.providers.wordllama.is_installed", lambda: False)
    check = {"semantic": {"expected": "x", "threshold": 0.8}}
    assert found(project, suite_of(check)) == [("warning", "missing-field", "evals[0].checks[0].semantic")]
    without_target = {key: value for key, value in suite_of(check).items() if key != "target"}
    assert ("warning", "missing-field", "evals[0].checks[0].semantic") in found(project, without_target)
    nested = {"match": "a", "prompt": "again", "checks": [check]}
    assert found(project, suite_of(nested))[0][2] == "evals[0].checks[0].checks[0].semantic"
    embedder = {"name": "e", "provider": "scripted", "embeddings": {"*": [1.0]}}
    assert found(project, suite_of(check, targets=[embedder], embedding_target="e")) == []
    assert found(project, suite_of(check, embedding_target="mock/x"))[0][:2] == ("warning", "missing-field")


def test_a_provider_that_needs_more_than_a_model_is_no_target_by_itself(project: Project) -> None:
    [error] = project.errors(suite_of(target="python/x"))
    assert error["code"] == "unknown-target" and "needs `call`" in error["message"]
    assert "needs `call`" in str(project.invoke("run", "evals.yaml", "-m", "python/x").exception)


@spec("P34")
def test_an_agent_whose_program_is_missing_is_a_warning(project: Project) -> None:
    target = {"name": "t", "provider": "claude", "executable": "no-such-agent"}
    suite = suite_of(target="t", targets=[target])
    assert found(project, suite) == [("warning", "unusable-target", "targets[0].provider")]
    assert "no-such-agent" in str(project.invoke("run", "evals.yaml").exception)


@spec("P34")
def test_settings_that_cannot_be_used_are_named(project: Project) -> None:
    target = {"name": "t", "provider": "openai", "model": "m", "base_url": "example.test/v1", "api_key": "k" * 20}
    suite = suite_of(target="t", targets=[target])
    assert found(project, suite) == [("warning", "unusable-target", "targets[0].provider")]
    assert "http://" in str(project.invoke("run", "evals.yaml").exception)


@spec("P34")
def test_modules_are_looked_for_as_files_and_nothing_is_imported(project: Project) -> None:
    boom = "import pathlib\npathlib.Path('imported').write_text('x')\ndef answer(): ...\nf = answer\n"
    project.write("pack/__init__.py", boom)
    project.write("pack/inner.py", boom)
    project.write("bot.py", boom)

    def target(call: str) -> dict[str, Any]:
        return suite_of(target="t", targets=[{"name": "t", "provider": "python", "call": call}])

    for call in ("bot:answer", "pack.inner:f", "json:loads", "os.path:join", "xml.dom.minidom:parse"):
        assert found(project, target(call)) == [], call
        assert found(project, suite_of({"python": call})) == [], call
    for call in ("bott:answer", "pack.gone:f", "bot.inner:f", "gone.inner:f"):
        assert found(project, target(call)) == [("error", "file-not-found", "targets[0].call")], call
        assert found(project, suite_of({"python": call})) == [("error", "file-not-found", "evals[0].checks[0].python")]
    assert found(project, target("bot:anwser")) == [("error", "file-not-found", "targets[0].call")]
    [error] = project.errors(target("bott:answer"))
    assert "did you mean `bot`?" in error["message"]
    assert not (project.folder / "imported").exists()


@spec("P34")
def test_scripts_are_looked_for_as_files(project: Project) -> None:
    project.write("judges/check.py", "")
    fine: list[Any] = [
        "python judges/check.py --out new.py",
        "./judges/check.py",
        ["python", "judges/check.py"],
        {"script": "python check.py", "cwd": "judges"},
        "cd judges && python check.py",
        "grep -q yes",
        "$CHECK gone.py",
    ]
    for code in fine:
        assert found(project, suite_of({"code": code})) == [], code
    gone: list[Any] = [
        "python gone.py",
        "./gone",
        ["python", "gone.py", "judges/check.py"],
        {"script": "python check.py", "cwd": "gone"},
        {"script": "python check.py"},
    ]
    for code in gone:
        [(severity, kind, _)] = found(project, suite_of({"code": code}))
        assert (severity, kind) == ("error", "file-not-found"), code


@spec("P35")
@pytest.mark.parametrize("name", ["anthropic/claude-3.5-sonnet", "meta-llama/llama-4-maverick"])
def test_a_model_by_the_name_that_openrouter_gives_it(project: Project, name: str) -> None:
    text = f"metadata:\n  model: {name}\nevals:\n  - prompt: q\n    checks: [match: a]\n"
    [warning] = project.warnings(text)
    assert warning["code"] == "model-of-openrouter"
    assert warning["suggestion"] == f"  model: openrouter/{name}"
    [in_case] = found(
        project, suite_of() | {"evals": [{"prompt": "q", "checks": [MATCH], "execution": {"target": name}}]}
    )
    assert in_case == ("warning", "model-of-openrouter", "evals[0].execution.target")


@spec("P35")
def test_a_model_of_the_command_by_the_name_that_openrouter_gives_it(project: Project) -> None:
    project.write("evals.yaml", suite_of())
    refused = project.invoke("run", "-m", "anthropic/claude-3.5-sonnet")
    assert "openrouter/anthropic/claude-3.5-sonnet" in refused.stderr
    refused = project.invoke("run", "-m", "meta-llama/llama-4-maverick")
    assert "openrouter/meta-llama/llama-4-maverick" in f"{refused.stderr}{refused.exception}"


@spec("P35")
@pytest.mark.parametrize("name", ["anthropic/claude-haiku-4-5", "openai/gpt-5-mini", "openai/gpt-4.1", "vllm/a.b"])
def test_models_of_the_vendors_own_names_are_theirs(project: Project, name: str) -> None:
    assert "model-of-openrouter" not in [code for _, code, _ in found(project, suite_of(target=name))]


@pytest.mark.slow
def test_the_price_table_is_loaded_only_when_it_is_needed(project: Project) -> None:
    project.write("evals.yaml", suite_of(target="openai/gpt-5-mini"))
    code = (
        "import sys\nfrom rejoinder.validation.findings import validate\nvalidate('evals.yaml')\n"
        "sys.exit('genai_prices' in ' '.join(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


@spec("P35")
def test_a_bare_model_name_gets_its_provider(project: Project) -> None:
    project.write("evals.yaml", suite_of())
    assert "anthropic/claude-haiku-4-5" in str(project.invoke("run", "-m", "claude-haiku-4-5").exception)
    [error] = project.errors("target: claude-haiku-4-5\nevals:\n  - prompt: q\n    checks: [match: a]\n")
    assert (error["code"], error["suggestion"]) == ("unknown-target", "target: anthropic/claude-haiku-4-5")


def test_an_unknown_provider_is_called_unknown(project: Project) -> None:
    project.write("evals.yaml", suite_of())
    said = str(project.invoke("run", "-m", "opnai/x").exception)
    assert "there is no provider `opnai`; did you mean `openai`?" in said and "this version" not in said


@pytest.mark.parametrize(
    ("name", "known"),
    [("agentv-eval-v3", False), ("wrong-schema", False)]
    + [(name, True) for name in ("agentv-eval-v2", "https://example.test/s", "./s.json", "s.json")],
)
def test_a_schema_that_is_not_known_is_named(project: Project, name: str, known: bool) -> None:
    suite = {"$schema": name, **suite_of()}
    assert found(project, suite) == ([] if known else [("warning", "unknown-schema", "$schema")])


def test_a_suites_schema_above_targets_is_named(project: Project) -> None:
    targets = {"$schema": "agentv-eval-v2", "targets": [scripted("s", "a")]}
    project.write(".agentv/targets.yaml", targets)
    assert ("warning", "unknown-schema", "$schema") in found(project, suite_of())
