"""Small promises: whose failure a doubt names, what a cancelled call gives back, how long a provider is waited for."""

from __future__ import annotations

import asyncio

import pytest

from rejoinder.engine.budget import Amount, Budget
from rejoinder.engine.retries import NO_REFUSALS, Refusals, Retries, Tries, decide_retry
from rejoinder.providers import ProviderError
from tests.kit import Project, scripted


def test_what_was_granted_to_a_call_that_is_cancelled_is_given_back() -> None:
    async def play() -> None:
        budget = Budget(None, 10)
        first = await budget.reserve(Amount(0.0, 10))
        waiting = asyncio.ensure_future(budget.reserve(Amount(0.0, 10)))
        await asyncio.sleep(0)
        budget.settle(first, Amount(0.0, 0))  # now the waiting call is let through
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert budget.reserved.tokens == 0
        budget.settle(await budget.reserve(Amount(0.0, 10)), Amount(0.0, 10))
        assert budget.spent.tokens == 10

    asyncio.run(asyncio.wait_for(play(), 10))


def test_a_doubt_beside_a_failed_check_names_the_check_that_failed(project: Project) -> None:
    """The doubt stands at a check that passed, so it is no failure of that check which sends it."""
    doubt = {"match": "*yes*", "prompt": "Sure?", "ask": "always", "checks": [{"match": "*yes*"}]}
    case = {"id": "one", "prompt": "Say yes.", "checks": [doubt, {"match": "*please*"}]}
    project.write("evals.yaml", {"targets": [scripted("it", "yes", "yes")], "target": "it", "evals": [case]})
    [result] = project.run_json("run", code=None)["results"]
    first, second = result["turns"]
    assert [check["passed"] for check in first["checks"]] == [True, False]
    assert second["asked_by"] == {"turn": 1, "check": [1]}


@pytest.mark.parametrize(("asked_s", "ends"), [(599.0, False), (600.0, False), (601.0, True)])
def test_a_wait_of_ten_minutes_is_waited_and_a_longer_one_ends_the_target(asked_s: float, ends: bool) -> None:
    error = ProviderError("busy", retryable=True, status=503, retry_after_s=asked_s)
    assert decide_retry(error, Retries(), Tries(), NO_REFUSALS).ends_target is ends


@pytest.mark.parametrize(("seconds", "ends"), [(600.0, False), (601.0, True)])
def test_refusals_for_more_than_ten_minutes_end_the_target(seconds: float, ends: bool) -> None:
    error = ProviderError("too many", retryable=True, status=429, pressure="rate")
    refusals = Refusals(seconds, has_answered=True)
    assert decide_retry(error, Retries(), Tries(), refusals).ends_target is ends
