"""Results that are chosen from a run, as the server and Python programs choose them."""

from __future__ import annotations

import pytest

from rejoinder.engine.run import show_run
from rejoinder.errors import UsageError
from rejoinder.runs.recorded import open_recorded
from rejoinder.runs.report import RunReport
from rejoinder.views.choose import Choice, choose
from tests.kit import Project, case, follow

YES = {"contains": "yes"}


@pytest.fixture
def report(project: Project) -> RunReport:
    """`first` fails, `second` recovers, `third` passes at once."""
    cases = [case(name, YES, follow("Really?", YES)) for name in ("first", "second", "third")]
    replies = {"first": ["no", "no"], "second": ["no", "yes"], "third": ["yes"]}
    target = {"name": "bot", "provider": "scripted", "replies": replies}
    project.write("evals.yaml", {"targets": [target], "evals": cases})
    project.run("run", code=1)
    return show_run(open_recorded(None))


@pytest.mark.parametrize(
    ("choice", "wanted"),
    [
        (Choice(), ["first", "second", "third"]),
        (Choice(cases=("f*", "third")), ["first", "third"]),
        (Choice(failed=True), ["first"]),
        (Choice(failed=True, recovered=True), ["first", "second"]),
        (Choice(recovered=True, cases=("third",)), []),
        (Choice(turn=2), ["first", "second"]),
        (Choice(sort="score", limit=1), ["first"]),
        (Choice(targets=("bot",), limit=2), ["first", "second"]),
    ],
)
def test_a_choice_selects_results_of_a_report(report: RunReport, choice: Choice, wanted: list[str]) -> None:
    chosen = choose(report, choice)
    assert [result.id for result in chosen.results] == wanted and len(chosen.results) == len(wanted)
    assert chosen.summary == report.summary and chosen.selected.total == 3
    assert not list(chosen.confirming)
    assert [len(result.turns) for result in chosen.conversations] == [1 + (name != "third") for name in wanted]


def test_one_turn_is_cut_out_of_the_chosen_conversations(report: RunReport) -> None:
    chosen = choose(report, Choice(turn=2))
    assert [[turn.turn for turn in result.turns] for result in chosen.results] == [[2], [2]]
    assert chosen.selected.options == {"turn": 2}


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (Choice(cases=("frist",)), "has no case `frist`"),
        (Choice(targets=("bat",)), "has no target `bat`"),
        (Choice(variants=("a",)), "has no variant `a`"),
        (Choice(turn=3), "there is no turn 3 there"),
        (Choice(trial=2), "there is no trial 2 there"),
    ],
)
def test_a_choice_of_missing_parts_is_refused(report: RunReport, choice: Choice, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        choose(report, choice)


def test_a_choice_without_conditions_is_the_whole_run() -> None:
    assert Choice().is_whole and not Choice(limit=1).is_whole
    assert Choice(failed=True, errors=True).kind == "failed or with an error"
