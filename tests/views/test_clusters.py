"""Why conversations did not pass: the order and the words of clusters, and which of them are new."""

from __future__ import annotations

import pytest

from rejoinder.model import Result
from rejoinder.views.clusters import clusters_of, known_clusters, shared_clusters
from rejoinder.words.clusters import cluster_keys
from tests.report.exports import check, in_error, made_run, result, turn

LOST = {"status": "failed", "passed": False, "score": 0.0, "succeeded_on_turn": None}


def lost(case: str, wanted: str, *replies: str, **more: object) -> Result:
    wrong = (check(False, check=f"contains {wanted}", kind="contains"),)
    turns = [turn(reply, number, passed=False, checks=wrong) for number, reply in enumerate(replies, 1)]
    return result(case, *turns, **{**LOST, "tags": (), **more})


def raised(case: str, function: str, said: str, place: str = "bot.py:39 in answer") -> Result:
    return in_error(case, f"`{function}` raised KeyError: {said} ({place})", tags=())


def test_the_largest_reason_is_first_whatever_its_kind() -> None:
    """Six checks fail once or twice, and every reply repeats the one before."""
    results = [lost(f"c{n}", f"word {n // 2}", "no", "no") for n in range(11)]
    rows = clusters_of(made_run([*results, result("good")]).summary)
    assert (rows[0].number, rows[0].words) == (11, "same words again")
    assert [row.number for row in rows] == [11, 2, 2, 2, 2, 2, 1]


def test_tags_follow_reasons_and_single_conversations_are_last() -> None:
    results = [lost(f"c{n}", "x" if n < 2 else f"y{n}", "no", tags=("policy",)) for n in range(4)]
    summary = made_run([*results, lost("c4", "z", "no"), result("good")]).summary
    assert [row.words for row in clusters_of(summary)][:2] == ['contains "x" failed', "tag policy"]
    assert {row.number for row in clusters_of(summary)[2:]} == {1}
    assert [row.number for row in shared_clusters(summary, 5)] == [2, 4]


def test_single_conversations_take_no_place_of_shared_reasons() -> None:
    results = [lost(f"c{n}", f"word {n}", "no", tags=("policy",) if n else ()) for n in range(8)]
    shared = shared_clusters(made_run(results).summary, 5)
    assert [(row.number, row.words) for row in shared] == [(7, "tag policy")]


def test_exceptions_are_one_cluster_by_their_type_and_place() -> None:
    summary = made_run([*(raised(f"c{n}", f"bot:{n}", f"'{n}'") for n in range(4)), result("good")]).summary
    [row] = shared_clusters(summary, 5)
    assert (row.number, row.words) == (4, "KeyError (bot.py:39 in answer)")


@pytest.mark.parametrize(
    ("message", "key"),
    [
        ("`bot:f` raised ValueError: no (really) (bot.py:3)", "ValueError (bot.py:3)"),
        ("`bot:f` raised shop.Closed (shop/door.py:12 in <lambda>)", "shop.Closed (shop/door.py:12 in <lambda>)"),
        (f"`bot:f` raised ValueError: {'x' * 9_000} (bot.py:3 in f)", "ValueError (bot.py:3 in f)"),
        ("`bot:f` raised ValueError: 17", "server: `bot:f` raised ValueError: #"),
    ],
)
def test_the_key_of_an_exception(message: str, key: str) -> None:
    assert [one.key for one in cluster_keys(in_error(message=message, tags=()))] == [key]


def test_reasons_are_compared_with_all_of_the_baseline() -> None:
    """Its summary has only the twenty largest."""
    before = made_run([lost(f"c{n}", f"word {n}", "no") for n in range(30)])
    now = made_run([lost(f"c{n}", "word 29" if n < 3 else "Vientiane", "no") for n in range(6)])
    shared = shared_clusters(now.summary, 5, known_clusters(before.results))
    assert {row.words: row.is_new for row in shared} == {
        'contains "word 29" failed': False,
        'contains "Vientiane" failed': True,
    }
    assert not any(row.is_new for row in shared_clusters(now.summary, 5)), "there is no baseline"


def test_new_reasons_and_errors_stay_where_not_all_are_shown() -> None:
    results = [lost(f"{word}-{n}", f"word {word}", "no") for word in range(6) for n in range(4)]
    results += [lost(f"new-{n}", "word new", "no") for n in range(2)]
    results += [raised(f"e-{n}", "bot:f", "x") for n in range(2)]
    made = made_run([*results, result("good")])
    known = known_clusters(one for one in made.results if "new" not in one.id)
    rows = shared_clusters(made.summary, 5, known)
    assert [(row.number, row.cluster.kind, row.is_new) for row in rows] == [
        (4, "check", False),
        (4, "check", False),
        (4, "check", False),
        (2, "check", True),
        (2, "error", False),
    ]
    assert len(shared_clusters(made.summary, 20, known)) == 8
