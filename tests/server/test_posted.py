"""Suites from elsewhere: whatever they name outside of themselves, they are refused, and nothing leaves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rejoinder.project.user_files import save_value
from rejoinder.server.references import RULES
from rejoinder.server.settings import Limits
from rejoinder.suite.schema import read_schema
from tests.kit import Project, Raw
from tests.labs.picture_lab import image, png, says
from tests.server.kit import Listener, api, scripted, settings

SECRET = "the-value-that-must-not-leave"


def with_case(**case: Any) -> Raw:
    suite = scripted(1)
    suite["evals"] = [{"id": "c", "prompt": "Count.", "checks": [{"contains": "one"}], **case}]
    return suite


def with_check(check: Raw) -> Raw:
    return with_case(checks=[check])


def with_target(**target: Any) -> Raw:
    return {**scripted(1), "targets": [{"name": "s", **target}]}


def of_agentv(more: dict[str, Any]) -> dict[str, Any]:
    """A suite with one conversation in AgentV's form."""
    turns = [{"input": "a", "assertions": [{"type": "contains", "value": "one"}]}]
    suite = {key: value for key, value in scripted(1).items() if key != "evals"}
    return {**suite, "tests": [{"id": "a", "mode": "conversation", "turns": turns, **more}]}


def hostile_suites(url: str) -> dict[str, Raw]:
    """Every way in which a suite can name an address, a variable, a command, code or a file."""
    judge = {"name": "j", "provider": "scripted", "judge": [True]}
    model = {"model": "m", "api_key": "k"}
    ways: dict[str, Raw] = {
        # Addresses
        "webhook": with_check({"webhook": url}),
        "webhook with headers": with_check({"webhook": {"url": url, "headers": {"a": "b"}}}),
        "webhook in a group": with_check({"or": [{"contains": "x"}, {"not": {"webhook": url}}]}),
        "webhook in a follow-up": with_check({"contains": "x", "prompt": "Again.", "checks": [{"webhook": url}]}),
        "webhook in the whole conversation": with_case(conversation_checks=[{"always": {"webhook": url}}]),
        "webhook in defaults": {**scripted(1), "defaults": {"checks": [{"webhook": url}]}},
        "webhook for every case": {**scripted(1), "checks": [{"webhook": url}]},
        "webhook at a JSON path": with_check({"json_path": {"path": "$.a", "check": {"webhook": url}}}),
        "webhook that ends a user": with_case(user={"goal": "g", "stop": {"webhook": url}}, prompt=None),
        "webhook from a variable": {**with_check({"webhook": "{{ var('u') }}"}), "vars": {"u": url}},
        "webhook in a turn": with_case(turns=[{"prompt": "x", "checks": [{"webhook": url}]}], prompt=None),
        "MCP server": {**scripted(1), "metadata": {"mcp_server": {"url": url, "name": "m"}}},
        "a schema elsewhere": with_check({"json_schema": {"$ref": url}}),
        "settings of a variant": {**scripted(1), "variants": [{"name": "v", "settings": {"base_url": url}}]},
        "headers of a variant": {**scripted(1), "variants": [{"name": "v", "settings": {"headers": {"a": "b"}}}]},
        "http target": with_target(provider="http", url=url, reply_path="$.a"),
        "http in capitals": with_target(provider="HTTP", url=url, reply_path="$.a"),
        "azure": with_target(provider="azure", endpoint=url, deployment="d", api_key="k"),
        "nested settings": with_target(provider="openai", settings={**model, "base_url": url}),
        **{
            name: with_target(provider=name, **model, base_url=url)
            for name in ("openai", "anthropic", "gemini", "ollama", "vllm", "openrouter", "lmstudio")
        },
        # Targets that are not the server's
        "model by its name": {**scripted(1), "target": "openai/gpt-5"},
        "model of metadata": {**with_case(), "target": None, "metadata": {"model": "openai/gpt-5"}},
        "target of a case": with_case(execution={"target": "openai/gpt-5"}),
        "judge by its name": with_check({"llm_judge": {"criteria": "Good?", "target": "openai/gpt-5"}}),
        "judge of the suite": {**with_case(outcome="Good."), "judge_target": "openai/gpt-5"},
        "judge of a target": with_target(provider="scripted", replies=["one"], judge_target="openai/gpt-5"),
        "another target to compare with": with_check({"compare": {"criteria": "c", "reply_of": "openai/gpt-5"}}),
        "embeddings": with_check({"semantic": {"expected": "x", "threshold": 0.5, "target": "openai/e"}}),
        "a user by its name": with_case(user={"goal": "g", "target": "openai/gpt-5", "stop": "DONE"}, prompt=None),
        "an auditor by its name": with_case(
            user={"goal": "g", "target": "s", "audit": "openai/gpt-5", "stop": "DONE"}, prompt=None
        ),
        "an agent that needs no entry": {**scripted(1), "target": "claude"},
        "a target of a list": {**scripted(1), "target": [scripted(1)["targets"][0]["name"], "openai/gpt-5"]},
        "a target of a list of a case": with_case(execution={"target": ["openai/gpt-5"]}),
        "a target of a conversation of AgentV": of_agentv({"execution": {"target": "openai/gpt-5"}}),
        "env in a conversation of AgentV": of_agentv(
            {"turns": [{"input": "{{ env('LEAKED') }}", "assertions": ["a"]}]}
        ),
        "env in an assertion of AgentV": of_agentv(
            {"turns": [{"input": "a", "assertions": [{"type": "contains", "value": "{{ env('LEAKED') }}"}]}]}
        ),
        "a target named by a variable": {**scripted(1), "target": "{{ var('t') }}", "vars": {"t": "openai/gpt-5"}},
        # Variables, secrets and the environment
        "env in a prompt": with_case(prompt="{{ env('LEAKED') }}"),
        "env in double quotes": with_case(prompt='{{env("LEAKED")}}'),
        "env in a check": with_check({"contains": "{{ env('LEAKED') }}"}),
        "env in a key": with_case(vars={"{{ env('LEAKED') }}": "x"}),
        "env in a variable": {**with_case(prompt="{{ var('x') }}"), "vars": {"x": "{{ env('LEAKED') }}"}},
        "env in the system prompt": {**scripted(1), "metadata": {"system_prompt": "{{ env('LEAKED') }}"}},
        "env in a tag": with_case(tags=["{{ env('LEAKED') }}"]),
        "env in the case's own data": with_case(metadata={"a": ["{{ env('LEAKED') }}"]}),
        "env in a scripted reply": with_target(provider="scripted", replies=["{{ env('LEAKED') }}"]),
        "env in a variant": {**scripted(1), "variants": [{"name": "v", "system_prompt": "{{ env('LEAKED') }}"}]},
        "env of a target": with_target(provider="scripted", replies=["${{ LEAKED }}"]),
        "env of a target, put together": {
            **with_target(provider="scripted", replies=["${{ var('x') }}"]),
            "vars": {"x": "{{ LEAKED }}"},
        },
        "secret": with_case(prompt="{{ secret('kept') }}"),
        "secret of a judge": {
            **with_check({"llm_judge": {"criteria": "{{ secret('kept') }}", "target": "j"}}),
            "targets": [*scripted(1)["targets"], judge],
        },
        "variable of the user": with_case(prompt="{{ var('mine') }}"),
        "variable of the user by its name": with_case(prompt="{{ mine }}", vars={"other": "x"}),
        "variable of the project": with_case(prompt="{{ var('ours') }}"),
        # Commands and code
        "command": with_check({"command": "touch ran"}),
        "command in words": with_check({"command": ["touch", "ran"]}),
        "code": with_check({"code": "touch ran"}),
        "script": with_check({"code": {"script": ["touch", "ran"]}}),
        "python": with_check({"python": "os:getcwd"}),
        "python call": with_check({"python": {"call": "os:getcwd"}}),
        "a check of the project": with_check({"check": "theirs"}),
        "evaluator": with_case(execution={"evaluators": [{"type": "code_judge", "script": "touch ran"}]}),
        "evaluator of the suite": {
            **scripted(1),
            "execution": {"evaluators": [{"type": "code", "script": "touch ran"}]},
        },
        "evaluator of the case": with_case(evaluators=[{"type": "code", "script": "touch ran", "cwd": "/"}]),
        "python target": with_target(provider="python", call="os:getcwd"),
        "cli target": with_target(provider="cli", command_template="touch ran"),
        "agent": with_target(provider="acp", command=["touch", "ran"]),
        "codex": with_target(provider="codex", executable="touch"),
        # Files
        "prompt from a file": with_case(prompt={"file": "private.txt"}),
        "prompt from an absolute file": with_case(prompt={"file": "/etc/hostname"}),
        "a picture": with_case(prompt=None, input_messages=[says("?", image("private.png"))]),
        "a picture of a later turn": with_case(
            prompt=None, turns=[{"prompt": "Hi"}, {"messages": [says("?", image("private.png"))]}]
        ),
        "prompt from above": with_case(prompt={"file": "../../../private.txt"}),
        "system prompt from a file": with_case(system_prompt={"file": "private.txt"}),
        "system prompt of a variant": {
            **scripted(1),
            "variants": [{"name": "v", "system_prompt": {"file": "private.txt"}}],
        },
        "prefix of a variant": {**scripted(1), "variants": [{"name": "v", "prompt_prefix": {"file": "private.txt"}}]},
        "system prompt of a target": with_target(
            provider="scripted", replies=["one"], system_prompt={"file": "private.txt"}
        ),
        "follow-up from a file": with_check(
            {"contains": "x", "prompt": {"file": "private.txt"}, "checks": [{"contains": "y"}]}
        ),
        "turn from a file": with_case(turns=[{"prompt": {"file": "private.txt"}}], prompt=None),
        "attachment": with_case(
            prompt=None, input_messages=[{"role": "user", "content": [{"type": "file", "value": "private.txt"}]}]
        ),
        "attached .env": with_case(
            prompt=None, input_messages=[{"role": "user", "content": [{"type": "file", "value": ".env"}]}]
        ),
        "attachment of an expected message": with_case(
            expected_messages=[{"role": "assistant", "content": [{"type": "file", "value": "private.txt"}]}]
        ),
        "schema from a file": with_check({"json_schema": "private.json"}),
        "schema from a file by a variable": {
            **with_check({"json_schema": "{{ var('f') }}"}),
            "vars": {"f": "private.json"},
        },
        "judge's prompt from a file": {
            **with_check({"llm_judge": {"prompt": "private.txt", "target": "j"}}),
            "targets": [*scripted(1)["targets"], judge],
        },
        "judge's prompt from the configuration": {
            **with_check({"llm_judge": {"prompt": ".rejoinder/config.yaml", "target": "j"}}),
            "targets": [*scripted(1)["targets"], judge],
        },
        "evaluator's prompt from a file": {
            **with_case(evaluators=[{"type": "llm_judge", "prompt": "private.txt", "target": "j"}]),
            "targets": [*scripted(1)["targets"], judge],
        },
        "data set": {**scripted(1), "cases": "private.jsonl"},
        "data set of a case": with_case(cases="private.jsonl"),
        "data set of a list": {**scripted(1), "cases": ["private.jsonl"]},
        "folder of data sets": {**scripted(1), "cases": "."},
        "folder above": with_case(cases=["../../.."]),
        "the client's certificate": with_target(provider="openai", **model, client_cert="private.txt"),
        "weights": with_target(provider="local", model="private.gguf"),
        "cassettes": with_target(provider="replay", cassettes=".", of="s"),
    }
    return {name: _without_nothing(suite) for name, suite in ways.items()}


def _without_nothing(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nothing(one) for key, one in value.items() if one is not None}
    return [_without_nothing(one) for one in value] if isinstance(value, list) else value


ROWS: dict[str, str] = {
    "webhook in a row": json.dumps({"prompt": "x", "checks": [{"webhook": "http://127.0.0.1:1/"}]}),
    "code in a row": json.dumps({"prompt": "x", "checks": [{"code": "touch ran"}]}),
    "file in a row": json.dumps({"prompt": {"file": "private.txt"}}),
    "attachment in a row": json.dumps(
        {"input_messages": [{"role": "user", "content": [{"type": "file", "value": "private.txt"}]}]}
    ),
    "env in a row": json.dumps({"prompt": "{{ env('LEAKED') }}"}),
    "env in a row, hidden by escapes": '{"prompt": "\\u007b\\u007b env(\'LEAKED\') }}"}',
    "env in a column": json.dumps({"prompt": "{{ x }}", "x": "{{ env('LEAKED') }}"}),
    "a judge's prompt in a row": json.dumps(
        {"prompt": "x", "evaluators": [{"type": "llm_judge", "prompt": ".rejoinder/config.yaml", "target": "s"}]}
    ),
    "a target in a row": json.dumps({"prompt": "x", "execution": {"target": "openai/gpt-5"}}),
}


@pytest.fixture
def place(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with all that a stranger could want."""
    monkeypatch.setenv("LEAKED", SECRET)
    save_value("vars", "mine", SECRET)
    save_value("secrets", "kept", SECRET)
    project.write(".rejoinder/config.yaml", {"vars": {"ours": SECRET}})
    project.write(
        ".rejoinder/checks.py", "import rejoinder\n\n@rejoinder.check\ndef theirs(evidence):\n    return True\n"
    )
    project.write(".env", f"FROM_FILE={SECRET}\n")
    project.write("private.txt", SECRET)
    project.write("private.png", png())
    project.write("private.json", {"type": "object"})
    project.write("private.jsonl", '{"prompt": "x"}\n')
    return project


def assert_nothing_queued(folder: Path) -> None:
    queue = folder / ".rejoinder" / "queue"
    assert not queue.exists() or [path.name for path in queue.iterdir() if path.is_dir()] == []
    assert not (folder / ".rejoinder" / "runs").exists()
    assert not (folder / "ran").exists()


@pytest.mark.parametrize("way", hostile_suites("http://127.0.0.1:1/"))
def test_what_a_suite_names_outside_of_itself_is_refused(place: Project, listener: Listener, way: str):
    suite = hostile_suites(listener.url)[way]
    answer = api(settings(place.folder), "POST", "/runs", {"yaml": json.dumps(suite)})
    assert answer.status_code == 422, answer.text
    # A schema that is not there is no schema, whoever names it.
    assert answer.json()["error"]["code"].startswith("suite" if way == "a schema elsewhere" else "names-"), answer.text
    assert SECRET not in answer.text
    assert_nothing_queued(place.folder)
    assert not listener.was_reached


@pytest.mark.parametrize(
    ("more", "path"),
    [
        ({"metadata": {"model": "openai/gpt-5"}, "target": None}, "metadata.model"),
        ({"target": "openai/gpt-5"}, "target"),
        ({"target": ["one", "openai/gpt-5"]}, "target"),
        ({"execution": {"target": ["openai/gpt-5"]}}, "execution.target"),
    ],
)
def test_a_refused_target_is_found_where_the_suite_names_it(place: Project, more: dict[str, Any], path: str):
    suite = {key: value for key, value in {**scripted(1), **more}.items() if value is not None}
    suite["targets"] = [{**suite["targets"][0], "name": "one"}]
    [detail] = api(settings(place.folder), "POST", "/runs", {"yaml": json.dumps(suite)}).json()["error"]["details"]
    assert detail["path"] == path


@pytest.mark.parametrize("way", ROWS)
def test_so_is_what_a_row_of_a_data_set_names(place: Project, way: str):
    suite = {**scripted(1), "cases": "rows.jsonl", "checks": [{"contains": "one"}]}
    del suite["evals"]
    body = {"yaml": json.dumps(suite), "files": {"rows.jsonl": ROWS[way]}}
    answer = api(settings(place.folder), "POST", "/runs", body)
    assert answer.status_code == 422, answer.text
    assert answer.json()["error"]["code"].startswith("names-"), answer.text
    assert SECRET not in answer.text
    assert_nothing_queued(place.folder)


def test_and_what_a_text_in_a_file_names(place: Project):
    body = {"yaml": json.dumps(with_case(prompt={"file": "t.txt"})), "files": {"t.txt": "{{ env('LEAKED') }}"}}
    assert api(settings(place.folder), "POST", "/runs", body).json()["error"]["code"] == "names-environment"


def test_quoted_cells_of_csv_hide_nothing(place: Project):
    suite = {**scripted(1), "cases": "rows.csv", "checks": [{"contains": "one"}]}
    del suite["evals"]
    body = {"yaml": json.dumps(suite), "files": {"rows.csv": 'prompt\n"{{ env(""LEAKED"") }}"\n'}}
    assert api(settings(place.folder), "POST", "/runs", body).json()["error"]["code"] == "names-environment"


class TestWhatMayBe:
    def test_a_suite_with_a_scripted_target_is_queued(self, place: Project):
        answer = api(settings(place.folder), "POST", "/runs", {"yaml": json.dumps(scripted())})
        assert answer.status_code == 202, answer.text
        assert (place.folder / ".rejoinder" / "queue" / answer.json()["id"] / "entry.json").is_file()

    def test_so_is_one_with_the_files_and_variables_that_it_brings(self, place: Project):
        suite = {
            **with_case(
                prompt=None,
                vars={"word": "one"},
                input_messages=[{"role": "user", "content": [{"type": "file", "value": "docs/notes.md"}]}],
                checks=[{"contains": "{{ word }}"}, {"json_schema": "s.json"}],
            ),
            "vars": {"mine": "my own"},
        }
        files = {"docs/notes.md": "{{ env('X') }} is how variables are written.", "s.json": '{"type": "object"}'}
        answer = api(
            settings(place.folder), "POST", "/runs", {"yaml": json.dumps(_without_nothing(suite)), "files": files}
        )
        assert answer.status_code == 202, answer.text

    def test_so_is_one_with_a_folder_of_data_sets_that_it_brings(self, place: Project):
        suite = {**scripted(0), "cases": ["rows", "more.csv"], "defaults": {"checks": [{"contains": "x"}]}}
        del suite["evals"]
        rows = {"rows/a.csv": "id,prompt\na,A\n", "rows/deep/b.csv": "id,prompt\nb,B\n", "more.csv": "id,prompt\nc,C\n"}
        answer = api(settings(place.folder), "POST", "/runs", {"yaml": json.dumps(suite), "files": rows})
        assert answer.status_code == 202, answer.text

    def test_so_is_one_that_names_a_target_of_the_server(self, place: Project):
        place.write(
            ".rejoinder/targets.yaml", {"targets": [{"name": "ours", "provider": "scripted", "replies": ["a"]}]}
        )
        suite = {"target": "ours", "evals": [{"prompt": "x", "checks": [{"contains": "a"}]}]}
        answer = api(settings(place.folder), "POST", "/runs", {"yaml": json.dumps(suite)})
        assert answer.status_code == 202, answer.text

    @pytest.mark.parametrize(("way", "flags"), [("env in a prompt", "allow_targets"), ("code", "allow_code")])
    def test_the_server_can_be_told_to_allow_more(self, place: Project, way: str, flags: str):
        suite = hostile_suites("http://127.0.0.1:1/")[way]
        answer = api(settings(place.folder, **{flags: True}), "POST", "/runs", {"yaml": json.dumps(suite)})
        assert answer.status_code == 202, answer.text

    @pytest.mark.parametrize(
        "suite",
        [
            with_target(provider="python", call="os:getcwd"),
            {**scripted(1), "target": "claude"},
            with_target(provider="http", url="http://x.example/", start={"command": ["x"], "ready": "line: x"}),
            with_target(provider="http", url="http://x.example/", auth={"command": ["x"]}),
            {**scripted(1), "variants": [{"name": "v", "settings": {"start": {"command": "x", "ready": "line: x"}}}]},
            {**scripted(1), "variants": [{"name": "v", "settings": {"command": ["x"]}}]},
        ],
        ids=["python", "agent", "service", "token", "service of a variant", "command of a variant"],
    )
    def test_targets_alone_do_not_bring_code(self, place: Project, suite: Raw):
        answer = api(settings(place.folder, allow_targets=True), "POST", "/runs", {"yaml": json.dumps(suite)})
        assert answer.json()["error"]["code"] == "names-code"


class TestBounds:
    @pytest.mark.parametrize(
        "name",
        [
            "../x",
            "/etc/x",
            "a/../b",
            ".env",
            ".rejoinder/config.yaml",
            "suite.yaml",
            "entry.json",
            "",
            "a//b",
            "a\\b",
            "x.",
        ],
    )
    def test_a_file_stays_in_its_folder(self, place: Project, name: str):
        body = {"yaml": json.dumps(scripted()), "files": {name: "x"}}
        assert api(settings(place.folder), "POST", "/runs", body).status_code == 422
        assert_nothing_queued(place.folder)

    @pytest.mark.parametrize(
        "text",
        [
            "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\n"
            "d: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e]\n"
            "g: [*f,*f,*f,*f,*f,*f,*f,*f]",
            "[" * 5000,
            "a: " + "{b: " * 3000,
            "!!python/object/apply:os.system [touch ran]",
            "\x00",
            "evals: [",
            "- a list",
            "evals: null",
        ],
    )
    def test_broken_and_swollen_yaml_is_refused(self, place: Project, text: str):
        answer = api(settings(place.folder), "POST", "/runs", {"yaml": text})
        assert answer.status_code == 422
        assert_nothing_queued(place.folder)

    @pytest.mark.parametrize(
        "suite",
        [with_case(repeat=5), {**scripted(1), "metadata": {"threads": 101}}, scripted(5)],
        ids=["repeats", "threads", "cases"],
    )
    def test_a_suite_from_elsewhere_is_no_larger_than_the_server_bears(self, place: Project, suite: Raw):
        of = settings(place.folder, limits=Limits(conversations=4))
        answer = api(of, "POST", "/runs", {"yaml": json.dumps(suite)})
        assert answer.status_code == 422
        assert answer.json()["error"]["code"].startswith("too-many-")
        assert_nothing_queued(place.folder)

    def test_the_queue_has_an_end(self, place: Project):
        of = settings(place.folder, limits=Limits(queued=2))
        codes = [api(of, "POST", "/runs", {"yaml": json.dumps(scripted())}).status_code for _ in range(3)]
        assert codes == [202, 202, 429]


class TestOwnSuites:
    @pytest.mark.parametrize(
        "path",
        [
            "../outside.yaml",
            "/etc/hosts",
            "link.yaml",
            "folder/link.yaml",
            ".rejoinder/config.yaml",
            "none.yaml",
            "a\x00b",
        ],
    )
    def test_a_path_does_not_leave_the_project(
        self, place: Project, path: str, tmp_path_factory: pytest.TempPathFactory
    ):
        outside = tmp_path_factory.mktemp("outside")
        (outside / "outside.yaml").write_text(json.dumps(scripted()))
        (place.folder.parent / "outside.yaml").write_text(json.dumps(scripted()))
        (place.folder / "link.yaml").symlink_to(outside / "outside.yaml")
        (place.folder / "folder").symlink_to(outside)
        (outside / "link.yaml").write_text(json.dumps(scripted()))
        answer = api(settings(place.folder), "POST", "/runs", {"suite": path})
        assert answer.status_code == 422
        assert_nothing_queued(place.folder)

    def test_options_name_targets_that_are_known(self, place: Project):
        place.write("evals.yaml", scripted())
        body = {"suite": "evals.yaml", "options": {"targets": ["openai/gpt-5"]}}
        answer = api(settings(place.folder), "POST", "/runs", body)
        assert answer.json()["error"]["code"] == "names-target"
        assert_nothing_queued(place.folder)

    def test_a_case_that_is_not_there_is_told_at_once(self, place: Project):
        place.write("evals.yaml", scripted())
        body = {"suite": "evals.yaml", "options": {"cases": ["none"]}}
        assert api(settings(place.folder), "POST", "/runs", body).status_code == 422
        assert_nothing_queued(place.folder)


HARMLESS = """
    $schema after aggregation always and arguments ask assert assertions at_least
    tests before budget by_turn cache calls check checks
    chat_file_style agent_paths combine concat condition conditions contains contains_all contains_any contains_json
    content control conversation_checks conversation_id cost criteria criterion dataset default_system_prompt defaults
    delay_ms description embedding_target embeddings ends_with equals error evalcases evals evaluator evaluators
    every_turn evidence execution exit_code expected expected_messages expected_outcome expected_output extract fault
    file_contains file_exists file_style file_unchanged finish_reason flags followups formatting function goal group
    guideline_patterns hint hits icontains icontains_all icontains_any id input input_messages input_tokens is_json
    is_refusal json_path judge judgeTarget judge_target knows latency levenshtein limit llm_judge manner marker
    marker_in_text match max max_lines max_retries max_tokens max_turns max_words message messages metadata metric min
    min_lines min_score min_tokens min_words misses mode model name negate never not not_contains not_match note
    on on_invalid on_turn_failure opening or order outcome output_tokens pass pass_steps path pattern persona pieces
    profile prompt prompt_prefix providerBatching provider_batching quarantine ready_followups reason reasoning
    reasoning_tokens regex repeat replies reply reply_of required required_min_score retry_backoff_factor
    retry_initial_delay_ms retry_max_delay_ms retry_status_codes retryable role rouge_l rubric rubrics run score
    score_range score_ranges seed semantic shards similar starts_with stop system_prompt systemPrompt tags target
    targets task text then threads threshold timeout timeoutSeconds timeout_seconds times token tokens tool_call_id
    tool_calls toon turn turns type until usd user value variants vars votes weight when window_size with workers
    workspace_diff first second audit refresh
    compare meaning
    seconds rate parameters result args max_tool_rounds allow tool at returns tools status fails like env scripted scope
    anywhere count effort elements field_accuracy fields is_xml kind max_tool_calls min_tool_calls min_turns prompts
    schema skill_used strip subset tolerance wanted
    attack canary class complete context faithful relevant tool_sets tool_state where
"""
"""Keys that name nothing outside of the suite, or only a target, which is looked at when the suite is loaded."""


def test_every_key_of_the_schema_is_known_here():
    """A new key of suites is not let through by being forgotten: add it to the rules, or to the harmless ones."""
    schema = read_schema()
    of_targets = {name for name in schema["$defs"] if name.endswith("Settings")} - {
        "sharedSettings",
        "scriptedSettings",
    }
    left_out = of_targets | {"targetsFile", "config", "clientCert", "sessionRequest", "target"}
    keys: set[str] = set()

    def collect(node: Any) -> None:
        if isinstance(node, dict):
            keys.update(node.get("properties", {}))
            for key, one in node.items():
                if key not in ("description", "enum"):
                    collect(one)
        elif isinstance(node, list):
            for one in node:
                collect(one)

    collect({key: value for key, value in schema.items() if key != "$defs"})
    for name, node in schema["$defs"].items():
        if name not in left_out:
            collect(node)
    known = {rule.rpartition(".")[2] for rule in RULES} | {"url", "headers", "authorization_token", "call"}  # in those
    left = sorted(keys - known - set(HARMLESS.split()))
    assert left == []


@pytest.mark.parametrize("name", ["mine", "ours"])
def test_a_variable_of_one_variant_is_not_that_of_the_others(place: Project, name: str):
    suite = with_case(prompt=f"{{{{ var('{name}') }}}}")
    other = {"name": "w", "vars": {"other": "x"}}
    for variants, status in (
        ([{"name": "v", "vars": {name: "own"}}, other], 422),
        ([{"name": "v", "vars": {name: "own"}}, {"name": "w"}], 422),
        ([{"name": "v", "vars": {name: "own"}}, {"name": "w", "vars": {name: "also"}}], 202),
    ):
        answer = api(settings(place.folder), "POST", "/runs", {"yaml": json.dumps({**suite, "variants": variants})})
        assert answer.status_code == status, answer.text
        if status == 422:
            assert answer.json()["error"]["code"] == "names-variable"
            assert_nothing_queued(place.folder)


@pytest.mark.parametrize("options", [{"targets": ["s\0"]}, {"cases": ["\0"]}, {"tags": ["a", "b\0c"]}])
def test_a_name_with_a_character_that_no_name_has_is_unknown(place: Project, options: Raw):
    body = {"yaml": json.dumps(scripted(1)), "options": options}
    assert api(settings(place.folder), "POST", "/runs", body).status_code == 422
    assert_nothing_queued(place.folder)


def test_nor_is_there_a_suite_of_such_a_name(place: Project):
    assert api(settings(place.folder), "POST", "/runs", {"suite": "a\0.yaml"}).status_code == 422
