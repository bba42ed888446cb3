"""Why conversations did not pass, which replies repeat earlier ones, and the figures of each variant on each target."""

from __future__ import annotations

from typing import Any

import pytest

from rejoinder.model import Result, ToolCall
from rejoinder.model.clusters import near_repetitions, repeated_turns
from rejoinder.runs.clusters import MOST_CLUSTERS, MOST_KEYS, Clusters
from rejoinder.words.clusters import cluster_keys
from tests.kit import Project, case, follow, scripted
from tests.report.exports import in_error, result, turn

NO = {"match": "*yes*"}


def stubborn(project: Project, *replies: str) -> dict[str, Any]:
    """The summary of a case that says these replies, one for each turn."""
    asked = case("a", NO, *[follow("Again.", NO)] * (len(replies) > 1))
    project.write("evals.yaml", {"targets": [scripted("it", *replies)], "target": "it", "evals": [asked]})
    return project.run_json("run", code=1)["summary"]


def test_a_reply_that_says_the_same_again_is_counted(project: Project) -> None:
    summary = stubborn(project, "No,  never.", "No, \n never.")
    assert summary["repeated"] == {"conversations": 1, "of": 1}
    assert summary["by_target"]["it"]["repeated"] == {"conversations": 1, "of": 1}
    place = {"suite": "evals.yaml", "id": "a", "target": "it", "variant": None, "trial": 1}
    assert summary["clusters"] == [
        {"kind": "repeated", "key": "", "number": 1, "first": [place]},
        {"kind": "check", "key": 'match "*yes*"', "number": 1, "first": [place]},
    ]


def test_other_words_are_no_repetition(project: Project) -> None:
    summary = stubborn(project, "No.", "No!")
    assert summary["repeated"] == {"conversations": 0, "of": 1}
    assert [one["kind"] for one in summary["clusters"]] == ["check"]


def test_nothing_is_repeated_without_a_follow_up(project: Project) -> None:
    assert stubborn(project, "No.")["repeated"] is None


def test_an_empty_reply_repeats_nothing() -> None:
    assert repeated_turns([turn(" ", 1), turn(" ", 2)]) == {}


def test_the_first_turn_with_the_same_words_is_named() -> None:
    turns = [turn(text, number) for number, text in enumerate(("x", "y", "x "), 1)]
    assert repeated_turns(turns) == {3: 1}


def test_who_does_something_else_repeats_nothing() -> None:
    """The words of an agent that it is done say little: its calls and its changes have to be the same, too."""
    call, other = (ToolCall("Edit", arguments) for arguments in ('{"new": 1}', '{"new": 2}'))
    assert repeated_turns([turn("Done.", 1, tool_calls=(call,)), turn("Done.", 2, tool_calls=(other,))]) == {}
    assert repeated_turns([turn("Done.", 1, workspace_diff="+1"), turn("Done.", 2, workspace_diff="+2")]) == {}
    assert repeated_turns([turn("Done.", n, tool_calls=(call,), workspace_diff="+1") for n in (1, 2)]) == {2: 1}


def failing(message: str) -> Result:
    return in_error(message=message, tags=())


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("KeyError: 17 at bot.py:39", "KeyError: 204 at bot.py:39", True),
        ("KeyError: 17 at bot.py:39", "KeyError: 17 at bot.py:40", False),
        ("HTTP 500: try in 3.5 s", "HTTP 500: try in 12 s", True),
        ("HTTP 500: try in 3 s", "HTTP 503: try in 3 s", False),
    ],
)
def test_errors_are_alike_but_for_numbers_that_are_no_place(one: str, other: str, same: bool) -> None:
    assert (list(cluster_keys(failing(one))) == list(cluster_keys(failing(other)))) is same


def test_what_passed_is_in_no_cluster() -> None:
    assert list(cluster_keys(result())) == []


def test_clusters_are_bounded_and_the_largest_stand_first() -> None:
    clusters = Clusters()
    names = [
        f"{chr(97 + place // 26 % 26)}{chr(97 + place % 26)}{chr(97 + place // 676)}" for place in range(MOST_KEYS + 50)
    ]
    for name in [*names, names[7], names[7], names[-1], names[-1], names[-1]]:
        clusters.add(failing(f"no {name}"))
    found = clusters.largest()
    assert len(found) == MOST_CLUSTERS
    assert (found[0].key, found[0].number) == (f"server: no {names[7]}", 3)
    assert names[-1] not in " ".join(one.key for one in found), (
        "a reason beyond the limit is not counted from its middle"
    )


def test_each_variant_on_each_target_has_its_figures(project: Project) -> None:
    suite = {
        "targets": [scripted("good", *["yes"] * 8), scripted("bad", *["no"] * 8)],
        "target": ["good", "bad"],
        "variants": [{"name": "short", "system_prompt": "Be short."}, {"name": "warm", "system_prompt": "Be warm."}],
        "evals": [case("a", NO), case("b", NO)],
    }
    project.write("evals.yaml", suite)
    summary = project.run_json("run", code=1)["summary"]
    rows = [
        (row["target"], row["variant"], row["passed"], row["total"], row["pass_rate"]) for row in summary["by_pair"]
    ]
    assert rows == [
        ("good", "short", 2, 2, 1.0),
        ("good", "warm", 2, 2, 1.0),
        ("bad", "short", 0, 2, 0.0),
        ("bad", "warm", 0, 2, 0.0),
    ]
    assert summary["by_pair"][0]["by_case"]["passed"] == 2
    assert project.run("verify", code=None)


def test_pairs_are_told_only_of_several_targets_and_variants(project: Project) -> None:
    assert stubborn(project, "No.")["by_pair"] == []


def test_a_reply_that_changes_a_word_nearly_repeats() -> None:
    turns = [turn(text, number) for number, text in enumerate(("a b c d e f", "x y", "a b c d e g"), 1)]
    assert near_repetitions(turns) == {3: (1, pytest.approx(10 / 12))}


@pytest.mark.parametrize("texts", [("a b", "a b"), ("a b c", "d e f"), ("", ""), ("a",), ("a b c", None)])
def test_equal_and_other_words_are_no_near_repetition(texts: tuple[str | None, ...]) -> None:
    assert near_repetitions([turn(text, number) for number, text in enumerate(texts, 1)]) == {}
