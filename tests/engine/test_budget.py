"""The purse of a run: reserved before each call, settled after it, never overshot."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.engine.budget import Budget, BudgetReached
from rejoinder.model.spending import Amount
from tests.kit import bounded


@pytest.mark.slow
@given(
    cap=st.integers(0, 300),
    calls=st.lists(
        st.tuples(st.integers(0, 60), st.floats(0, 1), st.integers(0, 3), st.booleans(), st.booleans()), max_size=60
    ),
    seed=st.integers(0, 10**6),
)
@bounded(300)
def test_whatever_is_in_flight_the_cap_holds(
    cap: int, calls: list[tuple[int, float, int, bool, bool]], seed: int
) -> None:
    """Calls begin in any order, take any time, cost any share of their most; some are cancelled, some get lost."""
    shuffled = random.Random(seed)

    async def play() -> None:
        budget = Budget(None, cap)
        made: list[int] = []
        under_way: list[bool] = []

        async def call(most: int, share: float, steps: int, lost: bool, alone: bool) -> None:
            ticket = await budget.reserve(Amount(0.0, most), alone=alone)
            under_way.append(alone)
            assert (budget.spent + budget.reserved).tokens <= cap
            assert len(under_way) == 1 or not any(under_way), "none is made beside one that is made alone"
            try:
                for _ in range(steps):
                    await asyncio.sleep(0)
            except asyncio.CancelledError:
                under_way.remove(alone)
                budget.forfeit(ticket)
                raise
            made.append(most)
            under_way.remove(alone)
            budget.forfeit(ticket) if lost else budget.settle(ticket, Amount(0.0, int(most * share)))

        tasks = [asyncio.ensure_future(call(*one)) for one in calls]
        for _ in range(shuffled.randrange(5)):
            await asyncio.sleep(0)
            if tasks:
                shuffled.choice(tasks).cancel()
        done = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 5)
        assert all(one is None or isinstance(one, BudgetReached | asyncio.CancelledError) for one in done), done
        assert budget.spent.tokens <= cap
        if any(isinstance(one, BudgetReached) for one in done):
            assert budget.reached
        elif not any(isinstance(one, asyncio.CancelledError) for one in done):
            assert len(made) == len(calls)

    asyncio.run(play())


def test_a_call_waits_for_others_to_settle_before_the_budget_counts_as_reached() -> None:
    async def play() -> None:
        reached: list[bool] = []
        budget = Budget(1.0, None, on_reached=lambda: reached.append(True))
        first = await budget.reserve(Amount(0.9, 0))
        second = asyncio.ensure_future(budget.reserve(Amount(0.9, 0)))
        await asyncio.sleep(0)
        assert not second.done()
        budget.settle(first, Amount(0.05, 0))
        budget.settle(await second, Amount(0.2, 0))
        with pytest.raises(BudgetReached):
            await budget.reserve(Amount(0.9, 0))
        assert (budget.reached, reached) == (True, [True])
        assert budget.spent.usd == pytest.approx(0.25)

    asyncio.run(play())


def test_a_lost_call_counts_for_the_most_it_can_have_cost() -> None:
    async def play() -> None:
        budget = Budget(None, 100)
        budget.forfeit(await budget.reserve(Amount(0.0, 60)))
        with pytest.raises(BudgetReached):
            await budget.reserve(Amount(0.0, 50))

    asyncio.run(play())


def test_who_waits_is_sent_away_when_the_run_ends_and_the_budget_is_not_reached_for_that() -> None:
    async def play() -> None:
        budget = Budget(None, 100)
        ticket = await budget.reserve(Amount(0.0, 80))
        waiting = [asyncio.ensure_future(budget.reserve(Amount(0.0, 30))) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[1].cancel()
        budget.cancel_waiters()
        done = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(one) for one in done] == [BudgetReached, asyncio.CancelledError, BudgetReached]
        budget.settle(ticket, Amount(0.0, 10))
        assert (budget.reached, budget.spent.tokens, budget.reserved) == (False, 10, Amount())
        budget.settle(await budget.reserve(Amount(0.0, 90)), Amount(0.0, 90))

    asyncio.run(play())


def test_who_came_first_is_let_through_first_and_a_small_call_does_not_overtake() -> None:
    """Else a large one would never be made while there are small ones."""

    async def play() -> None:
        budget, order = Budget(None, 100), list[str]()

        async def call(name: str, most: int) -> int:
            ticket = await budget.reserve(Amount(0.0, most))
            order.append(name)
            return ticket

        first = await call("first", 60)
        large = asyncio.ensure_future(call("large", 90))
        small = asyncio.ensure_future(call("small", 5))
        await asyncio.sleep(0)
        assert order == ["first"], "the small one would fit"
        budget.settle(first, Amount(0.0, 4))
        await asyncio.gather(large, small)
        assert order == ["first", "large", "small"]

    asyncio.run(play())


def test_a_cost_above_the_most_is_counted_as_it_is() -> None:
    """A server that does not keep to `max_tokens` cannot be stopped, but nothing is sent after it."""

    async def play() -> None:
        budget = Budget(None, 100)
        budget.settle(await budget.reserve(Amount(0.0, 40)), Amount(0.0, 150))
        assert budget.spent.tokens == 150
        with pytest.raises(BudgetReached):
            await budget.reserve(Amount(0.0, 0))

    asyncio.run(play())
