"""`semantic`: what texts mean, as vectors. How near is near enough, who is asked for vectors and how often, what they
cost, and what happens when there are none."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rejoinder.errors import RejoinderError
from rejoinder.testing import Answer, FakeServer, Fault, Received, embed, with_judge
from rejoinder.testing.values import count_words
from tests.kit import Project, Raw, behind, cases_of, codes, run, run_folders, same, scripted, verdict_of


def semantic(*expected: str, threshold: float = 0.5, **more: Any) -> Raw:
    return {
        "semantic": {"expected": expected[0] if len(expected) == 1 else list(expected), "threshold": threshold, **more}
    }


def compared(project: Project, check: Raw, vectors: Raw, reply: str = "Hello.", **case: Any) -> Raw:
    """The result of a case with this reply, by vectors of one's own."""
    targets = [scripted("it", reply), scripted("meaning", embeddings=vectors)]
    suite = {"target": "it", "embedding_target": "meaning", "targets": targets}
    [result] = run(project, {**suite, "evals": [{"prompt": "Hi!", "checks": [check], **case}]})["results"]
    return result


def on_servers(talking: FakeServer, embedding: FakeServer, cases: list[Raw], **more: Any) -> Raw:
    targets = [behind(talking, "it"), behind(embedding, "meaning")]
    return {"target": "it", "embedding_target": "meaning", "targets": targets, "evals": cases, **more}


def embedded(server: FakeServer) -> list[str]:
    """The texts whose vectors were asked for, in order of arrival."""
    return [received.body["input"] for received in server.requests if "input" in received.body]


# How near.


@pytest.mark.parametrize(
    ("one", "other", "score"),
    [
        ([1, 0], [1, 0], 1.0),
        ([1, 0], [5, 0], 1.0),
        ([1, 0], [0, 1], 0.0),
        ([1, 0], [-1, 0], 0.0),
        ([1, 1], [1, 0], 0.707107),
        ([3, 4], [4, 3], 0.96),
        ([1e-30, 0], [1e30, 0], 1.0),
        ([1e38, 1e38], [1e38, 1e38], 1.0),
        ([0.1] * 1536, [0.1] * 1536, 1.0),
    ],
)
def test_the_score_is_the_cosine(project: Project, one: list[float], other: list[float], score: float) -> None:
    check = verdict_of(compared(project, semantic("Good day."), {"Hello.": one, "Good day.": other}))
    assert check["score"] == pytest.approx(score, abs=1e-6)
    assert (check["passed"], check["threshold"]) == (score >= 0.5, 0.5)
    assert check["reason"] == f"similarity {score:.3f}; 0.5 is needed"


@pytest.mark.parametrize(("threshold", "passed"), [(0, True), (0.96, True), (0.961, False), (1, False)])
def test_the_threshold_decides(project: Project, threshold: float, passed: bool) -> None:
    vectors = {"Hello.": [3, 4], "Good day.": [4, 3]}
    assert compared(project, semantic("Good day.", threshold=threshold), vectors)["passed"] is passed
    assert compared(project, {"not": semantic("Good day.", threshold=threshold)}, vectors)["passed"] is not passed


def test_of_several_expected_texts_the_nearest_counts(project: Project) -> None:
    vectors = {"Hello.": [1, 0], "No.": [0, 1], "Good day.": [2, 1], "Hm.": [1, 1]}
    check = verdict_of(compared(project, semantic("No.", "Good day.", "Hm."), vectors))
    assert (check["score"], check["passed"]) == (pytest.approx(0.894427), True)
    assert check["reason"] == "similarity 0.894 to 'Good day.'; 0.5 is needed"
    assert check["check"] == "semantic No., Good day., Hm."


def test_each_turn_s_reply_is_compared(project: Project) -> None:
    checks = [semantic("Yes."), {"prompt": "Sure?", "checks": [semantic("Yes.")]}]
    targets = [scripted("it", "No.", "Yes."), scripted("meaning", embeddings={"No.": [0, 1], "Yes.": [1, 0]})]
    suite = {"target": "it", "embedding_target": "meaning", "targets": targets}
    [result] = run(project, {**suite, "evals": [{"prompt": "Hi!", "checks": checks}]})["results"]
    assert [turn["checks"][0]["score"] for turn in result["turns"]] == [0, 1]
    assert "Turn 2 scored semantic" in project.run("show", "-v")


# Where there is nothing to compare.


def test_an_empty_reply_fails_without_a_request(project: Project) -> None:
    with FakeServer(" \n") as talking, FakeServer() as meaning:
        document = run(project, on_servers(talking, meaning, cases_of(1, semantic("Hello.", threshold=0))), code=1)
        assert meaning.requests == []
    check = verdict_of(document["results"][0])
    assert (check["score"], check["passed"], check["reason"]) == (0, False, "the reply is empty")
    assert document["summary"]["embeddings"]["texts"] == 0


def test_expected_texts_of_which_nothing_is_left(project: Project) -> None:
    """The reply is not to blame for it."""
    case = {"vars": {"word": " "}}
    vectors = {"Hello.": [1, 0]}
    result = compared(project, semantic("{{ word }}", "Hello."), vectors, **case)
    assert (result["passed"], verdict_of(result)["score"]) == (True, 1)
    result = compared(project, semantic("{{ word }}"), vectors, **case)
    assert (result["status"], "the reply is empty" in json.dumps(result)) == ("error", False)


def test_vectors_of_different_lengths_cannot_be_compared(project: Project) -> None:
    result = compared(project, semantic("Good day."), {"Hello.": [1, 0, 0], "Good day.": [1, 0]})
    assert (result["status"], verdict_of(result)["score"]) == ("error", None)
    reason = "the embeddings have different lengths, so they cannot be compared"
    assert verdict_of(result)["reason"] == reason
    assert reason in result["error"]["message"]


@pytest.mark.parametrize("missing", ["Hello.", "Good day."])
def test_a_text_that_a_script_does_not_know_is_an_error(project: Project, missing: str) -> None:
    known = {text: [1, 0] for text in ("Hello.", "Good day.") if text != missing}
    result = compared(project, semantic("Good day."), known)
    assert result["status"] == "error"
    assert f"target `meaning` has no vector for '{missing}'" in verdict_of(result)["reason"]
    assert compared(project, semantic("Good day."), {**known, "*": [1, 0]})["passed"]


@pytest.mark.parametrize(
    ("check", "code"),
    [
        ({"expected": "x"}, "missing-field"),
        ({"threshold": 0.5}, "missing-field"),
        ({"expected": [], "threshold": 0.5}, "empty-pattern"),
        ({"expected": "", "threshold": 0.5}, "empty-pattern"),
        ({"expected": ["x", ""], "threshold": 0.5}, "empty-pattern"),
        ({"expected": "x", "threshold": 1.5}, "out-of-range"),
        ({"expected": 5, "threshold": 0.5}, "wrong-type"),
        ({"expected": "x", "threshold": 0.5, "votes": 3}, "unknown-key"),
        ({"expected": "x", "threshold": 0.5, "target": "nobody"}, "unknown-target"),
    ],
)
def test_what_is_wrong_with_it_is_told_before_anything_is_sent(project: Project, check: Raw, code: str) -> None:
    assert codes(project.errors({"evals": [{"prompt": "Hi!", "checks": [{"semantic": check}]}]})) == [code]


# Whose vectors.

PLACES = ("check", "suite", "project")


def named(project: Project, names: dict[str, str]) -> Raw:
    vectors = {"Hello.": [1, 0], "Good day.": [1, 0]}
    wrong = {"Hello.": [1, 0], "Good day.": [0, 1]}
    targets = [scripted("it", "Hello."), scripted("right", embeddings=vectors), scripted("wrong", embeddings=wrong)]
    more = {"target": names["check"]} if "check" in names else {}
    suite: Raw = {"target": "it", "targets": targets, "evals": cases_of(1, semantic("Good day.", **more))}
    if "suite" in names:
        suite["embedding_target"] = names["suite"]
    if "project" in names:
        project.write(".rejoinder/config.yaml", {"embedding_target": names["project"]})
    return suite


@pytest.mark.parametrize("place", PLACES)
def test_the_nearest_place_that_names_an_embedder_wins(project: Project, place: str) -> None:
    farther = PLACES[PLACES.index(place) + 1 :]
    assert run(project, named(project, {place: "right"} | dict.fromkeys(farther, "wrong")), code=0)


@pytest.mark.parametrize("place", PLACES)
def test_an_unknown_embedder_is_refused(project: Project, place: str) -> None:
    project.write("evals.yaml", named(project, {place: "rihgt"}))
    [error] = [error for file in project.validate("evals.yaml")["files"] for error in file["errors"]]
    assert (error["code"], "did you mean `right`?" in error["message"]) == ("unknown-target", True)
    assert project.invoke("run", "evals.yaml").exit_code == 2


def refused(project: Project, suite: Raw) -> str:
    project.write("evals.yaml", suite)
    result = project.invoke("run", "evals.yaml")
    assert isinstance(result.exception, RejoinderError)
    assert (result.exception.exit_code, run_folders(project.folder)) == (2, [])
    return f"{result.exception}\n{result.exception.hint}"


@pytest.mark.parametrize("deep", [False, True], ids=["at once", "deep in a follow-up"])
def test_a_run_without_an_embedder_is_refused_before_anything_is_sent(
    project: Project, deep: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rejoinder.providers.wordllama.is_installed", lambda: False)
    suite = named(project, {})
    if deep:
        group = {"group": {"checks": [{"not": semantic("Good day.")}]}}
        suite["evals"][0]["checks"] = [{"match": "x"}, {"prompt": "Sure?", "checks": [{"or": [{"match": "y"}, group]}]}]
    told = refused(project, suite)
    assert "case `c0` compares meanings, and no target for embeddings is set" in told
    assert "Name one as `embedding_target` in the suite or in .rejoinder/config.yaml" in told


@pytest.mark.parametrize("provider", ["mock", "anthropic", "http"])
def test_who_gives_no_embeddings_is_refused_before_anything_is_sent(project: Project, provider: str) -> None:
    suite = named(project, {"suite": "words"})
    settings = {"anthropic": {"model": "claude", "api_key": "k"}, "http": {"url": "http://127.0.0.1:9/"}}
    suite["targets"].append({"name": "words", "provider": provider, **settings.get(provider, {})})
    told = refused(project, suite)
    assert f"target `words` has the provider `{provider}`, which gives no embeddings" in told
    assert "openai" in told


# How often they are asked for.


def say_case(received: Received) -> str:
    """Five different replies."""
    return f"Reply {int(received.body['messages'][-1]['content'].split()[1].strip('!')) % 5}."


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "10"])
def test_equal_texts_are_embedded_once_in_a_run(project: Project, workers: str) -> None:
    """However many conversations need them, and however many at once."""
    cases = cases_of(20, semantic("Good day.", "Reply 3.", threshold=0))
    cases[7]["checks"].append(semantic("Good day.", "Something else.", threshold=0))
    with FakeServer(say_case) as talking, FakeServer(latency_s=0.01) as meaning:
        suite = on_servers(talking, meaning, cases)
        document = run(project, suite, "--workers", workers, "--repeat", "2", code=0)
        texts = Counter(embedded(meaning))
    assert texts == dict.fromkeys(["Good day.", "Something else.", *(f"Reply {n}." for n in range(5))], 1)
    assert document["summary"]["embeddings"]["texts"] == 7
    scores = {
        result["id"]: verdict["score"] for result in document["results"] for verdict in result["turns"][0]["checks"]
    }
    assert scores["c3"] == scores["c8"] == 1


def test_two_embedders_are_asked_each(project: Project) -> None:
    checks = semantic("Good day.", threshold=0), semantic("Good day.", threshold=0, target="other")
    with FakeServer("Hello.") as talking, FakeServer() as meaning, FakeServer() as other:
        suite = on_servers(talking, meaning, cases_of(3, *checks))
        suite["targets"].append(behind(other, "other"))
        document = run(project, suite, code=0)
        assert sorted(embedded(meaning)) == sorted(embedded(other)) == ["Good day.", "Hello."]
    assert document["summary"]["embeddings"]["texts"] == 4


def test_no_more_texts_are_under_way_than_the_embedder_takes(project: Project) -> None:
    with (
        FakeServer(lambda asked: asked.body["messages"][-1]["content"]) as talking,
        FakeServer(latency_s=0.02) as meaning,
    ):
        suite = on_servers(talking, meaning, cases_of(10, semantic("a", "b", "c", threshold=0)))
        suite["targets"][1]["workers"] = 2
        run(project, suite, "--workers", "10", code=0)
        assert (len(meaning.requests), meaning.peak_in_flight) == (13, 2)


def test_one_target_may_talk_judge_and_embed(project: Project) -> None:
    judges = {"llm_judge": {"criteria": "Is it kind?"}}
    with FakeServer(with_judge("Hello.", '{"score": 1}')) as server:
        cases = cases_of(4, judges, semantic("A score of 1.", threshold=0))
        suite = {"targets": [behind(server, "all")], "embedding_target": "all", "evals": cases}
        assert run(project, suite, code=0)["summary"]["passed"] == 4
        assert len(server.requests) == 4 + 4 + 2


# What they cost.

PRICES = {"openai/it": {"input": 1, "output": 10}, "openai/meaning": {"input": 2, "output": 0}}


def test_what_embeddings_use_is_counted_once_and_in_the_total(project: Project) -> None:
    project.write(".rejoinder/config.yaml", {"prices": PRICES})
    reply = Answer("Hello there, all of you.", input_tokens=100, output_tokens=10)
    with FakeServer(reply) as talking, FakeServer() as meaning:
        cases = cases_of(6, semantic("Good day to you.", "Hi.", threshold=0))
        document = run(project, on_servers(talking, meaning, cases), code=0)
        tokens = count_words(embedded(meaning))
        text = project.run("show", "--verbose")
    summary = document["summary"]
    cost = tokens * 2 / 1e6
    assert (len(embedded(meaning)), tokens) == (3, 10)
    assert summary["embeddings"] == {"texts": 3, "tokens": tokens, "cost": pytest.approx(cost)}
    assert summary["usage"]["total_tokens"] == 6 * 110
    assert summary["judge_usage"]["total_tokens"] == 0
    assert summary["total_tokens"] == 6 * 110 + tokens
    assert summary["cost"] == pytest.approx(6 * 200 / 1e6)
    assert summary["total_cost"] == pytest.approx(6 * 200 / 1e6 + cost)
    assert f"{tokens} for embeddings" in text
    assert all(result["judge_cost"] is None for result in document["results"])


def test_embeddings_without_a_price_leave_the_total_unknown(project: Project) -> None:
    project.write(".rejoinder/config.yaml", {"prices": {"openai/it": PRICES["openai/it"]}})
    with FakeServer("Hello.") as talking, FakeServer() as meaning:
        summary = run(project, on_servers(talking, meaning, cases_of(1, semantic("Hi.", threshold=0))))["summary"]
    assert summary["embeddings"] == {"texts": 2, "tokens": 2, "cost": None}
    assert (summary["cost"] is None, summary["total_cost"]) == (False, None)


def test_free_embeddings_leave_the_total_cost_known(project: Project) -> None:
    project.write(".rejoinder/config.yaml", {"prices": PRICES})
    with FakeServer("Hello.") as talking:
        suite = on_servers(talking, talking, cases_of(2, semantic("Hi.")))
        suite["targets"][1] = scripted("meaning", embeddings={"*": [1, 0]})
        summary = run(project, suite, code=0)["summary"]
    assert summary["total_cost"] == summary["cost"] > 0


# When it goes wrong.


def test_an_embedder_that_refuses_all_requests_is_given_up_and_reported_once(project: Project) -> None:
    with FakeServer("Hello.") as talking, FakeServer(key="another") as meaning:
        suite = on_servers(talking, meaning, cases_of(6, semantic("Hi.")))
        document = run(project, suite, "--workers", "1", code=3)
        assert (len(talking.requests), len(meaning.requests)) == (1, 2)  # the reply and what is expected, at once
        text = project.run("show", "--verbose")
    assert [one["status"] for one in document["results"]] == ["error"] + ["skipped"] * 5
    [given_up] = document["run"]["given_up"]
    assert given_up["target"] == "meaning"
    assert verdict_of(document["results"][0])["reason"].startswith("the embedding could not be computed: ")
    assert "error: meaning: " in text


@pytest.mark.parametrize("fault", [Fault("status", status=429), Fault("status", status=500), Fault("reset_in_body")])
def test_an_embedder_that_fails_for_a_moment_is_asked_again(project: Project, fault: Fault) -> None:
    with FakeServer("Hello.") as talking, FakeServer(faults=[fault, None, fault]) as meaning:
        suite = on_servers(talking, meaning, cases_of(4, semantic("Hello.", "Hi.", threshold=1)))
        assert run(project, suite, code=0)["summary"]["passed"] == 4
        assert Counter(embedded(meaning)).total() == 4


def test_a_text_that_could_not_be_embedded_is_asked_for_by_the_next_who_needs_it(project: Project) -> None:
    with FakeServer("Hello.") as talking, FakeServer(faults=[Fault("status", status=400)]) as meaning:
        suite = on_servers(talking, meaning, cases_of(3, semantic("Hello.", threshold=1)))
        document = run(project, suite, "--workers", "1", code=3)
        assert embedded(meaning) == ["Hello.", "Hello."]
    assert [one["status"] for one in document["results"]] == ["error", "passed", "passed"]


@pytest.mark.parametrize(
    ("vectors", "reason"),
    [
        ({"a": [1.0]}, "different lengths"),
        ({"a": []}, "the embedding could not be computed"),
        ({"a": [float("nan"), 1.0]}, "the embedding could not be computed"),
        ({"a": [float("inf"), 1.0]}, "the embedding could not be computed"),
        ({"a": [0.0, 0.0]}, "an embedding is all zeros"),
        ({"Hello.": [0.0, 0.0]}, "an embedding is all zeros"),
    ],
    ids=["short", "empty", "no number", "infinite", "zeros", "the reply's zeros"],
)
def test_rubbish_of_an_embedder_is_an_error(project: Project, vectors: dict[str, list[float]], reason: str) -> None:
    with FakeServer("Hello.") as talking, FakeServer(embed=lambda text: vectors.get(text, [1.0, 0.0])) as meaning:
        suite = on_servers(talking, meaning, cases_of(1, semantic("a"), {"not": semantic("a")}))
        [result] = run(project, suite, "--max-retries", "0", code=3)["results"]
    assert [reason in check["reason"] for check in result["turns"][0]["checks"]] == [True, True]
    assert [check["score"] for check in result["turns"][0]["checks"]] == [None, None]


# What is recorded.


def test_what_was_embedded_is_not_embedded_again(project: Project) -> None:
    project.write(".rejoinder/config.yaml", {"prices": PRICES})
    with FakeServer("Hello.") as talking, FakeServer() as meaning:
        suite = on_servers(talking, meaning, cases_of(3, semantic("Hi.", threshold=0)))
        document = run(project, suite, code=0)
        talking.reset()
        meaning.reset()
        assert same(project.run_json("resume", "last")) == same(document)
        assert talking.requests == meaning.requests == []
        suite["evals"] = cases_of(3, semantic("Hi.", "Good day.", threshold=0))
        project.write("evals.yaml", suite)
        resumed = project.run_json("resume", "last")
        assert (talking.requests, embedded(meaning)) == ([], ["Good day."])
    assert resumed["summary"]["embeddings"]["texts"] == 3


def test_vectors_are_recorded_as_they_came(project: Project) -> None:
    with FakeServer("Hello there.") as talking, FakeServer() as meaning:
        run(project, on_servers(talking, meaning, cases_of(1, semantic("Hello.", threshold=0))), code=0)
    [folder] = run_folders(project.folder)
    lines = Path(folder / "journal.jsonl").read_text(encoding="utf-8").splitlines()
    told = [record["reply"] for record in map(json.loads, lines) if record["type"] == "told"]
    vectors = [reply["vector"] for reply in told if "vector" in reply]
    assert len(vectors) == 2
    assert len(embed("Hello.")) * 4 == len(vectors[0]) * 3 // 4 - vectors[0].count("=")
