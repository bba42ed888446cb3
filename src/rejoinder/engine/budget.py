"""Budgets: money and tokens are reserved before a call is made, and settled after it.

What a call can cost at most is known before it is made: a text has never more tokens than bytes, and a reply never more
than the target's `max_tokens`. A call goes out only when that still fits beside all that is under way. So the cap is
never overshot, however many calls are in flight. A call that does not fit now waits for others to settle, because most
cost far less than they could; when nothing is under way any more and it still does not fit, the budget is reached.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection
from typing import Any

from msgspec import Struct

from rejoinder.model import Reply


class Amount(Struct, frozen=True, array_like=True):
    """Dollars and tokens."""

    usd: float = 0.0
    tokens: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.usd + other.usd, self.tokens + other.tokens)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.usd - other.usd, self.tokens - other.tokens)


NOTHING = Amount()


def amount_of(reply: Reply) -> Amount:
    """What a reply counts for."""
    return Amount(reply.cost or 0.0, reply.usage.total_tokens)


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
        self._next = 0
        self._waiting: deque[tuple[Amount, asyncio.Future[int]]] = deque()
        self._on_reached = on_reached

    def when_reached(self, call: Callable[[], object]) -> None:
        self._on_reached = call

    @property
    def reserved(self) -> Amount:
        return sum(self._reserved.values(), NOTHING)

    def record(self) -> dict[str, Any]:
        """What the receipt says of it."""
        spent = {"spent_usd": self.spent.usd, "spent_tokens": self.spent.tokens}
        needed = [self.needed.usd, self.needed.tokens]  # it goes into documents, so it is plain
        return {"usd": self.usd, "tokens": self.tokens, **spent, "reached": self.reached, "needed": needed}

    async def reserve(self, most: Amount) -> int:
        """A ticket for a call that costs at most so much. Raises BudgetReached when it can never fit."""
        if self.reached:
            raise BudgetReached
        if not self._waiting and self._fits(most):
            return self._take(most)
        if not self._reserved:
            self._give_up(most)
            raise BudgetReached
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((most, turn))
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.settle(turn.result(), NOTHING)  # it was let through, and is not made
            raise

    def _take(self, most: Amount) -> int:
        self._next += 1
        self._reserved[self._next] = most
        return self._next

    def settle(self, ticket: int, cost: Amount) -> None:
        """The call is over and has cost so much."""
        self._reserved.pop(ticket)
        self.spent += cost
        self._serve()

    def forfeit(self, ticket: int) -> None:
        """Nobody knows what became of the call: it counts for the most that it can have cost."""
        self.settle(ticket, self._reserved[ticket])

    def send_away(self) -> None:
        """Let nobody wait any more: the run ends, and what was not let through is left to another day."""
        for _, turn in self._waiting:
            if not turn.done():
                turn.set_exception(BudgetReached())
        self._waiting.clear()

    def _fits(self, most: Amount) -> bool:
        total = self.spent + self.reserved + most
        return (self.usd is None or total.usd <= self.usd) and (self.tokens is None or total.tokens <= self.tokens)

    def _serve(self) -> None:
        """Let those go on who fit now, in the order in which they came."""
        while self._waiting:
            most, turn = self._waiting[0]
            if not turn.done():  # whoever waited may be gone
                if not self._fits(most):
                    break
                turn.set_result(self._take(most))
            self._waiting.popleft()
        if self._waiting and not self._reserved:
            self._give_up(self._waiting[0][0])

    def _give_up(self, most: Amount) -> None:
        self.reached = True
        self.needed = most
        self.send_away()
        if self._on_reached is not None:
            self._on_reached()


class Ledger:
    """What a run has spent before, read from its journal: a run that is taken up again has what is left.

    Retries are written down by another thread than the failures before them, so of a call's attempts only their
    number is known for certain, and not which of them failed.
    """

    def __init__(self, free: Collection[str] = ()) -> None:
        """`free`: the names of targets that nobody is paid for."""
        self.spent = NOTHING
        self._free = free
        self._open: dict[str, list[Amount | None]] = {}
        """Of each call the attempts of which nothing is known yet, with the most that each can have cost."""

    def asked(self, key: str, target: str, most: Amount | None) -> None:
        if target not in self._free:
            self._open.setdefault(key, []).append(most)

    def failed(self, key: str, *, charged: bool) -> None:
        attempts = self._open.get(key)
        if attempts:
            most = attempts.pop()
            if charged:
                self._count(most)

    def told(self, key: str, reply: Reply | None) -> None:
        attempts = self._open.pop(key, [])
        if attempts and reply is not None:  # without an attempt it was not asked for, but known from elsewhere
            most = attempts.pop()
            self._count(most if most is not None and reply.usage.approximate else amount_of(reply))
        self._count(*attempts)

    def taken_up(self) -> None:
        """Another process goes on: what is open now nobody will ever know."""
        for attempts in self._open.values():
            self._count(*attempts)
        self._open.clear()

    def _count(self, *amounts: Amount | None) -> None:
        self.spent = sum((one for one in amounts if one is not None), self.spent)
