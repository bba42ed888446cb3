"""Budgets: money and tokens are reserved before a call is made, and settled after it.

What a call can cost at most is known before it is made: a text has never more tokens than bytes, and a reply never more
than the target's `max_tokens`. A call goes out only when that still fits beside all that is under way. So the cap is
never overshot, however many calls are in flight. A call that does not fit now waits for others to settle, because most
cost far less than they could; when nothing is under way any more and it still does not fit, the budget is reached.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from rejoinder.model.runs import BudgetUse
from rejoinder.model.spending import NOTHING, Amount


class BudgetReached(Exception):
    """What is left does not suffice for the next call."""


class Budget:
    """A cap over everything that a run asks, models and judges alike."""

    def __init__(
        self,
        usd: float | None,
        tokens: int | None,
        spent: Amount = NOTHING,
        on_reached: Callable[[], None] | None = None,
    ) -> None:
        self.usd, self.tokens = usd, tokens
        self.spent = spent
        self.reached = False
        self.needed = NOTHING
        """What the call can cost at most that did not fit any more."""
        self._reserved: dict[int, Amount] = {}
        self._alone: int | None = None
        """The ticket of a call beside which no other is made: its cost is not known before."""
        self._next = 0
        self._waiting: deque[tuple[Amount, bool, asyncio.Future[int]]] = deque()
        self._on_reached = on_reached

    def when_reached(self, call: Callable[[], object]) -> None:
        self._on_reached = call

    @property
    def reserved(self) -> Amount:
        return sum(self._reserved.values(), NOTHING)

    def record(self) -> BudgetUse:
        """What the receipt says of it."""
        needed = self.needed.usd, self.needed.tokens
        return BudgetUse(self.usd, self.tokens, self.spent.usd, self.spent.tokens, self.reached, needed)

    async def reserve(self, most: Amount, *, alone: bool = False) -> int:
        """A ticket for a call that costs at most so much. Raises BudgetReached when it can never fit.

        `alone`: it may cost more all the same, so it is made when no other is under way, and others wait for it.
        """
        if self.reached:
            raise BudgetReached
        if not self._waiting and self._fits(most, alone):
            return self._take(most, alone)
        if not self._reserved:
            self._give_up(most)
            raise BudgetReached
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((most, alone, turn))
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.settle(turn.result(), NOTHING)  # it was let through, and is not made
            raise

    def _take(self, most: Amount, alone: bool) -> int:
        self._next += 1
        self._reserved[self._next] = most
        self._alone = self._next if alone else self._alone
        return self._next

    def settle(self, ticket: int, cost: Amount) -> None:
        """The call is over and has cost so much."""
        self._reserved.pop(ticket)
        self._alone = None if ticket == self._alone else self._alone
        self.spent += cost
        self._serve()

    def forfeit(self, ticket: int) -> None:
        """The outcome of the call is unknown: it counts for the most that it can have cost."""
        self.settle(ticket, self._reserved[ticket])

    def cancel_waiters(self) -> None:
        """End all waiting: the run ends, and `resume` makes the calls that were not admitted."""
        for _, _, turn in self._waiting:
            if not turn.done():
                turn.set_exception(BudgetReached())
        self._waiting.clear()

    def _fits(self, most: Amount, alone: bool) -> bool:
        if self._alone is not None or (alone and self._reserved):
            return False
        total = self.spent + self.reserved + most
        return (self.usd is None or total.usd <= self.usd) and (self.tokens is None or total.tokens <= self.tokens)

    def _serve(self) -> None:
        """Let those go on who fit now, in the order in which they came."""
        while self._waiting:
            most, alone, turn = self._waiting[0]
            if not turn.done():  # the waiting task may have been cancelled
                if not self._fits(most, alone):
                    break
                turn.set_result(self._take(most, alone))
            self._waiting.popleft()
        if self._waiting and not self._reserved:
            self._give_up(self._waiting[0][0])

    def _give_up(self, most: Amount) -> None:
        self.reached = True
        self.needed = most
        self.cancel_waiters()
        if self._on_reached is not None:
            self._on_reached()
