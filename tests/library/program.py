"""A program that uses the library: `test_types.py` asks pyright for the types of its expressions."""

from __future__ import annotations

from typing import reveal_type

import rejoinder
from rejoinder import Case, FollowUp, Suite, Turn, checks, testing

again = FollowUp("Again?", checks=[checks.match("yes", weight=2, name="again")], hint="wrong")
suite = Suite(
    name="shop",
    target=["demo"],
    targets=[{"name": "demo", "provider": "scripted", "replies": ["yes", 1, {"text": "x"}]}],
    vars={"country": "Norway", "limits": [1, 2.5, None]},
    evals=[
        Case(
            id="a",
            prompt="Where?",
            tags=["t"],
            pass_="1 of 2",
            checks=[
                checks.contains("voucher", follow_up=again),
                checks.llm_judge("polite", votes=3),
                checks.or_([checks.regex("a", flags="i"), checks.json_path("$.a", equals=None)]),
                checks.tool_calls([{"name": "search", "times": 2}, "book"], mode="any_order"),
                {"contains": "x"},
            ],
            turns=[Turn("Hello", checks=[checks.max_words(3)])],
            input_messages=[{"role": "user", "content": [{"type": "text", "value": "x"}]}],
            conversation_checks=[checks.always(checks.min_words(1), turns=[1, 2])],
        )
    ],
)
loaded = rejoinder.load({"evals": [{"prompt": "x", "checks": [{"contains": "x"}]}]})
text = rejoinder.loads(suite.to_yaml(), folder="there")
report = rejoinder.run([suite, loaded, "evals.yaml", {"evals": []}])
reveal_type(suite)
reveal_type(loaded.cases)
reveal_type(loaded.cases[0])
reveal_type(loaded.cases[1:])
reveal_type(loaded.cases[0].tags)
reveal_type([case.variant for case in text.cases])
reveal_type(report)
reveal_type(report.results)
reveal_type(report.results[0])
reveal_type(report.results[0].turns[0].checks[0].score)
reveal_type(report.results[:2])
reveal_type([result.status for result in report.results])
reveal_type(report.summary.rates)
reveal_type(report.summary.by_target["demo"].pass_rate)
reveal_type(report.rate + report.first_try_rate)
reveal_type(report.cases)
reveal_type(report.cases[0].flaky)
reveal_type(report.rows("turn"))
reveal_type(report.rows()[0]["id"])
reveal_type(report.to_pandas("check"))
reveal_type(report.to_polars())
reveal_type(rejoinder.explain(report.results[0]))
reveal_type(checks.semantic)
reveal_type(checks.not_(checks.rubric(["kind"], threshold=0.5)))
reveal_type(rejoinder.show().run.id)


def bot(request: rejoinder.Request) -> rejoinder.Reply:
    return rejoinder.Reply(f"{request.messages[-1].content} in turn {request.turn}")


class Bot:
    async def reply(self, request: rejoinder.Request) -> str:
        return str(request.turn)


def on_progress(progress: rejoinder.Progress) -> None:
    reveal_type(progress.done / progress.planned)


async def main() -> None:
    reveal_type(await rejoinder.arun(suite, target=Bot(), on_progress=on_progress))
    reveal_type(await rejoinder.aresume(report, target=bot))


@testing.cases({"evals": [{"prompt": "x"}]}, tags=["t"])
async def test_case(runner: testing.Runner, case: testing.SuiteCase) -> None:
    reveal_type(runner.run(case, target=bot, repeat=2, pace=rejoinder.Pace(workers=2)))
    reveal_type(await runner.arun(suite, target=Bot()))
    reveal_type(runner.reports[0].id)


reveal_type(rejoinder.load(["evals.yaml", suite]))
reveal_type(rejoinder.load(suite))
reveal_type(rejoinder.validate(suite, {"evals": []}, strict=True).errors)
reveal_type(rejoinder.run("evals.yaml", target=bot, on_progress=on_progress))
reveal_type(rejoinder.run("evals.yaml", target={"provider": "scripted", "replies": ["x"]}))
reveal_type(rejoinder.compare(report).changed)
reveal_type(rejoinder.compare_targets(report)[0].flips[0].id)
reveal_type(rejoinder.gate(report, against="main", rules=["rate>=90%"]).verdict)
reveal_type(rejoinder.estimate(suite, target=bot).targets[0].calls)
reveal_type(rejoinder.fork(report, "a", 2, target=bot).results[0].turns)
reveal_type(rejoinder.next_steps(report))
testing.assert_rate(report, at_least=0.9, surely=True)
testing.assert_no_worse(report, "main")
testing.assert_passed(report.results[0])
