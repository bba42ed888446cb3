"""Several comparisons in one answer: corrected together, with one verdict on every surface; and tasks in several
conditions, which are one case each."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

import pytest

from rejoinder.comparison.compare import compare_pairs
from rejoinder.comparison.sides import Side
from rejoinder.exports.comparison_json import write_comparisons_json
from rejoinder.model import Result
from rejoinder.model.comparisons import RunComparison
from rejoinder.report.comparison import write_comparison
from rejoinder.report.page.comparison import comparison_overview
from rejoinder.report.styled import plain_text
from tests.comparison.sides import compared, one
from tests.kit import Project, Raw, case, run, scripted
from tests.stats.simulated import Draw

CONDITIONS = ("full", "concat", "sharded")


def shown(found: RunComparison, *, exact: bool = False) -> list[str]:
    return [plain_text(row) for row in write_comparison(found, exact=exact)]


def documents(found: list[RunComparison]) -> list[Raw]:
    document = json.loads("".join(write_comparisons_json(found)))
    return document.get("comparisons", [document])


def page(found: RunComparison) -> str:
    return re.sub(r"<[^>]+>", " ", str(comparison_overview(found)))


# Holm


def models(broken: dict[str, int], cases: int = 30) -> list[tuple[Side, Side]]:
    """Each model against the first, which passes every case; the others break so many."""
    first = [one(f"c{n}", "p", target="first") for n in range(cases)]
    pairs = list[tuple[Side, Side]]()
    for name, lost in broken.items():
        results = [one(f"c{n}", "f" if n < lost else "p", target=name) for n in range(cases)]
        pairs.append((Side("run", first, "first"), Side("run", results, name)))
    return pairs


def test_one_verdict_of_several_comparisons_stands_everywhere() -> None:
    """Five broken cases are worse by themselves (mid-p 0.031), and not as one of two comparisons."""
    [alone] = compare_pairs(models({"x": 5}))
    assert (alone.verdict, alone.eventual and alone.eventual.p_holm) == ("worse", None)
    found = compare_pairs(models({"x": 5, "y": 0}))
    [lost, _] = documents(found)
    assert lost["verdict"] == lost["eventual"]["verdict"] == lost["first_try"]["verdict"] == "cannot-tell"
    assert lost["eventual"]["p_value"] == 0.03125 and lost["eventual"]["p_holm"] == 0.0625
    lines = shown(found[0])
    assert lines[0].startswith("Cannot tell. 5 of 30 cases broke")
    [row] = [line for line in lines if line.startswith("  final pass rate  ")]
    assert row.endswith("0.031   0.062   cannot tell")
    assert lines[-1].startswith("cannot tell: -17 points (-")
    assert "mid-p 0.031, 0.062 corrected for 2 comparisons" in lines[-1]
    assert "worse" not in page(found[0]) and "0.031 (Holm 0.062)" in page(found[0])


def test_a_difference_that_survives_the_correction_is_called() -> None:
    found = compare_pairs(models({"x": 12, "y": 0}))
    assert [one.verdict for one in found] == ["worse", "no-difference"]
    assert shown(found[0])[-1].startswith("worse: -40 points (")


def test_targets_of_two_runs_have_the_corrected_verdict_in_every_place() -> None:
    asked = [(n, target) for n in range(30) for target in ("x", "y")]
    a = [one(f"c{n}", "p", target=target) for n, target in asked]
    b = [one(f"c{n}", "f" if target == "x" and n < 5 else "p", target=target) for n, target in asked]
    found = compared(a, b)
    [document] = documents([found])
    assert [group["verdict"] for group in document["by_target"]] == ["cannot-tell", "no-difference"]
    assert [group["comparison"]["verdict"] for group in document["by_target"]] == ["cannot-tell", "no-difference"]
    assert document["by_target"][0]["comparison"]["p_holm"] == document["by_target"][0]["p_value"] == 0.0625
    lines = shown(found)
    assert not any("worse" in line for line in (lines[0], lines[-1])) and "worse" not in page(found)


def test_targets_of_a_run_agree_in_first_line_rows_last_line_and_json(project: Project) -> None:
    """Of three targets, one loses five of thirty cases: too few for one of two comparisons."""
    names = [f"c{number:02}" for number in range(30)]
    evals = [case(name, {"match": "yes"}) for name in names]
    lost = {name: ["no" if place < 5 else "yes"] for place, name in enumerate(names)}
    bots = [scripted("a", "yes"), {**scripted("b", "yes"), "replies": lost}, scripted("c", "yes")]
    run(project, {"targets": bots, "target": "a", "evals": evals}, "--target", "a,b,c")
    found = project.run_json("compare", "--targets")["comparisons"]
    assert [one["verdict"] for one in found] == ["cannot-tell", "no-difference"]
    text = project.run("compare", "--targets")
    assert "Worse" not in text and "worse" not in text
    assert "0.062 corrected for 2 comparisons" in text


def alarms(seed: int, answers: int, *, models: int = 10, cases: int = 50, trials: int = 1) -> float:
    """How often some of several equal models is called different from the first."""
    draw, called = Draw(seed), 0
    for _ in range(answers):
        rates = draw.rates(cases, 0.8, 0.5)
        sides = [Side("run", list(drawn(draw, rates, trials, str(model))), str(model)) for model in range(models)]
        found = compare_pairs([(sides[0], other) for other in sides[1:]])
        called += any(one.verdict in ("better", "worse") for one in found)
    return called / answers


def drawn(draw: Draw, rates: list[float], trials: int, target: str) -> Iterable[Result]:
    for number, rate in enumerate(rates):
        for trial in range(1, trials + 1):
            yield one(f"c{number}", "p" if draw.passes(rate, 1) else "f", trial, target=target, number=number + 1)


@pytest.mark.slow
def test_one_of_ten_equal_models_is_seldom_called_different() -> None:
    assert alarms(61, 25, cases=30) <= 0.12


@pytest.mark.long
@pytest.mark.parametrize(("cases", "trials"), [(50, 1), (50, 3), (100, 1)])
def test_one_of_ten_equal_models_is_called_different_in_at_most_five_percent(cases: int, trials: int) -> None:
    assert alarms(62, 200, cases=cases, trials=trials) <= 0.08


# Tasks in several conditions


def tasks(outcomes: dict[str, str]) -> list[Result]:
    """How each task ended: `p` or `f`, the same in every condition."""
    return [
        one(f"{task}/{condition}", outcome, number=number, condition=condition)
        for number, (task, outcome) in enumerate(outcomes.items(), 1)
        for condition in CONDITIONS
    ]


def test_conditions_of_a_task_are_compared_one_by_one() -> None:
    before = {f"t{n}": "p" for n in range(10)}
    found = compared(tasks(before), tasks({**before, "t0": "f", "t1": "f"}))
    [document] = documents([found])
    assert (document["verdict"], document["eventual"], document["first_try"]) == ("cannot-tell", None, None)
    assert [group["name"] for group in document["by_condition"]] == list(CONDITIONS)
    assert [group["comparison"]["cases"] for group in document["by_condition"]] == [10, 10, 10]
    assert [group["comparison"]["p_value"] for group in document["by_condition"]] == [0.25] * 3
    assert [group["comparison"]["p_holm"] for group in document["by_condition"]] == [0.75] * 3
    lines = shown(found)
    assert lines[0].startswith("Cannot tell: full cannot tell, 100% -> 80%; concat cannot tell")
    assert "6 of 30 pairs of case and condition broke" in lines[0]
    assert any(line.startswith("  final pass rate, sharded ") for line in lines)
    assert found.tokens.cases == 10, "a task is one case of the costs, too"


def test_a_condition_that_became_worse_is_named() -> None:
    before = {f"t{n}": "p" for n in range(20)}
    lost = [f"t{n}/sharded" for n in range(12)]
    after = [result if result.id not in lost else one(result.id, "f", condition="sharded") for result in tasks(before)]
    found = compared(tasks(before), after)
    assert {group.name: group.verdict for group in found.by_condition}["sharded"] == "worse"
    assert (found.verdict, found.is_worse) == ("worse", True)
    assert shown(found)[0].startswith("Worse on 1 of 3 conditions: ")


def test_one_condition_by_itself_is_a_plain_comparison() -> None:
    whole = [result for result in tasks({f"t{n}": "p" for n in range(10)}) if result.condition == "full"]
    found = compared(whole, whole)
    assert found.eventual is not None and not found.groups


def clustered_alarms(seed: int, rounds: int, tasks_: int) -> float:
    """Tasks change as a whole, as many for the better as for the worse: how often is a difference called?"""
    draw, called = Draw(seed), 0
    for _ in range(rounds):
        changed = [draw.passes(0.3, 1) for _ in range(tasks_)]
        before = {f"t{n}": "pf"[draw.passes(0.5, 1)] for n in range(tasks_)}
        flipped = {"p": "f", "f": "p"}
        both = zip(before.items(), changed, strict=True)
        after = {name: flipped[was] if change else was for (name, was), change in both}
        called += compared(tasks(before), tasks(after)).verdict in ("better", "worse")
    return called / rounds


@pytest.mark.slow
def test_tasks_that_change_as_a_whole_raise_few_alarms() -> None:
    assert clustered_alarms(63, 60, 10) <= 0.1


@pytest.mark.long
@pytest.mark.parametrize("number", [10, 20])
def test_tasks_that_change_as_a_whole_raise_alarms_in_at_most_five_percent(number: int) -> None:
    assert clustered_alarms(64, 400, number) <= 0.065


# Words


def test_both_p_values_and_methods_are_named_where_asked() -> None:
    found = compared([one(f"c{n}", "p") for n in range(20)], [one(f"c{n}", "pf"[n < 5]) for n in range(20)])
    assert "  final pass rate: mid-p 0.03125, exact p 0.0625; sign-flip mid-p, t interval" in shown(found, exact=True)
    assert not any("exact p" in line for line in shown(found))
    assert any(line.split()[-2:] == ["95", "%"] or " mid-p" in line for line in shown(found)[4:7])


def test_the_command_names_both_p_values(project: Project) -> None:
    run(project, {"targets": [scripted("x", "yes")], "target": "x", "evals": [case("a", {"match": "yes"})]})
    run(project, {"targets": [scripted("x", "yes")], "target": "x", "evals": [case("a", {"match": "yes"})]})
    assert "mid-p 1, exact p 1; sign-flip mid-p" in project.run("compare", "--verbose")


def test_a_cost_that_differs_by_rounding_is_the_same() -> None:
    from msgspec import structs

    a = [structs.replace(one(f"c{n}", "p"), cost=0.01) for n in range(25)]
    b = [structs.replace(one(f"c{n}", "p", trial), cost=0.01) for n in range(25) for trial in range(1, 11)]
    found = compared(a, b)
    assert (found.cost.verdict, found.cost.difference) == ("same", 0.0)
    [row] = [line for line in shown(found) if line.startswith("  cost per case")]
    assert row.split()[3:5] == ["$0.01", "$0.01"] and row.endswith("the same in every case")


def test_costs_of_one_row_have_as_many_digits() -> None:
    from msgspec import structs

    a, b = ([structs.replace(one("c", "p"), cost=cost)] for cost in (0.0099, 1.5))
    [row] = [line for line in shown(compared(a, b)) if line.startswith("  cost per case")]
    assert row.split()[3:5] == ["$0.0099", "$1.5000"]


def test_the_page_shows_the_change_between_the_two_numbers_shown() -> None:
    from msgspec import structs

    from rejoinder.model import UsageResult

    a = [structs.replace(one(f"c{n}", "p"), usage=UsageResult(0, 0, 100 if n == 0 else 10)) for n in range(10)]
    b = [structs.replace(one(f"c{n}", "p"), usage=UsageResult(0, 0, 10)) for n in range(10)]
    words = " ".join(page(compared(a, b)).split())
    assert "Tokens per case 19 10 -47% cannot tell, typically 0%" in words


# The same words

PARROT = """
import json


def reply(request):
    with open("words.json") as file:
        words = json.load(file)
    return f"{words[(request.trial - 1) % len(words)]}: yes"
"""


@pytest.mark.parametrize(
    ("before", "after", "reworded"),
    [
        ((1, ["a"]), (5, ["a"]), 0),  # more of the same
        ((2, ["a", "b"]), (2, ["b", "a"]), 0),  # in another order
        ((2, ["a", "b"]), (4, ["a", "b"]), 0),
        ((1, ["a"]), (1, ["b"]), 2),
        ((1, ["a"]), (4, ["a", "b"]), 2),
        ((2, ["a", "b"]), (4, ["a", "a", "a", "b"]), 2),
    ],
)
def test_cases_with_the_same_replies_are_not_in_other_words(
    before: tuple[int, list[str]], after: tuple[int, list[str]], reworded: int, project: Project
) -> None:
    target = {"name": "bot", "provider": "python", "call": "bot:reply"}
    project.write("bot.py", PARROT)
    for repeat, words in (before, after):
        project.write("words.json", json.dumps(words))
        evals = [case(name, {"contains": "yes"}) for name in ("one", "two")]
        run(project, {"targets": [target], "evals": evals}, "--repeat", str(repeat), code=0)
    assert f"2 unchanged ({reworded} with a different reply)" in project.run("compare")
    assert json.loads(project.run("compare", "--format", "json"))["same_words"] == 2 - reworded
