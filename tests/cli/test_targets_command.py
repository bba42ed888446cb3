"""`rejoinder targets` and `targets check`, and the choice of targets and models for a run."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from typing import Any

import pytest

from rejoinder.prices.model_list import match_models
from rejoinder.report.styled import Form
from rejoinder.testing import Answer, FakeServer, Fault, RateLimit, Received
from tests.kit import Project, Raw, refusal, run, scripted, spec

KEY = "key-of-the-test-0123456789"


def write_targets(project: Project, *targets: Raw, name: str = ".rejoinder/targets.yaml") -> None:
    project.write(name, {"targets": list(targets)})


def list_of(project: Project, *arguments: str) -> dict[str, Raw]:
    rows = project.run_json("targets", *arguments)
    return {row["name"]: row for row in rows}


def check(project: Project, *arguments: str, code: int = 0) -> dict[str, Raw]:
    rows = project.run_json("targets", "check", *arguments, code=code)
    return {row["name"]: row for row in rows}


def openai(server: FakeServer, name: str = "gpt", **more: Any) -> Raw:
    return {"name": name, "provider": "openai", "model": "gpt-5-mini", "base_url": f"{server.url}/v1", **more}


# The list

NOT_READY: dict[str, tuple[Raw, tuple[str, ...]]] = {
    "no-key": ({"provider": "anthropic", "model": "m"}, ("has no key", "ANTHROPIC_API_KEY")),
    "no-variable": ({"provider": "openai", "model": "${{ LAB_NOBODY }}"}, ("`LAB_NOBODY` is not set", ".env")),
    "no-variables": (
        {"provider": "openai", "model": "${{ LAB_NOBODY }}", "headers": {"X": "${{ LAB_NONE }} ${{ LAB_NOBODY }}"}},
        ("the environment variables `LAB_NOBODY` and `LAB_NONE` are not set", "Set them"),
    ),
    "no-endpoint": (
        {"provider": "azure", "deployment": "d", "api_key": KEY},
        ("needs an `endpoint`", "AZURE_OPENAI_ENDPOINT"),
    ),
    "no-module": ({"provider": "python", "call": "lab_nowhere:f"}, ("there is no module", "lab_nowhere")),
    "no-such-setting": (
        {"provider": "anthropic", "model": "m", "api_key": KEY, "seed": 1},
        ("`seed`", "does not take"),
    ),
    "no-such-provider": ({"provider": "acme"}, ("`acme` cannot be run by this version",)),
    "no-program": ({"provider": "codex", "executable": "no-such-agent"}, ("needs the program `no-such-agent`",)),
}


def test_the_list_says_what_is_ready_and_what_each_lacks(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    ready = [
        {"name": "gpt", "provider": "openai", "model": "gpt-5-mini"},
        {"name": "azure", "provider": "azure", "deploymentName": "mine", "endpoint": "https://x", "apiKey": KEY},
        {"name": "local", "provider": "ollama", "settings": {"model": "llama"}},
        scripted("demo", "yes"),
        {"name": "web", "provider": "http", "url": "http://127.0.0.1:9/"},
    ]
    write_targets(project, *ready, *({"name": name, **target} for name, (target, _) in NOT_READY.items()))
    rows = list_of(project)
    assert list(rows) == [*(target["name"] for target in ready), *NOT_READY]
    for target in ready:
        assert (rows[target["name"]]["ready"], rows[target["name"]]["missing"]) == (True, None)
    assert [rows[name]["model"] for name in ("gpt", "azure", "local", "demo")] == ["gpt-5-mini", "mine", "llama", None]
    assert {row["file"] for row in rows.values()} == {".rejoinder/targets.yaml"}
    for name, (_, words) in NOT_READY.items():
        assert rows[name]["ready"] is False
        for word in words:
            assert word in rows[name]["missing"]
    lines = project.run("targets").splitlines()
    assert [line.split()[0] for line in lines] == list(rows)
    assert lines[0].split() == ["gpt", "openai", "gpt-5-mini", "ready"]
    [unready] = [line for line in lines if line.startswith("no-key")]
    assert "has no key (Set ANTHROPIC_API_KEY in the environment" in unready


def test_the_list_never_shows_a_key(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_KEY", KEY)
    monkeypatch.setenv("LAB_WARM", "warm")
    write_targets(
        project,
        {"name": "written", "provider": "openai", "model": "m", "api_key": KEY},
        {
            "name": "named",
            "provider": "openai",
            "model": "m",
            "api_key": "${{ LAB_KEY }}",
            "temperature": "${{ LAB_WARM }}",
        },
        {"name": "header", "provider": "http", "url": "http://127.0.0.1:9/", "headers": {"Authorization": KEY}},
        {"name": "odd", "provider": "openai", "model": "m", "api_key": f"{KEY}-\u00fc"},
    )
    for arguments in (["targets"], ["targets", "--format", "json"], ["targets", "check"]):
        result = project.invoke(*arguments, *(["written", "named", "odd"] if "check" in arguments else []))
        assert KEY not in result.output
    assert list_of(project)["named"]["ready"] is False


def test_the_list_sends_nothing(project: Project) -> None:
    with FakeServer() as server:
        write_targets(project, openai(server))
        assert list_of(project)["gpt"]["ready"] is True
        assert server.connections == 0


def test_without_targets_the_list_says_how_to_begin(project: Project) -> None:
    shown = project.run("targets")
    assert "rejoinder init" in shown
    assert "provider/model" in shown
    assert project.run_json("targets") == []
    assert "there are no targets to check" in refusal(project, "targets", "check")


@spec("P28", "A6")
def test_targets_of_all_files_are_merged_and_later_ones_win(project: Project) -> None:
    for number, name in enumerate((".agentv/targets.yaml", ".rejoinder/targets.yaml", "more.yaml")):
        own = {"name": f"only-{number}", "provider": "mock"}
        shared = [{"name": f"from-{least}", "provider": "ollama", "model": name} for least in range(number + 1)]
        write_targets(project, own, *shared, name=name)
    project.write(
        "evals.yaml",
        {
            "targets": [{"name": "from-0", "provider": "ollama", "model": "suite"}],
            "target": "only-0",
            "evals": [{"prompt": "q", "checks": [{"match": "*"}]}],
        },
    )
    rows = list_of(project)
    assert [rows[name]["model"] for name in ("from-0", "from-1")] == ["suite", ".rejoinder/targets.yaml"]
    assert "from-2" not in rows
    rows = list_of(project, "--targets", "more.yaml")
    assert [rows[f"from-{number}"]["model"] for number in range(3)] == ["suite", "more.yaml", "more.yaml"]
    assert {rows[f"only-{number}"]["file"] for number in range(3)} == {
        ".agentv/targets.yaml",
        ".rejoinder/targets.yaml",
        "more.yaml",
    }
    rows = list_of(project, "--targets", "more.yaml", "--suite", "evals.yaml")
    assert [rows[f"from-{number}"]["model"] for number in range(3)] == ["suite", "more.yaml", "more.yaml"]
    assert rows["from-0"]["file"] == "evals.yaml"


def test_a_suite_with_mistakes_hides_no_targets_of_the_project(project: Project) -> None:
    write_targets(project, scripted("demo", "yes"))
    project.write("evals.yaml", {"targets": [scripted("own", "yes")], "evals": [{"prompt": "q", "cheks": []}]})
    result = project.invoke("targets")
    assert result.exit_code == 0 and result.stdout.startswith("demo ")
    assert "evals.yaml has mistakes" in result.stderr


def test_a_suite_s_own_target_that_lacks_something_is_listed_and_not_refused(project: Project) -> None:
    suite = {
        "targets": [{"name": "mine", "provider": "openai", "model": "${{ LAB_NOBODY }}"}],
        "evals": [{"prompt": "q", "checks": [{"match": "*"}]}],
    }
    project.write("evals.yaml", suite)
    assert "`LAB_NOBODY` is not set" in list_of(project, "--suite", "evals.yaml")["mine"]["missing"]


@pytest.mark.parametrize("option", ["--targets", "--suite"])
@pytest.mark.parametrize("command", [["targets"], ["targets", "check"]], ids=["list", "check"])
def test_files_with_mistakes_are_shown_with_their_place(command: list[str], option: str, project: Project) -> None:
    project.write("wrong.yaml", {"targets": [{"name": "a", "provider": "openai", "modle": "m"}], "evals": []})
    assert "nowhere.yaml" in refusal(project, *command, option, "nowhere.yaml")
    assert "wrong.yaml:1:" in refusal(project, *command, option, "wrong.yaml")


# Trying them


def test_a_check_tells_answer_time_model_limits_and_price(project: Project) -> None:
    answer = Answer("OK", input_tokens=1000, output_tokens=100, model="gpt-5-mini-2025-08-07")
    with FakeServer(answer, rate_limit=RateLimit(1, burst=60, headers="openai")) as server:
        write_targets(project, openai(server), {"name": "unpriced", **openai(server, "unpriced"), "model": "nobody-s"})
        found = check(project)
        assert [request.body["messages"][0]["role"] for request in server.requests] == ["user", "user"]
    row = found["gpt"]
    assert (row["answers"], row["error"], row["reply"]) == (True, None, "OK")
    assert (row["model"], row["reported_model"]) == ("gpt-5-mini", "gpt-5-mini-2025-08-07")
    assert row["usage"] == {"input_tokens": 1000, "output_tokens": 100}
    assert row["cost"] == pytest.approx((1000 * 0.25 + 100 * 2) / 1e6)
    assert row["limits"]["requests"]["left"] in (58, 59)
    assert 0 <= row["limits"]["requests"]["renewed_in_s"] <= 2
    assert row["duration_s"] > 0
    assert found["unpriced"]["cost"] == pytest.approx(row["cost"]), "the reported model has a price"


def test_a_check_in_words(project: Project) -> None:
    answer = Answer("OK", input_tokens=1000, output_tokens=100)
    limit = RateLimit(1, burst=5000, headers="openai")
    with FakeServer(answer, rate_limit=limit) as server:
        write_targets(project, openai(server), openai(server, "unpriced", model="nobody-s"))
        titles, told, unpriced, left, *_, last = project.run("targets", "check").splitlines()
    assert titles.split() == ["target", "model", "answer", "price", "per", "1M", "from"]
    assert told.split()[:3] == ["PASS", "gpt", "openai/gpt-5-mini"]
    assert told.endswith("   $0.25 in, $2 out   .rejoinder/targets.yaml:1")
    assert unpriced.split()[:3] == ["PASS", "unpriced", "openai/nobody-s"] and "   no price   " in unpriced
    assert left.startswith("gpt: 4,99") and "requests left, renewed in" in left
    assert last == "PASS 2 targets answer   $0.00045 spent"


def test_a_check_says_what_is_missing_where_it_was_looked_for_and_what_to_type(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.setattr("rejoinder.cli.targets.form_for", lambda _: Form(80, symbols=True, commands=True))
    project.write("bot.py", "import os\nKEY = os.environ['SHOP_KEY']\n")
    project.write(".env", "OTHER=1\n")
    write_targets(
        project,
        scripted("demo", "yes"),
        {"name": "claude", "provider": "anthropic", "model": "claude-haiku-4-5"},
        {"name": "bot", "provider": "python", "call": "bot:reply"},
    )
    lines = project.run("targets", "check", code=3).splitlines()
    assert [line.split()[:2] for line in lines[1:4]] == [["✓", "demo"], ["✗", "claude"], ["✗", "bot"]]
    assert lines[2].split()[2:] == ["anthropic/claude-haiku-4-5", "no", "key", "$1", "in,", "$5", "out"]
    assert lines[3].split()[2:] == ["python", "bot:reply", "KeyError", "no", "price"]
    assert lines[5] == "claude: ANTHROPIC_API_KEY is not set; looked in the environment and in .env"
    assert lines[6].startswith("bot: the module of `bot:reply` cannot be imported: KeyError: 'SHOP_KEY'")
    assert lines[-2:] == ["✗ 2 of 3 targets cannot be used", "  export ANTHROPIC_API_KEY=...   then the same again"]
    assert project.run("targets", "check", "bot", "demo", code=3).splitlines()[-1] == (
        "  rejoinder targets check bot   this one again"
    )


FAULTS = {
    "status": (Fault("status", status=401), "openai answered 401"),
    "broken": (Fault("reset_before_headers"), "broke off before the answer"),
    "page": (Fault("wrong_content_type"), "text/html"),
    "silence": (Fault("slow_headers", seconds=30), "no answer within 0.2 s"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_one_that_does_not_answer_is_exit_code_3_and_the_others_are_asked(name: str, project: Project) -> None:
    fault, words = FAULTS[name]
    with FakeServer(faults=[fault]) as bad, FakeServer() as good:
        patience = 0.2 if name == "silence" else 60
        write_targets(project, openai(bad, "bad", timeout_seconds=patience), openai(good, "good"))
        found = check(project, code=3)
        assert len(bad.requests) == 1, "a check is one call"
    assert (found["bad"]["answers"], found["good"]["answers"]) == (False, True)
    assert words in found["bad"]["error"]
    assert (found["bad"]["reply"], found["bad"]["cost"], found["bad"]["usage"]) == (None, None, None)


def test_a_check_hides_keys_in_what_comes_back(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def echo(request: Received) -> Answer | Fault:
        said = f"I was sent {request.headers['authorization']}"
        if request.body["model"] == "bad":
            return Fault("status", status=400, body={"error": {"message": said}})
        return Answer(said)

    monkeypatch.setenv("LAB_KEY", KEY)
    with FakeServer(echo) as server:
        key = {"api_key": "${{ LAB_KEY }}"}
        write_targets(project, openai(server, **key), openai(server, "bad", **key) | {"model": "bad"})
        assert KEY not in project.run("targets", "check", code=3)
        found = check(project, code=3)
    assert found["gpt"]["reply"].startswith("I was sent Bearer <<env LAB_KEY #")
    assert "I was sent Bearer <<env LAB_KEY #" in found["bad"]["error"]


def test_some_are_checked_by_name_or_as_a_model(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        write_targets(project, openai(server), openai(server, "other"))
        assert list(check(project, "other", "openai/gpt-5-nano")) == ["other", "openai/gpt-5-nano"]
        assert sorted(request.body["model"] for request in server.requests) == ["gpt-5-mini", "gpt-5-nano"]


def test_an_unknown_target_is_refused_without_a_request(project: Project) -> None:
    with FakeServer() as server:
        write_targets(project, openai(server))
        said = refusal(project, "targets", "check", "gtp", "gpt")
        assert server.requests == []
    assert "there is no target `gtp`; did you mean `gpt`?" in said


def test_a_suite_s_targets_can_be_checked(project: Project) -> None:
    with FakeServer("from the suite") as server:
        cases = [{"prompt": "q", "checks": [{"match": "*"}]}]
        project.write("evals.yaml", {"targets": [openai(server)], "evals": cases})
        assert check(project, "--suite", "evals.yaml")["gpt"]["reply"] == "from the suite"


# Targets that are not for answers


def test_an_embedding_model_is_asked_for_a_vector(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_MODEL", "text-embedding-3-small")
    with FakeServer() as server:
        write_targets(
            project,
            openai(server, "by-model", model="${{ LAB_MODEL }}"),
            openai(server, "by-config", model="bge-m3"),
            openai(server, "gpt"),
            {"name": "gem", "provider": "gemini", "model": "gemini-embedding-001", "base_url": server.url},
        )
        project.write(".rejoinder/config.yaml", {"embedding_target": "by-config"})
        found = check(project)
        paths = {request.body.get("model"): request.path for request in server.requests}
        assert paths["text-embedding-3-small"] == paths["bge-m3"] == "/v1/embeddings"
        assert paths["gpt-5-mini"] == "/v1/chat/completions"
        assert sum(request.path.endswith(":batchEmbedContents") for request in server.requests) == 1
        told = project.run("targets", "check", "by-model")
    assert all(row["answers"] for row in found.values())
    vectors = {name: row["dimensions"] for name, row in found.items()}
    assert vectors.pop("gpt") is None
    assert all(vectors.values())
    assert f"a vector of {vectors['by-model']} numbers" in told


def test_a_target_that_a_suite_compares_meanings_with_is_asked_for_a_vector(project: Project) -> None:
    with FakeServer() as server:
        meant = {"semantic": {"expected": "Paris", "target": "own", "threshold": 0.5}}
        inner = {"prompt": "And now?", "checks": [meant]}
        suite = {
            "targets": [openai(server), openai(server, "own", model="bge"), openai(server, "usual", model="bge")],
            "target": "gpt",
            "embedding_target": "usual",
            "evals": [{"prompt": "q", "checks": [{"match": "*"}, inner]}],
        }
        project.write("evals.yaml", suite)
        found = check(project, "--suite", "evals.yaml")
    assert [found[name]["dimensions"] is not None for name in ("gpt", "own", "usual")] == [False, True, True]


SCRIPTS: dict[str, Raw] = {
    "judge": {"judge": [True]},
    "by-case": {"replies": {"italy": ["Rome."]}},
    "by-case-and-others": {"replies": {"italy": ["Rome."], "*": ["OK"]}},
    "embeddings": {"embeddings": {"Rome": [1, 0]}},
    "embeddings-of-all": {"embeddings": {"*": [1, 0]}},
    "all": {"replies": ["OK"], "judge": [0.5], "embeddings": {"Rome": [1, 0]}},
}


def test_a_script_is_asked_for_what_it_has(project: Project) -> None:
    write_targets(project, *({"name": name, "provider": "scripted", **script} for name, script in SCRIPTS.items()))
    found = check(project)
    assert all(row["answers"] for row in found.values())
    assert {name: row["reply"] for name, row in found.items()} == {
        "judge": '{"score":1.0}',
        "by-case": "Rome.",
        "by-case-and-others": "OK",
        "embeddings": "",
        "embeddings-of-all": "",
        "all": "OK",
    }


# Choosing targets and models for a run

SUITE = {"evals": [{"id": "one", "prompt": "Capital?", "checks": [{"match": "*"}]}]}


def asked(project: Project, *arguments: str, suite: Raw = SUITE) -> list[str]:
    """The targets that a run is put to, in order."""
    document = run(project, suite, *arguments, code=0)
    names = [result["target"] for result in document["results"]]
    assert list(document["summary"]["by_target"]) == list(dict.fromkeys(names))
    return names


@spec("V5", "V7")
@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["-m", "a"], ["a"]),
        (["-m", "b,a"], ["b", "a"]),
        (["-m", "a, b", "--model", "c"], ["a", "b", "c"]),
        (["-m", "a,a", "-m", "a"], ["a"]),
        (["--target", "c", "-m", "a"], ["c", "a"]),
        (["-m", "scripted-*"], ["scripted-1", "scripted-2"]),
        (["-m", "SCRIPTED-*,a"], ["scripted-1", "scripted-2", "a"]),
        (["-m", "*-2,*-1"], ["scripted-2", "scripted-1"]),
    ],
)
def test_targets_are_named_listed_and_matched(arguments: list[str], names: list[str], project: Project) -> None:
    known = ("a", "b", "c", "scripted-1", "scripted-2")
    write_targets(project, *(scripted(name, "yes") for name in known))
    assert asked(project, *arguments) == names


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A server that stands for OpenAI, whose key is the only one that is set."""
    with FakeServer(Answer("yes", input_tokens=1000, output_tokens=100)) as server:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        yield server


@pytest.mark.slow
@spec("V5", "V8")
def test_a_pattern_stands_for_models_whose_provider_has_a_key(project: Project, models: FakeServer) -> None:
    assert len(match_models(["*/gpt-5-mini"])) > 1, "others offer it, too"
    assert asked(project, "-m", "*/gpt-5-mini") == ["openai/gpt-5-mini"]
    assert asked(project, "-m", "openai/gpt-4o-mini,openai/gpt-5-nano*") == ["openai/gpt-4o-mini", "openai/gpt-5-nano"]
    assert [request.body["model"] for request in models.requests] == ["gpt-5-mini", "gpt-4o-mini", "gpt-5-nano"]


def test_a_pattern_may_have_another_name_of_a_provider(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeServer() as server:
        monkeypatch.setenv("GEMINI_API_KEY", KEY)
        monkeypatch.setenv("GEMINI_BASE_URL", server.url)
        assert asked(project, "-m", "google/gemini-2.5-pr*") == ["gemini/gemini-2.5-pro"]
        assert asked(project, "-m", "*/gemini-2.5-pro", "--provider", "google") == ["gemini/gemini-2.5-pro"]


def test_a_target_s_name_goes_before_a_model_s(project: Project, models: FakeServer) -> None:
    write_targets(project, scripted("openai-script", "yes"))
    assert asked(project, "-m", "openai*") == ["openai-script"]
    assert models.requests == []


@spec("V5", "V8")
@pytest.mark.parametrize(
    ("filters", "providers", "quartiles"),
    [
        (["--price", "1"], [], [1]),
        (["--price", "$", "--price", "$$"], [], [1, 2]),
        (["--provider", "openai", "--price", "4"], ["openai"], [4]),
        (["--provider", "anthropic,openai", "--price", "1"], ["anthropic", "openai"], [1]),
    ],
)
def test_a_pattern_is_narrowed_by_price_and_provider(
    filters: list[str], providers: list[str], quartiles: list[int], project: Project, models: FakeServer
) -> None:
    expected = match_models(["openai/gpt*"], providers=providers, quartiles=quartiles)
    assert expected
    assert asked(project, "-m", "openai/gpt*", *filters, "--yes") == expected
    assert {request.body["model"] for request in models.requests} == {name.partition("/")[2] for name in expected}


@pytest.mark.slow
@spec("V5")
def test_all_is_every_model_that_can_be_asked(project: Project, models: FakeServer) -> None:
    expected = match_models(["all"], providers=["openai"], quartiles=[2])
    assert asked(project, "-m", "all", "--price", "2", "--yes") == expected
    assert len(models.requests) == len(expected) > 5


def test_a_key_beside_the_suite_counts_for_patterns_too(project: Project) -> None:
    with FakeServer("yes") as server:
        project.write("suites/.env", f"OPENAI_API_KEY={KEY}\nOPENAI_BASE_URL={server.url}/v1\n")
        project.write("suites/evals.yaml", SUITE)
        project.run("run", "suites/evals.yaml", "-m", "*/gpt-5-mini")
        assert [request.body["model"] for request in server.requests] == ["gpt-5-mini"]


def test_models_that_the_project_prices_itself_are_matched(project: Project, models: FakeServer) -> None:
    project.write(".rejoinder/config.yaml", {"prices": {"openai/ft:mine": {"input": 1, "output": 1}}})
    assert asked(project, "-m", "openai/ft:*") == ["openai/ft:mine"]


@pytest.mark.slow
@spec("V7")
def test_more_than_five_models_need_consent(project: Project, models: FakeServer) -> None:
    found = match_models(["openai/gpt-5*"])
    assert len(found) > 5
    project.write("evals.yaml", SUITE)
    said = refusal(project, "run", "evals.yaml", "-m", "openai/gpt-5*")
    assert f"{len(found)} models would be asked: {found[0]}, " in said
    assert "--yes" in said
    assert models.requests == []
    five = ",".join(found[:5])
    assert asked(project, "-m", five) == found[:5], "five are not many"
    assert "6 models would be asked" in refusal(project, "run", "evals.yaml", "-m", f"{five},{found[5]}")
    assert asked(project, "-m", f"{five},{found[5]}", "-y") == found[:6]


@pytest.mark.slow
@spec("V7")
@pytest.mark.parametrize(("answer", "code"), [(b"n\n", 2), (b"y\n", 0)], ids=["no", "yes"])
def test_at_a_terminal_consent_is_asked_for(answer: bytes, code: int, project: Project, models: FakeServer) -> None:
    project.write("evals.yaml", SUITE)
    names = ",".join(f"openai/model-{number}" for number in range(6))
    ours, theirs = pty.openpty()
    try:
        os.write(ours, answer)
        ended = subprocess.run(
            [sys.executable, "-m", "rejoinder", "run", "evals.yaml", "-m", names],
            cwd=project.folder,
            stdin=theirs,
            capture_output=True,
            check=False,
            timeout=60,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert ended.returncode == code, ended.stderr
    assert b"Ask them all?" in ended.stderr
    assert len(models.requests) == (6 if code == 0 else 0)


MISTAKES = {
    "no-such-name": (["-m", "demu"], ("there is no target `demu`; did you mean `demo`?", "provider/model")),
    "no-provider": (["-m", "gpt-5-mini"], ("there is no target `gpt-5-mini`", "openai/gpt-5-mini")),
    "wrong-provider": (["-m", "opnai/gpt-5-mini"], ("there is no provider `opnai`", "did you mean `openai`?")),
    "no-match": (["-m", "openai/gtp-5*"], ("no known model is called `openai/gtp-5*`",)),
    "no-key": (["-m", "anthropic/*"], ("no key is set for any of them", "rejoinder targets check anthropic/")),
    "nothing-left": (["-m", "openai/*", "--provider", "anthropic"], ("has such a provider or price",)),
    "no-pattern": (["--price", "1"], ("choose among the models of a pattern", "-m 'openai/*' --price 1")),
    "exact-name": (["-m", "demo", "--provider", "openai"], ("choose among the models of a pattern",)),
    "no-quartile": (["-m", "openai/*", "--price", "5"], ("`5` is not a price quartile", "1 to 4")),
    "no-such-provider": (["-m", "all", "--provider", "opnai"], ("did you mean `openai`?",)),
    "empty": (["-m", ""], ("-m names no model",)),
    "commas": (["-m", " , "], ("-m names no model",)),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_choice_that_makes_no_sense_is_refused(name: str, project: Project, models: FakeServer) -> None:
    arguments, words = MISTAKES[name]
    write_targets(project, scripted("demo", "yes"))
    project.write("evals.yaml", SUITE)
    said = refusal(project, "run", "evals.yaml", *arguments)
    for word in words:
        assert word in said
    assert models.requests == []
    assert not list((project.folder / ".rejoinder").glob("runs/*/run.json"))


@pytest.mark.parametrize(("name", "meant"), [("gud", "good"), ("zzz", None)])
def test_a_name_that_is_no_target_is_answered_once(project: Project, name: str, meant: str | None) -> None:
    project.write("evals.yaml", {**SUITE, "targets": [scripted("good", "yes"), scripted("bad", "no")]})
    said = refusal(project, "run", "evals.yaml", "-m", name)
    assert said.count("the targets are good, bad") == 1 == said.count("provider/model")
    assert (f"did you mean `{meant}`?" in said) == (meant is not None)


def test_warnings_are_shown_once_with_a_pattern_as_without(project: Project) -> None:
    write_targets(project, scripted("demo", "yes"))
    project.write("evals.yaml", {"evals": [{"prompt": "@[User]: hm", "checks": [{"match": "*"}]}]})
    for name in ("demo", "dem*"):
        result = project.invoke("run", "evals.yaml", "-m", name)
        assert result.stderr.count("marker-in-text") == 1


# What a comparison shows


@spec("V7")
def test_a_comparison_has_a_line_a_target(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(request: Received) -> Answer | Fault:
        if request.body["model"] == "gpt-5-nano":
            return Fault("status", status=400)
        right = request.body["model"] == "gpt-5-mini" or len(request.body["messages"]) > 1
        return Answer("yes" if right else "no", input_tokens=1000, output_tokens=100)

    follow = {"prompt": "Sure?", "checks": [{"match": "yes"}]}
    suite = {"evals": [{"id": "one", "prompt": "Well?", "checks": [{"match": "yes"}, follow]}]}
    names = ["openai/gpt-5-mini", "openai/gpt-4o-mini", "openai/gpt-5-nano"]
    with FakeServer(answer) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        project.write("evals.yaml", suite)
        arguments = ["run", "evals.yaml", "-m", ",".join(names), "-n", "2"]
        document = project.run_json(*arguments, code=3)
        text = project.run(*arguments, code=3)
    by_target = document["summary"]["by_target"]
    assert list(by_target) == names
    figures = [[by_target[name][key] for key in ("total", "passed", "first_try", "errors")] for name in names]
    assert figures == [[2, 2, 2, 0], [2, 2, 0, 0], [2, 0, 0, 2]]
    assert [by_target[name]["pass_rate"] for name in names] == [1, 1, None]
    assert [by_target[name]["usage"]["total_tokens"] for name in names] == [2200, 4400, 0]
    costs = [2 * (1000 * 0.25 + 100 * 2) / 1e6, 4 * (1000 * 0.15 + 100 * 0.6) / 1e6]
    assert [by_target[name]["cost"] for name in names] == [pytest.approx(cost) for cost in costs] + [None]
    assert document["summary"]["cost"] == pytest.approx(sum(costs)), "what failed at once has cost nothing"
    lines = text.splitlines()
    [head] = [number for number, line in enumerate(lines) if line.split()[:2] == ["target", "cases"]]
    rows = [line.split() for line in lines[head + 1 : head + 4]]
    assert [row[0] for row in rows] == names
    assert [row[1:7] for row in rows] == [f"{n} of 1 {2 * n} of 2".split() for n in (1, 1, 0)], "cases, and trials"
    assert [row[-3] for row in rows[:2]] == ["$0.0009", "$0.00084"]
    assert rows[2][-2:] == ["no", "rate"], "neither a first try nor a cost nor a time"


def test_one_target_needs_no_table(project: Project) -> None:
    write_targets(project, scripted("demo", "yes"))
    project.write("evals.yaml", SUITE)
    assert "rate (95%)" not in project.run("run", "evals.yaml")


# The command line wins


@pytest.mark.slow
@spec("P28", "V6")
@pytest.mark.parametrize("option", ["-m", "--target", "pattern"])
def test_the_command_s_target_wins_over_every_other(
    option: str, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("case", "execution", "suite", "metadata", "project", "default", "wanted")
    write_targets(
        project,
        *(scripted(name, "yes") for name in names),
        {"name": "needy", "provider": "openai", "model": "m", "api_key": "${{ LAB_NOBODY }}"},
    )
    project.write(".rejoinder/config.yaml", {"target": "project"})
    chosen = ["-m", "want*"] if option == "pattern" else [option, "wanted"]
    suites: list[Raw] = [
        {**SUITE, "execution": {"target": "execution"}, "target": "suite", "metadata": {"model": "metadata"}},
        {**SUITE, "target": "needy"},
        {**SUITE, "metadata": {"model": "nobody/knows"}},
        SUITE,
    ]
    suites[0] = {**suites[0], "evals": [{**SUITE["evals"][0], "execution": {"target": "case"}}]}
    for suite in suites:
        assert asked(project, *chosen, suite=suite) == ["wanted"]
    assert asked(project, suite=suites[0]) == ["case"]
    assert asked(project, suite=SUITE) == ["project"]


@pytest.mark.slow
@spec("P28")
def test_the_command_s_system_prompt_wins_over_every_other(project: Project) -> None:
    def systems(suite: Raw, *arguments: str) -> list[str]:
        project.write("evals.yaml", suite)
        server.reset()
        project.run("run", "evals.yaml", *arguments)
        return [request.body["messages"][0]["content"] for request in server.requests]

    with FakeServer() as server:
        target = openai(server, system_prompt="target")
        plain: Raw = {"targets": [target], "evals": [{"prompt": "q", "checks": [{"match": "*"}]}]}
        named = {**plain, "metadata": {"system_prompt": "suite"}}
        own = {**named, "evals": [{"prompt": "q", "system_prompt": "case", "checks": [{"match": "*"}]}]}
        assert [systems(suite) for suite in (plain, named, own)] == [["target"], ["suite"], ["case"]]
        for suite in (plain, named, own):
            assert systems(suite, "--system-prompt", "command") == ["command"]


@spec("P28")
@pytest.mark.parametrize("empty", ["", " \n"], ids=["empty", "blank"])
def test_an_empty_system_prompt_of_the_command_means_none(empty: str, project: Project) -> None:
    with FakeServer() as server:
        case = {"id": "one", "prompt": "q", "checks": [{"match": "*"}]}
        plain: Raw = {"targets": [openai(server, system_prompt="target")], "evals": [case]}
        named = {**plain, "metadata": {"system_prompt": "suite"}}
        own = {**named, "evals": [{**case, "system_prompt": "case"}]}
        usual = {**plain, "formatting": {"default_system_prompt": "usual"}}
        for suite in (plain, named, own, usual):
            project.write("evals.yaml", suite)
            server.reset()
            project.run("run", "evals.yaml", "--system-prompt", empty)
            [request] = server.requests
            assert request.body["messages"] == [{"role": "user", "content": "q"}]
            shown = project.run_json("prompt", "evals.yaml", "--system-prompt", empty)
            assert shown[0]["messages"] == [{"role": "user", "content": "q"}]
