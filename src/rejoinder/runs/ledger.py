"""The money and tokens that a run has spent, as its journal says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from typing import TypeAlias

from rejoinder.model import Reply
from rejoinder.model.calls import Cost
from rejoinder.model.spending import NOTHING, Amount, amount_of

Asks: TypeAlias = tuple[str, str]
"""A target as a journal names it: the suite, where a run has several, and its name."""


class Ledger:
    """The spending of a run before now, read from its journal: a resumed run may spend the rest.

    Older journals may have a retry before the failure that it follows, so of a call's attempts only their number is
    known for certain, and not which of them failed.
    """

    def __init__(
        self, free: Collection[Asks] = (), price: Callable[[Asks, Reply], Reply] | None = None, *, in_usd: bool = False
    ) -> None:
        """`free`: targets that are not billed. `price` finds the price of a target's reply that had
        none when it was recorded. `in_usd`: is there a budget in dollars, which the run may not have had before?"""
        self.spent = NOTHING
        self.unknown: Counter[str] = Counter()
        """Calls whose possible cost was not written down, and the number of such attempts of each."""
        self._free = free
        self._price = price
        self._in_usd = in_usd
        self._open: dict[str, list[tuple[Asks, Amount | None]]] = {}
        """The attempts of each call whose outcome is not known yet: target, and the most that each can have cost."""
        self._unpriced: dict[str, tuple[Asks, Reply]] = {}
        """Replies that were recorded without a price, and whose price has not followed yet."""

    def asked(self, key: str, target: Asks, most: Amount | None) -> None:
        if target not in self._free:
            self._open.setdefault(key, []).append((target, most))

    def failed(self, key: str, *, charged: bool) -> None:
        attempts = self._open.get(key)
        if attempts:
            last = attempts.pop()
            if charged:
                self._forfeit(key, last)

    def told(self, key: str, reply: Reply | None) -> None:
        attempts = self._open.pop(key, [])
        if attempts and reply is not None:  # without an attempt it was not asked for, but known from elsewhere
            target, most = attempts.pop()
            if reply.usage.approximate and most is not None:
                self._forfeit(key, (target, most))
            else:
                self.spent += amount_of(reply)
                if reply.cost is None:
                    self._price_now(key)  # the reply to an earlier attempt, which was made again
                    self._unpriced[key] = target, reply
        self._forfeit(key, *attempts)

    def priced(self, key: str, price: Cost) -> None:
        if self._unpriced.pop(key, None) is not None:
            self.spent += Amount(price.total)

    def _price_now(self, key: str) -> None:
        """Look up the price that a reply has now."""
        if key in self._unpriced and self._price is not None:
            self.spent += Amount(self._price(*self._unpriced.pop(key)).cost or 0.0)

    def taken_up(self) -> None:
        """The run was resumed: the outcome of calls that are open now stays unknown."""
        for key, attempts in self._open.items():
            self._forfeit(key, *attempts)
        self._open.clear()

    def close(self) -> None:
        """The journal ends here."""
        self.taken_up()
        for key in tuple(self._unpriced):
            self._price_now(key)

    def _forfeit(self, key: str, *attempts: tuple[Asks, Amount | None]) -> None:
        for _, most in attempts:
            if most is None or (self._in_usd and not most.usd):
                self.unknown[key] += 1
            else:
                self.spent += most
