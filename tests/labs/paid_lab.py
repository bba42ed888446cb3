"""What the tests of budgets and of the cache share: a server that keeps a till, and projects that ask it.

What the server says and charges depends on the words of a request alone, so every run of a suite comes to the same,
however often it is stopped and taken up again. Requests carry the journal's name for the call, so one that is made
twice is found.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

from rejoinder.testing import Answer, FakeServer, Fault, Received, is_judging, judge
from tests.kit import Raw, is_time, without

MODEL, JUDGE = "paid-large", "paid-judge"
PRICES = {
    MODEL: {"input": 3, "output": 15, "cached": 0.3},
    JUDGE: {"input": 1, "output": 5, "cached": 0.1, "cache_write": 1.25},
}
EMBEDDER = "text-embedding-3-small"
EMBEDDING_PRICE = 0.02
"""In the table of prices, which has no price for what such a model says."""


class Charge(NamedTuple):
    """What one call is charged for."""

    model: str
    input: int
    output: int = 0
    cached: int = 0
    written: int = 0

    @property
    def tokens(self) -> int:
        return self.input + self.output

    @property
    def usd(self) -> float:
        price = PRICES.get(self.model, {"input": EMBEDDING_PRICE, "output": 0})
        fresh = self.input - self.cached - self.written
        rates = (price["input"], price["output"], price.get("cached", 0), price.get("cache_write", 0))
        return (
            sum(n * rate for n, rate in zip((fresh, self.output, self.cached, self.written), rates, strict=True)) / 1e6
        )


class PaidServer:
    """A model, its judge and embeddings behind one address, as dear as a text of so many bytes can be."""

    def __init__(self, seed: int = 0, **options: Any) -> None:
        self.seed = seed
        self.charges: list[Charge] = []
        self.fault: Any = lambda _request, _number: None
        """What goes wrong with a request instead, by its number."""
        self._number = 0
        self.fake = FakeServer(self._reply, embed=self._embed, **options)

    def __enter__(self) -> PaidServer:
        self.fake.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.fake.stop()

    @property
    def tokens(self) -> int:
        return sum(one.tokens for one in self.charges)

    @property
    def usd(self) -> float:
        return sum(one.usd for one in self.charges)

    @property
    def keys(self) -> list[str]:
        """The journal's names of the calls that arrived, in their order."""
        return [request.headers["x-client-request-id"] for request in self.fake.requests]

    def forget(self) -> None:
        self.fake.reset()
        self.charges.clear()

    def _reply(self, request: Received) -> Answer | Fault:
        self._number += 1
        fault = self.fault(request, self._number)
        charge, text = self._word(request)
        if fault is None or fault.kind not in ("status", "reset_before_headers"):
            self.charges.append(charge)  # whether it arrives is not the server's concern
        if fault is not None:
            return fault
        return Answer(
            text,
            input_tokens=charge.input,
            output_tokens=charge.output,
            cached_tokens=charge.cached,
            cache_write_tokens=charge.written,
        )

    def _word(self, request: Received) -> tuple[Charge, str]:
        chance = Random(zlib.crc32(request.raw) + self.seed)
        body = request.body
        most = body.get("max_completion_tokens") or body.get("max_tokens")
        given = chance.choice((1, chance.uniform(0, 1))) * sum(len(text.encode()) + 8 for text in texts_of(body))
        cached = chance.choice((0, int(given * chance.random())))
        written = chance.choice((0, int((given - cached) * chance.random()))) if request.api == "anthropic" else 0
        made = chance.choice((most, chance.randint(1, most)))
        charge = Charge(body["model"], int(given), made, cached, written)
        if is_judging(request):
            return charge, judge(chance.choice((0.0, 1.0))).text
        return charge, f"{chance.choice(('right', 'wrong', 'wrong'))} {chance.randrange(10**9)}"

    def _embed(self, text: str) -> list[float]:
        chance = Random(zlib.crc32(text.encode()))
        # The server counts words; it is charged by them, too.
        self.charges.append(Charge(EMBEDDER, len(text.split())))
        return [chance.uniform(-1, 1) for _ in range(8)]


def texts_of(value: Any) -> Iterator[str]:
    """Every text that a model is given."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key not in ("model", "role", "type"):
                yield from texts_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts_of(inner)


# What is asked


def make_targets(url: str, **more: Any) -> list[Raw]:
    return [
        {"name": "it", "provider": "openai", "model": MODEL, "base_url": f"{url}/v1", "max_tokens": 60, **more},
        {"name": "judge", "provider": "anthropic", "model": JUDGE, "base_url": url, "max_tokens": 40, **more},
        {"name": "meaning", "provider": "openai", "model": EMBEDDER, "base_url": f"{url}/v1", **more},
    ]


def make_case(case_id: str, *checks: Raw) -> Raw:
    right = list(checks) or [{"contains": "right"}]
    again = {"prompt": f"Try {case_id} again: {{{{ response }}}}", "checks": right}
    return {"id": case_id, "prompt": f"What is the word of {case_id}? Ünïcödé: 語", "checks": [*right, again]}


def make_suite(url: str, cases: int = 6, *, embeds: bool = False, **more: Any) -> Raw:
    """Each reply is checked and judged; a wrong one is answered back."""
    checks: list[Raw] = [{"contains": "right"}, {"llm_judge": {"criteria": "Is it right?", "votes": 2}}]
    if embeds:
        checks.append({"semantic": {"expected": "right", "threshold": 0}})
    return {
        "targets": make_targets(url, **more),
        "target": "it",
        "execution": {"judge_target": "judge"},
        "embedding_target": "meaning",
        "evals": [make_case(f"case-{number:02}", *checks) for number in range(cases)],
    }


# What a run leaves


def comparable(document: Raw) -> Raw:
    """What two runs of a suite have in common when they come to the same: all but names, times and what was spent."""
    plain = without(document, lambda key: key in ("cached", "request_id") or is_time(key))
    plain["run"] = {name: value for name, value in plain["run"].items() if name not in _OF_THE_RUN}
    plain["summary"].pop("limits", None)
    return plain


_OF_THE_RUN = ("id", "folder", "suites", "in_doubt", "options", "from_cache", "budget", "limits", "calls")


def came_to(document: Raw) -> Raw:
    """What a run came to, wherever its answers came from."""
    plain = comparable(document)
    return {"results": plain["results"], "summary": plain["summary"]}
