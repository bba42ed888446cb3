"""`output_schema`: sent as each API's structured output, checked without being repeated, and refused where there is no
such thing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rejoinder.json_schemas import compile_schema
from rejoinder.providers.structured import openai_form
from rejoinder.testing import Answer, FakeServer, with_judge
from tests.kit import (
    Project,
    Raw,
    behind,
    case,
    codes,
    essence,
    follow,
    only_run,
    refusal,
    run,
    run_folders,
    run_refusal,
    scripted,
)

CITY: Raw = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
TOWN: Raw = {**CITY, "properties": {"town": {"type": "string"}}, "required": ["town"]}
LOOSE: Raw = {"type": "object", "properties": {"city": {"type": "string"}}}
ROME = '{"city": "Rome"}'
SENT = {"type": "json_schema", "name": "reply", "schema": CITY, "strict": True}
APIS: dict[str, tuple[Raw, tuple[str, ...], Any]] = {
    "chat": (
        {"provider": "openai", "api": "chat"},
        ("response_format",),
        {"type": "json_schema", "json_schema": {name: SENT[name] for name in ("name", "schema", "strict")}},
    ),
    "responses": ({"provider": "openai", "api": "responses"}, ("text", "format"), SENT),
    "azure": (
        {"provider": "azure"},
        ("response_format", "json_schema"),
        {name: SENT[name] for name in ("name", "schema", "strict")},
    ),
    "groq": ({"provider": "groq"}, ("response_format", "json_schema", "schema"), CITY),
    "anthropic": (
        {"provider": "anthropic", "reasoning_effort": "low"},
        ("output_config",),
        {"effort": "low", "format": {"type": "json_schema", "schema": CITY}},
    ),
    "gemini": (
        {"provider": "gemini", "temperature": 0},
        ("generationConfig",),
        {"temperature": 0.0, "responseMimeType": "application/json", "responseJsonSchema": CITY},
    ),
}


def target_of(server: FakeServer, api: str, **more: Any) -> Raw:
    given = APIS[api][0]
    address = {
        "openai": {"base_url": server.openai_url},
        "groq": {"base_url": server.openai_url},
        "azure": {"endpoint": server.url},
    }.get(given["provider"], {"base_url": server.url})
    return {"name": "bot", "model": "fake-large", "api_key": "a-key", **given, **address, **more}


def suite(target: Raw, *cases: Raw, **more: Any) -> Raw:
    return {"target": target["name"], "targets": [target], "evals": list(cases) or [{"prompt": "Where?"}], **more}


def at(body: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        body = body.get(name) if isinstance(body, dict) else None
    return body


@pytest.mark.parametrize("api", APIS)
def test_each_api_gets_it_in_its_own_form(project: Project, api: str) -> None:
    """In every turn, and the reply is checked by it though no check is written."""
    _, path, form = APIS[api]
    replies = iter(("no JSON", ROME))
    with FakeServer(lambda _: Answer(next(replies))) as server:
        again = {"prompt": "Where?", "checks": [{"match": "*"}, follow("In JSON.", {"contains": "Rome"})]}
        document = run(project, suite(target_of(server, api), again, output_schema=CITY), code=0)
    assert [at(one.body, path) for one in server.requests] == [form, form]
    [result] = document["results"]
    assert result["raw_request"]["output_schema"] == CITY
    first, second = result["turns"]
    assert [check["check"] for check in first["checks"]] == ["json_schema", "match *"]
    assert first["checks"][0]["reason"] == "there is no JSON in the reply"
    assert [check["passed"] for check in second["checks"]] == [True, True]


@pytest.mark.parametrize("api", APIS)
def test_without_it_no_request_has_a_form(project: Project, api: str) -> None:
    with FakeServer(lambda _: Answer(ROME)) as server:
        document = run(project, suite(target_of(server, api), case("one", {"contains": "Rome"})), code=0)
    [request] = server.requests
    assert at(request.body, (APIS[api][1][0], "format")) is None
    assert "responseMimeType" not in str(request.body)
    assert "response_format" not in request.body
    assert "output_schema" not in document["results"][0]["raw_request"]


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (CITY, True),
        (LOOSE, False),
        ({**CITY, "required": []}, False),
        ({**CITY, "properties": {"city": {"type": "string", "minLength": 1}}}, False),
        ({**CITY, "properties": {"city": LOOSE}}, False),
        ({**CITY, "properties": {"city": {"type": "array", "items": CITY}}}, True),
        ({**CITY, "properties": {"city": {"type": "array", "items": LOOSE}}}, False),
        ({**CITY, "properties": {"city": {"anyOf": [CITY, {"type": "null"}]}}}, True),
        ({**CITY, "properties": {"city": {"$ref": "#/$defs/c"}}, "$defs": {"c": CITY}}, True),
        ({**CITY, "properties": {"city": {"$ref": "#/$defs/c"}}, "$defs": {"c": LOOSE}}, False),
        ({**CITY, "properties": {"city": {"type": ["object", "null"]}}}, False),
        ({"anyOf": [CITY], **CITY}, False),
        ({"type": "array", "items": CITY}, False),
        ({**CITY, "properties": {"city": True}}, False),
    ],
)
def test_only_schemas_that_openai_accepts_are_strict(schema: Raw, strict: bool) -> None:
    compile_schema(schema)
    assert ("strict" in openai_form(json.dumps(schema))) is strict


def test_the_inner_one_wins(project: Project) -> None:
    """The case's, else the suite's, else the target's; variants replace the target's."""
    own = case("own", output_schema=TOWN)
    for schemas in ({"output_schema": TOWN}, {}):
        with FakeServer(lambda _: Answer('{"town": "Rome"}')) as server:
            target = target_of(server, "chat", output_schema=CITY)
            document = run(project, suite(target, case("plain"), own, **schemas))
        asked = [at(one.body, ("response_format", "json_schema", "schema")) for one in server.requests]
        passed = [result["passed"] for result in document["results"]]
        assert sorted(map(str, asked)) == sorted(map(str, [TOWN if schemas else CITY, TOWN]))
        assert passed == [bool(schemas), True]
    with FakeServer(lambda _: Answer(ROME)) as server:
        variants = [{"name": "a"}, {"name": "b", "settings": {"output_schema": CITY}}]
        run(project, suite(target_of(server, "chat"), case("plain"), variants=variants))
    asked = [at(one.body, ("response_format", "json_schema", "schema")) for one in server.requests]
    assert sorted(map(str, asked)) == sorted([str(None), str(CITY)])


@pytest.mark.parametrize("where", ["target", "suite", "case", "defaults"])
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("city.json", json.dumps(CITY)),
        ("city.yaml", "type: object\nrequired: [city]\n"),
        ("d/city.yml", "type: object"),
    ],
)
@pytest.mark.parametrize("is_text", [True, False])
def test_it_can_be_a_file(project: Project, where: str, name: str, content: str, is_text: bool) -> None:
    project.write(name, content)
    bot, one = scripted("bot", ROME), case("one")
    schema = {"output_schema": name if is_text else {"file": name}}
    written = suite(
        {**bot, **(schema if where == "target" else {})},
        {**one, **(schema if where == "case" else {})},
        **(schema if where == "suite" else {}),
        **({"defaults": schema} if where == "defaults" else {}),
    )
    [result] = run(project, written, code=0)["results"]
    assert result["turns"][0]["checks"][0]["reason"] == "satisfies the schema"
    assert project.errors({**written, "targets": [bot]}) == []


@pytest.mark.parametrize(
    ("schema", "code", "says"),
    [
        ({"type": "objekt"}, "invalid-schema", "this is not a JSON Schema"),
        ({"$ref": "other.json"}, "invalid-schema", "other.json"),
        ("none.json", "file-not-found", "none.json"),
        ({"file": "none.json"}, "file-not-found", "none.json"),
        ("broken.json", "json-syntax", "broken.json is not valid JSON"),
        ("broken.yaml", "yaml-syntax", "broken.yaml, line 2"),
        ("twice.yaml", "duplicate-key", "twice.yaml, line 2"),
        ("list.json", "invalid-schema", "an output schema is a mapping"),
        ("../../etc/passwd", "file-not-found", "passwd"),
        (3, "wrong-type", "output_schema"),
        ([CITY], "wrong-type", "output_schema"),
    ],
)
@pytest.mark.parametrize("where", ["target", "suite", "case"])
def test_a_wrong_one_is_one_error(project: Project, schema: Any, code: str, says: str, where: str) -> None:
    project.write("broken.json", "{")
    project.write("broken.yaml", "type: object\nrequired: [city")
    project.write("twice.yaml", "type: object\ntype: object\n")
    project.write("list.json", "[1]")
    given = {"output_schema": schema}
    bot, one = scripted("bot", ROME), case("one")
    written = suite(
        {**bot, **(given if where == "target" else {})},
        {**one, **(given if where == "case" else {})},
        **(given if where == "suite" else {}),
    )
    [error] = project.errors(written)
    assert error["code"] == code, error
    assert says in error["message"] + error["path"], error
    assert "output_schema" in error["path"]


DEEPSEEK = {"name": "bot", "provider": "deepseek", "model": "deepseek-chat", "api_key": "a-key"}


@pytest.mark.parametrize(
    "target",
    [
        DEEPSEEK,
        {"name": "bot", "provider": "http", "url": "http://127.0.0.1:9/"},
        {"name": "bot", "provider": "cli", "command": ["cat"]},
        {"name": "bot", "provider": "claude"},
        {"name": "bot", "provider": "mock"},
    ],
)
def test_it_is_refused_where_an_api_has_none(project: Project, target: Raw) -> None:
    for written, place in (
        (suite(target, case("one"), output_schema=CITY), "output_schema"),
        (suite(target, case("one", output_schema=CITY)), "evals[0].output_schema"),
        (suite({**target, "output_schema": CITY}, case("one")), "targets[0].output_schema"),
    ):
        [error] = project.errors(written)
        assert (error["code"], error["path"]) == ("no-structured-output", place)
        assert "`json_schema` instead" in error["message"]
        assert "cannot be sent" in run_refusal(project, written)


def test_a_body_of_the_author_with_a_form_of_its_own_is_refused(project: Project) -> None:
    target = behind_nobody(extra_body={"response_format": {"type": "json_object"}})
    [error] = project.errors(suite({**target, "output_schema": CITY}, case("one")))
    assert (error["code"], error["path"]) == ("conflicting-keys", "targets[0].output_schema")
    assert "`extra_body.response_format` sets the form of replies too" in error["message"]
    words = run_refusal(project, suite(target, case("one"), output_schema=CITY))
    assert "`extra_body.response_format` of target `bot` sets the form of replies too" in words


def behind_nobody(**more: Any) -> Raw:
    return {"name": "bot", "provider": "openai", "model": "m", "base_url": "http://127.0.0.1:9", **more}


def test_every_reply_is_checked(project: Project) -> None:
    """Of planned turns, of follow-ups inside groups, and of replies to a simulated user."""
    turns = [
        {"prompt": "A?"},
        {"prompt": "B?", "checks": [{"or": [{"contains": "Rome"}, follow("C?", {"match": "*"})]}]},
    ]
    plan = {"id": "plan", "turns": turns, "on_turn_failure": "continue"}
    said = {"plan": ["no", "no", "no"], "user": ["no", ROME]}
    person = {"name": "person", "provider": "scripted", "replies": ["Go on.", "DONE"]}
    user = {"id": "user", "user": {"target": "person", "goal": "x", "opening": "Hi", "stop": "DONE"}}
    bot = {"name": "bot", "provider": "scripted", "replies": said}
    written = {"target": "bot", "targets": [bot, person], "output_schema": CITY, "evals": [plan, user]}
    plan_result, user_result = run(project, written)["results"]
    for turn in plan_result["turns"]:
        assert turn["checks"][0]["check"] == "json_schema"
        assert not turn["checks"][0]["passed"]
    assert len(plan_result["turns"]) == 3
    assert [turn["checks"][0]["passed"] for turn in user_result["turns"]] == [False, True]


def test_the_whole_reply_has_to_fit_whatever_part_is_checked(project: Project) -> None:
    bot = scripted("bot", ROME, ROME)
    one = case("one", {"equals": "Rome"}, reply={"json_path": "$.city"})
    [result] = run(project, suite(bot, one, output_schema=CITY), code=0)["results"]
    assert [check["passed"] for check in result["turns"][0]["checks"]] == [True, True]
    [result] = run(project, suite(bot, one, output_schema=TOWN))["results"]
    assert [check["passed"] for check in result["turns"][0]["checks"]] == [False, True]


def test_another_schema_is_another_question(project: Project) -> None:
    """For the journal's keys, for cassettes, and for the cache; the receipt says what changed."""
    bot = scripted("bot", ROME, ROME)
    run(project, suite(bot, case("one"), output_schema=LOOSE), "--record", "tape", code=0)
    first = only_run(project.folder)
    replayed = run(project, suite(bot, case("one"), output_schema=LOOSE), "--replay", "tape", code=0)
    assert replayed["results"][0]["passed"]
    words = str(run(project, suite(bot, case("one"), output_schema=CITY), "--replay", "tape", code=3)["results"])
    assert "output schema" in words
    run(project, suite(bot, case("one"), output_schema=CITY), code=0)
    keys = {
        json.loads(line)["key"]
        for folder in run_folders(project.folder)
        for line in (folder / "journal.jsonl").read_text().splitlines()
        if '"candidate-' in line
    }
    assert len(keys) == 2, keys
    changed = project.run_json("compare", first.name, "last", code=None)["changed"]
    assert any("checks" in str(one) for one in changed)


def test_the_receipt_tells_a_changed_schema_of_a_target(project: Project) -> None:
    digests = []
    for schema in (CITY, LOOSE):
        project.write("city.json", schema)
        run(project, suite({**scripted("bot", ROME), "output_schema": "city.json"}, case("one")), code=0)
        digests.append(project.run_json("show", code=None)["run"]["digests"])
    assert digests[0]["targets"] != digests[1]["targets"]


def test_it_is_shown_before_anything_is_sent(project: Project) -> None:
    bots = [scripted("free", ROME), {**scripted("bound", ROME), "output_schema": CITY}]
    project.write("evals.yaml", {"target": ["free", "bound"], "targets": bots, "evals": [case("one")]})
    free, bound = project.run_json("prompt")
    assert "output_schema" not in free
    assert bound["output_schema"] == CITY
    assert '--- output schema ---\n{\n  "type": "object"' in project.run("prompt")
    project.run("run", "--dump-prompts", "sent")
    [text] = [file.read_text() for file in (project.folder / "sent").iterdir() if "bound" in file.name]
    assert '"city"' in text


def test_a_rival_gets_it_and_a_judge_does_not(project: Project) -> None:
    with FakeServer(with_judge(ROME, '{"better": "tie"}')) as server:
        bots = [behind(server, "bot"), behind(server, "rival")]
        one = case("one", {"compare": {"reply_of": "rival", "target": "bot"}})
        run(project, {"target": "bot", "targets": bots, "output_schema": CITY, "evals": [one]})
    formed = [(one.body["model"], "response_format" in one.body) for one in server.requests]
    assert sorted(set(formed)) == [("bot", False), ("bot", True), ("rival", True)]
    one = case("one", {"compare": {"reply_of": "rival"}})
    bots = [scripted("bot", ROME, judge=[1]), DEEPSEEK | {"name": "rival"}]
    free = {"target": "bot", "targets": bots, "evals": [one]}
    assert project.errors(free) == []
    project.write("evals.yaml", {**free, "output_schema": CITY})
    words = refusal(project, "run", "evals.yaml")
    assert "target `rival` (deepseek) cannot be sent one" in words


def test_a_function_is_told_the_schema(project: Project) -> None:
    project.write("bot_of_schema.py", "def reply(request):\n    return request.output_schema\n")
    target = {"name": "bot", "provider": "python", "call": "bot_of_schema:reply"}
    schema = {"type": "object", "required": ["type"]}
    [result] = run(project, suite(target, case("one"), output_schema=schema), code=0)["results"]
    assert json.loads(result["turns"][0]["response"]) == schema


def test_a_row_of_a_data_set_may_have_its_own(project: Project) -> None:
    rows = [{"prompt": "A?", "output_schema": CITY}, {"prompt": "B?"}]
    project.write("rows.jsonl", "\n".join(map(json.dumps, rows)))
    written = {"target": "bot", "targets": [scripted("bot", ROME)], "cases": "rows.jsonl", "checks": [{"match": "*"}]}
    first, second = run(project, written, code=0)["results"]
    assert len(first["turns"][0]["checks"]) == 2
    assert len(second["turns"][0]["checks"]) == 1


def test_replay_resume_and_grade_hold(project: Project) -> None:
    first = run(project, suite(scripted("bot", ROME), case("one"), output_schema=CITY), code=0)
    assert essence(project.run_json("replay")) == essence(first)
    project.write("evals.yaml", suite(scripted("bot", ROME), case("one"), output_schema=TOWN))
    assert "output_schema" in str(project.run_json("grade", "--suite", "evals.yaml", code=None))


def test_a_posted_suite_names_no_file_with_it() -> None:
    from rejoinder.server.references import find_references

    for schema in ("a.json", {"file": "a.json"}):
        for data in (
            {"output_schema": schema},
            {"evals": [{"output_schema": schema}]},
            {"targets": [{"output_schema": schema}]},
        ):
            assert ("file", "a.json") in {(one.kind, one.name) for one in find_references(data)}, data
    assert list(find_references({"output_schema": {"properties": {"file": {"type": "string"}}}})) == []


def test_codes_are_known(project: Project) -> None:
    assert codes(project.errors(suite(DEEPSEEK, case("one"), output_schema=CITY))) == ["no-structured-output"]
    assert "no-structured-output" in refusal(project, "validate", "evals.yaml")
