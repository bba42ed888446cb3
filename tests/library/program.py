"""A program that uses the library: `test_types.py` asks pyright for the types of its expressions."""

from __future__ import annotations

from typing import reveal_type

import rejoinder
from rejoinder import Case, FollowUp, Suite, Turn, checks

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
