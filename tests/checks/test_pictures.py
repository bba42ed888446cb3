"""Judges and pictures: shown where the judge's API can, else mentioned."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rejoinder.testing import Answer, FakeServer, Received, is_judging
from tests.kit import Project, Raw, behind, run, scripted
from tests.labs.picture_lab import BLUE, data_url, digest, image, png, says, shows

VERDICT = json.dumps({"score": 1.0, "hits": [], "misses": [], "reasoning": "It is red."})


def judged(request: Received) -> Answer:
    return Answer(VERDICT if is_judging(request) else "Red.")


def content_of(request: Received) -> Any:
    return request.body["messages"][-1]["content"]


def test_a_judge_sees_the_pictures_after_the_question(project: Project) -> None:
    project.write("red.png", png())
    one = shows("Compare", image("red.png"), image(data_url(png(BLUE))))
    del one["checks"]
    with FakeServer(judged) as server:
        document = run(project, {"targets": [behind(server, "it")], "target": "it", "evals": [{**one, "outcome": "o"}]})
        asked = next(one for one in server.requests if is_judging(one))
    assert document["summary"]["passed"] == 1
    text, *pictures = content_of(asked)
    assert "Compare\n\n<image: red.png>\n\n<image: image-" in text["text"]
    assert text["text"].endswith(
        "[[ ## pictures ## ]]\nThe conversation has 2 pictures. They follow in the order of their references."
    )
    assert [one["image_url"]["url"] for one in pictures] == [data_url(png()), data_url(png(BLUE))]


def test_a_judge_of_a_later_turn_sees_all_pictures_by_then(project: Project) -> None:
    project.write("red.png", png())
    project.write("blue.png", png(BLUE))
    turns: list[Raw] = [
        {"messages": [says("What?", image("red.png"))], "checks": [{"llm_judge": "o"}]},
        {"messages": [says("And?", image("blue.png"))], "checks": [{"llm_judge": "o"}]},
    ]
    with FakeServer(judged) as server:
        run(project, {"targets": [behind(server, "it")], "target": "it", "evals": [{"id": "one", "turns": turns}]})
        asked = [content_of(one) for one in server.requests if is_judging(one)]
    assert [[one["image_url"]["url"] for one in content[1:]] for content in asked] == [
        [data_url(png())],
        [data_url(png()), data_url(png(BLUE))],
    ]


@pytest.mark.parametrize("judge", [{"provider": "deepseek", "model": "deepseek-chat", "api_key": "k"}])
def test_a_judge_that_sees_none_knows_it(project: Project, judge: Raw) -> None:
    project.write("red.png", png())
    one = shows("What?", image("red.png"))
    del one["checks"]
    with FakeServer(judged) as server:
        targets = [scripted("it", "Red."), {"name": "reader", "base_url": server.openai_url, **judge}]
        execution = {"judge_target": "reader"}
        suite = {"targets": targets, "target": "it", "evals": [{**one, "outcome": "o", "execution": execution}]}
        [warning] = project.warnings(suite)
        run(project, suite)
        [asked] = server.requests
    assert (warning["code"], "reader" in warning["message"]) == ("blind-judge", True)
    assert isinstance(content_of(asked), str)
    assert content_of(asked).endswith(
        "The conversation has a picture. You cannot see it: judge by what the texts say, and guess nothing."
    )


def test_another_picture_is_judged_again(project: Project) -> None:
    project.write("red.png", png())
    one = shows("What?", image("red.png"))
    one["checks"] = [{"llm_judge": "o"}]
    with FakeServer(judged) as server:
        suite = {"targets": [behind(server, "it")], "target": "it", "evals": [one]}
        run(project, suite)
        project.run_json("grade", "last")
        assert len(server.requests) == 2, "the judge's verdict is recorded"
        project.write("red.png", png(BLUE))
        document = project.run_json("grade", "last", code=None)
    assert document["results"][0]["error"]["type"] == "no-recording", "the reply is about another picture"


def test_scripts_get_references(project: Project, module: Any) -> None:
    project.write("red.png", png())
    name = module(
        "def check(context):\n"
        "    [text, picture] = context.input_segments\n"
        "    [message] = context.input_messages\n"
        "    [shown] = message.pictures\n"
        f"    assert shown.digest == '{digest(png())}' and not shown.data\n"
        "    return (picture.type, picture.path) == ('image', 'red.png') and '<image: red.png>' in context.question\n"
    )
    one = shows("What?", image("red.png"), checks=[{"python": f"{name}:check"}])
    document = run(project, {"targets": [scripted("it", "Red.")], "target": "it", "evals": [one]})
    assert document["summary"]["passed"] == 1, document["results"][0]["turns"]
