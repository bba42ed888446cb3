"""Commands on planned, doubted and simulated conversations: what they show, and what they propose."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import pytest

from rejoinder.cli.live import LiveDisplay, LiveScreen
from rejoinder.engine.run import show_run
from rejoinder.model import NOT_AUDITED, Outcome, Reply, Spoilt, StepResult, Turn, UserOutcome, Verdict
from rejoinder.model.estimates import RunBounds, TargetBounds
from rejoinder.report.estimate import write_estimate
from rejoinder.report.styled import Form, plain_text
from rejoinder.runs.recorded import open_recorded
from rejoinder.views.actions import next_actions
from tests.kit import Project, Raw, case, follow, scripted

BOOKING: Raw = {
    "id": "booking",
    "turns": [
        {"name": "ask", "prompt": "A table", "checks": [{"contains": "many"}], "extract": {"ref": {"regex": r"R\d"}}},
        {
            "name": "party",
            "prompt": "For four. You said {{ response }}, {{ turn('ask').response }}, {{ response(1) }}",
            "checks": [{"contains": "four"}, follow("Count {{ failed }}", {"contains": "four"})],
        },
        {
            "name": "cancel",
            "messages": [{"role": "user", "content": "Cancel {{ ref }}"}],
            "checks": [{"contains": "ok"}],
        },
    ],
}


@pytest.fixture
def booking(project: Project) -> Project:
    replies = {"booking": ["How many? R7", "two", "still two"], "shirt": ["Which size?", "Gone."]}
    target = {"name": "bot", "provider": "scripted", "replies": replies}
    user = {"goal": "a shirt", "opening": "A shirt.", "target": "guest", "stop": "DONE", "max_turns": 5}
    shirt = case("shirt", {"contains": "Sold"}, user=user)
    del shirt["prompt"]
    project.write(
        "evals.yaml",
        {
            "target": "bot",
            "targets": [target, scripted("guest", "It is Sold, yes.", "DONE")],
            "evals": [shirt, BOOKING],
        },
    )
    return project


def test_a_prompt_shows_later_turns_as_they_are_written(booking: Project) -> None:
    shown = booking.run("prompt", "--case", "booking")
    assert "--- user ---\nA table\n--- step 2 of 3, party: user ---\n" in shown
    assert "For four. You said {{ response }}, {{ turn('ask').response }}, {{ response(1) }}\n" in shown
    assert shown.rstrip().endswith("--- step 3 of 3, cancel: user ---\nCancel {{ ref }}")
    [record] = booking.run_json("prompt", "--case", "booking")
    assert record["later_turns"][1] == {
        "step": 3,
        "of": 3,
        "name": "cancel",
        "messages": [{"role": "user", "content": "Cancel {{ ref }}"}],
    }
    [record] = booking.run_json("prompt", "--case", "shirt")
    assert "later_turns" not in record


def test_a_plan_is_shown_as_a_plan_wherever_it_is_shown(booking: Project) -> None:
    ending = booking.run("run", code=3)
    assert "  step 2 of 3, party: contains" in ending
    assert "WARN shirt: invalid, not counted: leaked at turn 2: it gives the answer away" in ending
    assert "  steps: ask passed, party failed, cancel not sent\n" in ending
    verbose = booking.run("show", "--verbose")
    block = verbose.partition("Eval 2: ")[2]
    assert "\n  Turn 2: step 2 of 3, party\n" in block
    assert "\n    Turn 3: follow-up, because contains failed\n      Prompt: Count " in block
    assert "\n  Step 3 of 3, cancel: not sent, because step 2 failed\n  Overall: " in block
    assert "\n  steps: ask passed, party failed, cancel not sent\n" in block
    one = booking.run("show", "--case", "booking", "--turn", "3")
    assert "    Turn 3: follow-up, because contains failed" in one and "Turn 2" not in one
    assert '    ✅ PASS extract "R\\d": `ref` is' in block
    every = booking.run("show", "--failed")
    assert "\naudit: invalid: leaked at turn 2" in every and every.rstrip().endswith("cancel not sent")


def test_what_is_proposed_names_the_planned_turn_and_no_spoilt_case(booking: Project) -> None:
    booking.run("run", code=3)
    report = show_run(open_recorded(None))
    assert next_actions(report)[0].command() == "rejoinder show --case booking"
    forked = booking.run("fork", "--case", "booking", "--turn", "2", "--prompt", "For 4", "--verbose", code=1)
    assert "  Turn 2: step 2 of 3, party\n    Prompt: For 4\n" in forked


def turn(number: int, *, passed: bool = True, **more: Any) -> Turn:
    verdict = Verdict("contains four", "passed" if passed else "failed", float(passed), "", kind="contains")
    known: dict[str, Any] = {"depth": 0, "prompt": "?", "reply": Reply("two \x1b[2J"), "verdicts": (verdict,)}
    known |= {"turn": number, "passed": passed, **more}
    return Turn(**known)


JOB: Any = SimpleNamespace(number=1, trial=1, prepared=SimpleNamespace(case=SimpleNamespace(id="booking")))
STEPS = (
    StepResult(1, "ask", "passed", 1.0),
    StepResult(2, "par\x1bty", "failed", 0.0),
    StepResult(3, "bill", "passed", 1.0),
)
WENT_ON = Outcome(
    status="failed",
    turns=(turn(1, step=1), turn(2, passed=False, step=2), turn(3, step=3)),
    steps=STEPS,
)


class Told(LiveDisplay):
    """What a display would print, as it comes."""

    def ticks(self, outcome: Outcome) -> list[str]:
        self.conversation_finished(JOB, outcome)
        return [plain_text(tick) for tick in iter(self._next_tick, None)]


class ToldOnScreen(LiveScreen, Told):
    def rows(self) -> list[str]:
        return [plain_text(row) for row in self._rows(0.0)]


def on_screen() -> ToldOnScreen:
    return ToldOnScreen(io.StringIO(), colour=False)


def test_a_tick_names_the_step_that_failed() -> None:
    [tick] = Told(io.StringIO()).ticks(WENT_ON)
    assert tick.startswith("FAIL booking turn 2, step 2 of 3, par") and ': contains "four": two' in tick
    [tick] = on_screen().ticks(WENT_ON)
    assert tick.startswith("✗ booking  turn 2, step 2 of 3")
    assert "\x1b" not in tick
    inner = Verdict("icontains sorry", "passed", 1.0, "contains it", kind="icontains")
    over = Verdict("never icontains sorry", "failed", 0.0, "turn 2 does", kind="never", children=(inner,))
    [tick] = on_screen().ticks(Outcome(status="failed", turns=(turn(1),), conversation_checks=(over,)))
    assert tick.startswith('✗ booking  turn 1  never icontains "sorry"')


def test_planned_turns_are_no_recovery_and_spoilt_conversations_no_failure() -> None:
    display = on_screen()
    passed = Outcome(status="passed", turns=(turn(1, step=1), turn(2, step=2)))
    back = Outcome(status="passed", turns=(turn(1, passed=False), turn(2, depth=1)))
    user = UserOutcome((Reply("words"),), "word", Spoilt("leak", 2, "x"))
    spoilt = Outcome(status="failed", turns=(turn(1, passed=False),), user=user)
    counted = Outcome(status="passed", turns=(turn(1),), user=UserOutcome((Reply("words"),), "word", NOT_AUDITED))
    for outcome in (passed, back, spoilt, counted):
        assert not display.ticks(outcome)
    assert "  2 first try   1 recovered   1 invalid" in display.rows()


def test_a_dry_run_keeps_users_apart_from_judges(booking: Project) -> None:
    text = booking.run("run", "evals.yaml", "--dry-run")
    assert "user guest" in text and "judge guest" not in text
    found = booking.run_json("run", "evals.yaml", "--dry-run")
    assert found["judges"] == {} and found["users"]["guest"]["most_calls"] == 4
    assert found["users"]["guest"]["most_usd"] == 0
    asked = tuple(
        TargetBounds(name=role, role=role, calls=(1, 2), tokens=(1, None), cost=(1, None)) for role in ("judge", "user")
    )
    shown = "\n".join(plain_text(one) for one in write_estimate(RunBounds(conversations=1, targets=asked), Form()))
    assert "set the judge's `max_tokens`" in shown and "set the user's `max_tokens`" in shown
