"""The limiter: alone, in an event loop whose time is simulated; and in storms of real runs against a real server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.providers.allowances import Sent, retry_after
from rejoinder.providers.limits import Limiter
from rejoinder.providers.pace import BELOW
from rejoinder.testing import FakeServer, Fault, Received
from tests.kit import Project, Raw, bounded, run
from tests.labs.storm_lab import (
    CASES,
    PER_SECOND,
    Aftermath,
    Bucket,
    Gate,
    SimulatedLoop,
    Storm,
    Window,
    play,
    rage,
    simulate,
)

BACK_OFF = (1.0, 60.0)
"""The first and the longest pause, as they are by default."""
NOTHING_LEFT = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "30s"}


class Lab:
    """A limiter in a time that is simulated, and the calls that want to pass it."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.limiter = Limiter("lab", clock=loop.time)
        self.inside: list[tuple[str, float]] = []
        """Who was let in, and when."""
        self.tickets: dict[str, int] = {}
        self._loop = loop
        self._began = loop.time()

    @property
    def now(self) -> float:
        return self._loop.time() - self._began

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.inside]

    def when(self, name: str) -> float:
        return dict(self.inside)[name]

    def call(self, name: str, *, again: bool = False) -> asyncio.Task[None]:
        async def enter() -> None:
            self.tickets[name] = await self.limiter.enter(again=again)
            self.inside.append((name, self.now))

        return self._loop.create_task(enter())

    async def calls(self, *names: str) -> None:
        """Those of them that may go in at once are in."""
        for name in names:
            self.call(name)
        await settle()

    def refuse(self, *names: str, pressure: str = "rate", retry_after_s: float | None = None) -> None:
        for name in names:
            self.limiter.refused(self.tickets[name], pressure, retry_after_s, BACK_OFF)

    def answer(self, count: int = 1, tokens: int = 100) -> None:
        for _ in range(count):
            self.limiter.leave(tokens=tokens)

    def read(self, headers: Mapping[str, str], sent: Sent | None = None, *, failed: bool = False) -> None:
        self.limiter.read(headers, sent or self.limiter.sending(), failed=failed)

    async def cut(self, passed: int, refused: int) -> None:
        """The opening: so many pass and so many are refused, all at once."""
        names = [f"opening {number}" for number in range(passed + refused)]
        await self.calls(*names)
        self.refuse(*names[passed:])
        self.answer(passed)


async def settle() -> None:
    """Let every task do what can be done now."""
    for _ in range(5):
        await asyncio.sleep(0)


def in_lab(work: Callable[[Lab], Awaitable[None]]) -> Lab:
    async def main(loop: SimulatedLoop) -> Lab:
        lab = Lab(loop)
        await work(lab)
        waiting = asyncio.all_tasks(loop) - {asyncio.current_task(loop)}
        for task in waiting:  # else they would complain in another test, when they are collected
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        return lab

    return simulate(main)


def numbered(count: int) -> list[str]:
    return [f"call {number}" for number in range(count)]


# Open


def test_it_starts_open() -> None:
    async def work(lab: Lab) -> None:
        await lab.calls(*numbered(1000))

    lab = in_lab(work)
    assert lab.inside == [(name, 0.0) for name in numbered(1000)]
    report = lab.limiter.report()
    assert (report.refused, report.waited_s, report.rate, report.window) == (0, 0, None, None)


def test_answers_that_say_nothing_leave_it_open() -> None:
    async def work(lab: Lab) -> None:
        await lab.calls("first")
        lab.read({"content-type": "application/json", "x-ratelimit-limit-requests": "500"})
        lab.answer()
        await lab.calls(*numbered(100))

    assert len(in_lab(work).inside) == 101


# Headers


def in_seconds(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def whole_date(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).replace(microsecond=0).isoformat().replace("+00:00", "Z")


def openai(left: int, reset: str) -> dict[str, str]:
    return {"x-ratelimit-remaining-requests": str(left), "x-ratelimit-reset-requests": reset}


def anthropic(left: int, reset: str) -> dict[str, str]:
    return {"anthropic-ratelimit-requests-remaining": str(left), "anthropic-ratelimit-requests-reset": reset}


def ietf(left: int, reset: str) -> dict[str, str]:
    return {"ratelimit-remaining": str(left), "ratelimit-reset": reset}


def common(left: int, reset: str) -> dict[str, str]:
    return {"x-ratelimit-remaining": str(left), "x-ratelimit-reset": reset}


RESETS: dict[str, tuple[Callable[[int, str], dict[str, str]], Callable[[], str], float, float]] = {
    "openai 1s": (openai, lambda: "1s", 1.0, 1.0),
    "openai 120ms": (openai, lambda: "120ms", 0.12, 0.12),
    "openai 1.5s": (openai, lambda: "1.5s", 1.5, 1.5),
    "openai 0m9.5s": (openai, lambda: "0m9.5s", 9.5, 9.5),
    "openai 6m0s, of which a minute is believed": (openai, lambda: "6m0s", 60.0, 60.0),
    "openai 1h0m0s": (openai, lambda: "1h0m0s", 60.0, 60.0),
    "anthropic": (anthropic, lambda: in_seconds(30), 29.0, 30.0),
    "anthropic, a whole date": (anthropic, lambda: whole_date(30), 28.0, 30.0),
    "anthropic, tomorrow": (anthropic, lambda: in_seconds(86_400), 60.0, 60.0),
    "ietf": (ietf, lambda: "30", 30.0, 30.0),
    "ietf, with a fraction": (ietf, lambda: "2.5", 2.5, 2.5),
    "common, seconds": (common, lambda: "7", 7.0, 7.0),
    "common, a date in seconds": (common, lambda: str(int(time.time()) + 30), 28.0, 31.0),
    "common, a date in milliseconds": (common, lambda: str(int(time.time() * 1000) + 30_000), 29.0, 30.1),
}


@pytest.mark.parametrize("name", RESETS)
def test_no_more_is_sent_than_what_is_left(name: str) -> None:
    family, reset, earliest, latest = RESETS[name]

    async def work(lab: Lab) -> None:
        await lab.calls("first")
        lab.read(family(2, reset()))
        lab.answer()
        await lab.calls("a", "b", "c", "d")
        assert lab.names == ["first", "a", "b"]
        await asyncio.sleep(100)

    lab = in_lab(work)
    assert lab.names == ["first", "a", "b", "c", "d"]
    assert earliest - 0.01 <= lab.when("c") <= latest + 0.01
    assert lab.limiter.report().rate is None


@pytest.mark.parametrize("headers", [anthropic(0, whole_date(2)), ietf(0, "2")])
def test_whole_seconds_say_too_little_about_the_next_two(headers: dict[str, str]) -> None:
    async def work(lab: Lab) -> None:
        await lab.calls("first")
        lab.read(headers)
        lab.answer()
        await lab.calls("second")

    lab = in_lab(work)
    assert lab.inside == [("first", 0.0), ("second", 0.0)]
    [(left, _)] = lab.limiter.left().values()
    assert left == 0


def test_calls_under_way_count_against_what_is_left() -> None:
    async def work(lab: Lab) -> None:
        await lab.calls(*numbered(10))
        sent = [lab.limiter.sending() for _ in range(10)]
        lab.read(openai(12, "30s"), sent[0])  # the other nine come off it
        lab.answer()
        await lab.calls("a", "b", "c", "d")
        assert lab.names[10:] == ["a", "b", "c"]
        await asyncio.sleep(30)
        assert lab.names[10:] == ["a", "b", "c", "d"]

    in_lab(work)


def test_the_call_that_was_counted_last_is_believed() -> None:
    """Calls that go out together arrive in any order, and so do their answers."""

    async def work(lab: Lab) -> None:
        await lab.calls("first", "second")
        early, late = lab.limiter.sending(), lab.limiter.sending()
        lab.read(openai(0, "30s"), early)
        lab.read(openai(1, "30s"), late)
        lab.answer(2)
        await lab.calls("third")
        assert "third" not in lab.names
        await asyncio.sleep(30)
        assert "third" in lab.names

    in_lab(work)


def test_later_news_replace_earlier_ones() -> None:
    async def work(lab: Lab) -> None:
        await lab.calls("first")
        lab.read(openai(1, "30s"))
        await asyncio.sleep(1)
        lab.read(openai(500, "30s"))
        lab.answer()
        await lab.calls(*numbered(400))

    assert len(in_lab(work).inside) == 401


def test_an_answer_that_took_long_tells_old_news() -> None:
    """What was left for the next two seconds is of no use when the answer comes ten seconds later."""

    async def work(lab: Lab) -> None:
        await lab.calls("first")
        sent = lab.limiter.sending()
        await asyncio.sleep(10)
        lab.read(openai(0, "2s"), sent)
        lab.answer()
        await lab.calls("second")

    lab = in_lab(work)
    assert lab.when("second") == 10


def test_tokens_that_are_left() -> None:
    async def work(lab: Lab) -> None:
        await lab.calls("first")
        lab.read({"x-ratelimit-remaining-tokens": "250", "x-ratelimit-reset-tokens": "20s"})
        lab.answer(tokens=100)
        await lab.calls("a", "b", "c")
        assert lab.names == ["first", "a", "b"]
        await asyncio.sleep(20)

    lab = in_lab(work)
    assert lab.when("c") == pytest.approx(20)


def test_whichever_allowance_is_smaller_holds() -> None:
    async def work(lab: Lab) -> None:
        await lab.calls("first")
        tokens = {"anthropic-ratelimit-tokens-remaining": "100000", "anthropic-ratelimit-tokens-reset": in_seconds(50)}
        lab.read({**anthropic(1, in_seconds(20)), **tokens})
        lab.answer(tokens=1000)
        await lab.calls("a", "b")
        assert lab.names == ["first", "a"]
        await asyncio.sleep(25)
        assert lab.names == ["first", "a", "b"]
        assert [left for left, _ in lab.limiter.left().values()] == [1, 100_000]

    in_lab(work)


RUBBISH = (
    "nan",
    "inf",
    "-inf",
    "-1",
    "",
    "soon",
    "1e400",
    "0x10",
    "1s2",
    "s",
    "ms5",
    "2024-13-45T00:00:00Z",
    "9" * 400,
)
NUMBERS = st.sampled_from(RUBBISH) | st.text(max_size=12) | st.floats().map(str) | st.integers().map(str)
RESET_NAMES = [
    "x-ratelimit-reset-requests",
    "anthropic-ratelimit-requests-reset",
    "ratelimit-reset",
    "x-ratelimit-reset",
    "x-ratelimit-reset-tokens",
]
LEFT_NAMES = [
    "x-ratelimit-remaining-requests",
    "anthropic-ratelimit-requests-remaining",
    "ratelimit-remaining",
    "x-ratelimit-remaining",
    "x-ratelimit-remaining-tokens",
]


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from(LEFT_NAMES + RESET_NAMES + ["retry-after", "retry-after-ms"]), NUMBERS))
@bounded(300)
def test_no_headers_stop_it_for_longer_than_a_minute(headers: dict[str, str]) -> None:
    pause = retry_after(headers)
    assert pause is None or 0 <= pause < float("inf")

    async def work(lab: Lab) -> None:
        await lab.calls("first")
        lab.read(headers)
        lab.answer()
        await lab.calls("second")
        await asyncio.sleep(60.01)

    lab = in_lab(work)
    assert lab.names == ["first", "second"]


@pytest.mark.parametrize("rubbish", RUBBISH)
def test_rubbish_does_no_harm(rubbish: str) -> None:
    async def work(lab: Lab) -> None:
        await lab.calls("first")
        for family in (openai, anthropic, ietf, common):
            lab.read(dict.fromkeys(family(0, ""), rubbish))
            lab.read({name: value or rubbish for name, value in family(7, "").items()})
            names = list(family(0, ""))
            lab.read({names[0]: rubbish, names[1]: "50"})
        lab.answer()
        await lab.calls("second")

    assert in_lab(work).when("second") == 0


# Retry-After


def http_date(seconds: float) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


@pytest.mark.parametrize(
    ("headers", "least", "most"),
    [
        ({"retry-after": "7"}, 7, 7),
        ({"retry-after": "0.25"}, 0.25, 0.25),
        ({"retry-after": "0"}, 0, 0),
        ({"retry-after": "-3"}, 0, 0),
        ({"retry-after-ms": "1500"}, 1.5, 1.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9, 9),
        ({"retry-after": http_date(90_000)}, 60, 90_000),
        ({"retry-after": http_date(-90)}, 0, 0),
    ],
)
def test_how_long_to_wait(headers: dict[str, str], least: float, most: float) -> None:
    pause = retry_after(headers)
    assert pause is not None
    assert least <= pause <= most


@pytest.mark.parametrize("headers", [{}, *({"retry-after": text} for text in ("", "soon", "nan", "inf", "Mon, 99"))])
def test_nothing_is_said_about_how_long_to_wait(headers: dict[str, str]) -> None:
    assert retry_after(headers) is None


@pytest.mark.parametrize("pressure", ["rate", "overload"])
def test_a_pause_holds_for_all_calls(pressure: str) -> None:
    async def work(lab: Lab) -> None:
        await lab.calls(*numbered(10))
        lab.refuse("call 0", pressure=pressure, retry_after_s=7)
        lab.call("call 0 again", again=True)
        await lab.calls("eleventh")
        await asyncio.sleep(1)
        lab.answer(9)
        await lab.calls("twelfth")
        await asyncio.sleep(60)

    lab = in_lab(work)
    assert lab.names[10:] == ["call 0 again", "eleventh", "twelfth"]
    assert lab.when("call 0 again") == pytest.approx(7)


def test_the_longest_of_several_pauses_holds() -> None:
    async def work(lab: Lab) -> None:
        await lab.calls(*numbered(4))
        lab.refuse("call 0", retry_after_s=2)
        lab.refuse("call 1", retry_after_s=11)
        lab.refuse("call 2", retry_after_s=5)
        await lab.calls("next")
        await asyncio.sleep(20)

    assert in_lab(work).when("next") == pytest.approx(11)


def test_who_obeys_and_is_refused_again_waits_longer_than_it_was_told() -> None:
    async def work(lab: Lab) -> None:
        lab.call("try 0")
        for number in range(8):
            while f"try {number}" not in lab.names:
                await asyncio.sleep(0.1)
            lab.refuse(f"try {number}", retry_after_s=1)
            lab.call(f"try {number + 1}", again=True)
        await asyncio.sleep(200)

    moments = [moment for _, moment in in_lab(work).inside]
    assert 1 <= moments[1] - moments[0] < 2
    assert moments[8] - moments[7] >= 60


# Too often


def test_a_wave_of_refusals_cuts_once() -> None:
    """Of 400 calls that went out at once, 40 passed: a little less than 40 a second is asked for from then on."""

    async def work(lab: Lab) -> None:
        await lab.cut(passed=40, refused=360)

    lab = in_lab(work)
    report = lab.limiter.report()
    assert report.rate == pytest.approx(40 * BELOW)
    assert (report.refused, report.window) == (360, None)


def test_what_passed_counts_although_it_is_not_answered_yet() -> None:
    """A model thinks for seconds, and a refusal comes at once."""

    async def work(lab: Lab) -> None:
        names = numbered(60)
        await lab.calls(*names)
        lab.refuse(*names[40:])
        assert lab.limiter.report().rate == pytest.approx(40 * BELOW)
        await asyncio.sleep(10)
        lab.answer(40)
        assert lab.limiter.report().rate == pytest.approx(40 * BELOW)

    in_lab(work)


def test_late_refusals_of_a_wave_belong_to_it() -> None:
    async def work(lab: Lab) -> None:
        names = numbered(60)
        await lab.calls(*names)
        lab.refuse(*names[50:])
        assert lab.limiter.report().rate == pytest.approx(50 * BELOW)
        await asyncio.sleep(3)
        await lab.calls("next")
        lab.refuse(*names[40:50])
        assert lab.limiter.report().rate == pytest.approx(40 * BELOW)

    in_lab(work)


def test_after_a_cut_calls_go_out_one_by_one() -> None:
    async def work(lab: Lab) -> None:
        await lab.cut(passed=10, refused=10)
        lab.inside.clear()
        await lab.calls(*numbered(27))
        await asyncio.sleep(10)

    lab = in_lab(work)
    moments = [moment for _, moment in lab.inside]
    assert len(moments) == 27
    assert 1 <= moments[0] <= 1.1
    # No call is answered, so the rate does not grow.
    steps = [later - earlier for earlier, later in pairwise(moments)]
    assert min(steps[1:]) == pytest.approx(1 / (10 * BELOW))
    assert max(steps) == pytest.approx(1 / (10 * BELOW))


@pytest.mark.slow
def test_the_rate_grows_while_calls_wait_for_it() -> None:
    async def work(lab: Lab) -> None:
        await lab.cut(passed=10, refused=10)
        for number in range(2000):
            lab.call(f"call {number}")
        await asyncio.sleep(1.3)
        rates = [lab.limiter.report().rate or 0]
        for _ in range(60):
            before = len(lab.inside)
            await asyncio.sleep(1)
            lab.answer(len(lab.inside) - before)
            rates.append(lab.limiter.report().rate or 0)
        assert rates == sorted(rates)
        reached = next(second for second, rate in enumerate(rates) if rate > 10)
        # Slowly where the limit was, fast when it is left behind.
        assert rates[reached] - rates[reached - 1] < 0.1
        assert rates[-1] > 15

    in_lab(work)


def test_an_unused_rate_does_not_grow() -> None:
    async def work(lab: Lab) -> None:
        await lab.cut(passed=10, refused=10)
        await asyncio.sleep(5)
        for number in range(20):
            await lab.calls(f"call {number}")
            lab.answer()
            await asyncio.sleep(1)
        assert lab.limiter.report().rate == pytest.approx(10 * BELOW)

    in_lab(work)


def test_a_short_stretch_halves_the_rate_at_most() -> None:
    async def work(lab: Lab) -> None:
        await lab.cut(passed=40, refused=40)
        await lab.calls(*numbered(4))
        await asyncio.sleep(1.4)
        assert len(lab.inside) == 84
        lab.refuse("call 3")
        assert lab.limiter.report().rate == pytest.approx(BELOW * 40 * BELOW / 2, abs=0.01)

    in_lab(work)


def test_one_refusal_too_many_costs_little_time() -> None:
    """Where the rate is known, the next call waits for a few beats and not for a second."""

    async def work(lab: Lab) -> None:
        await lab.cut(passed=40, refused=40)
        await lab.calls(*numbered(36))
        await asyncio.sleep(4)
        refused_at = lab.now
        lab.refuse("call 35")
        await lab.calls("next")
        await asyncio.sleep(1)
        assert lab.when("next") - refused_at < 0.2

    in_lab(work)


def test_where_headers_say_when_nothing_is_guessed() -> None:
    async def work(lab: Lab) -> None:
        await lab.calls("first", "second")
        lab.read(openai(0, "250ms"))
        lab.refuse("second")
        await lab.calls("next")
        await asyncio.sleep(5)

    assert in_lab(work).when("next") == pytest.approx(0.25)


def test_where_a_rate_is_known_headers_do_not_stop_the_next_seconds() -> None:
    async def work(lab: Lab) -> None:
        await lab.cut(passed=40, refused=40)
        await asyncio.sleep(2)
        await lab.calls("first")
        lab.read(openai(0, "1s"))
        lab.answer()
        await asyncio.sleep(0.1)
        await lab.calls("second")
        lab.read(openai(0, "30s"))
        lab.answer()
        await asyncio.sleep(0.1)
        await lab.calls("third")
        await asyncio.sleep(60)

    lab = in_lab(work)
    assert lab.when("second") - lab.when("first") == pytest.approx(0.1)
    assert lab.when("third") - lab.when("second") == pytest.approx(30)


def test_a_refusal_is_believed_even_there() -> None:
    async def work(lab: Lab) -> None:
        await lab.cut(passed=40, refused=40)
        await asyncio.sleep(5)
        await lab.calls("first")
        sent = lab.limiter.sending()
        await asyncio.sleep(0.5)  # it takes so long to connect
        lab.read(openai(0, "700ms"), sent, failed=True)
        lab.refuse("first")
        await lab.calls("second")
        await asyncio.sleep(60)

    lab = in_lab(work)
    assert lab.when("second") == pytest.approx(5 + 0.5 + 0.7)


# Too much at once


def test_an_overload_shrinks_the_window() -> None:
    async def work(lab: Lab) -> None:
        await lab.calls(*numbered(10))
        lab.refuse("call 9", pressure="overload")
        assert lab.limiter.report().window == 7
        assert lab.limiter.report().rate is None
        await lab.calls("a", "b", "c")
        await asyncio.sleep(100)
        assert len(lab.inside) == 10  # nine are under way
        lab.answer(2)
        await settle()
        assert len(lab.inside) == 10
        lab.answer()
        await settle()
        assert lab.names[10:] == ["a"]
        lab.answer()
        await settle()
        assert lab.names[10:] == ["a", "b"]

    in_lab(work)


def test_no_more_at_once_than_what_was_borne() -> None:
    async def work(lab: Lab) -> None:
        names = numbered(50)
        await lab.calls(*names)
        lab.refuse(*names[10:], pressure="overload")
        assert lab.limiter.report().window == 10

    in_lab(work)


def test_the_window_grows_by_one_a_round() -> None:
    async def work(lab: Lab) -> None:
        await lab.calls(*numbered(10))
        lab.refuse("call 9", pressure="overload")
        for number in range(100):
            lab.call(f"waits {number}")
        await asyncio.sleep(2)
        lab.answer(2)
        await settle()
        windows: list[int | None] = []
        for _ in range(4):
            under_way = lab.limiter.report().window
            assert under_way is not None
            lab.answer(under_way)
            await settle()
            windows.append(lab.limiter.report().window)
        assert windows == [8, 9, 10, 11]

    in_lab(work)


def test_the_next_overload_needs_no_pause() -> None:
    """Some of those under way have to come back first, which is pause enough."""

    async def work(lab: Lab) -> None:
        await lab.calls(*numbered(10))
        lab.refuse("call 9", pressure="overload")
        await asyncio.sleep(10)
        lab.limiter.leave()
        lab.limiter.leave()
        lab.limiter.leave()
        lab.call("seventh")
        await settle()
        lab.refuse("seventh", pressure="overload")
        assert lab.limiter.report().window == 4
        for _ in range(3):
            lab.limiter.leave()
        await lab.calls("fourth")

    lab = in_lab(work)
    assert lab.when("seventh") == lab.when("fourth") == 10


def test_the_window_never_closes() -> None:
    async def work(lab: Lab) -> None:
        await lab.calls("a 0", "b 0")
        for number in range(5):
            lab.refuse(f"b {number}", pressure="overload")
            assert lab.limiter.report().window == 1
            lab.answer()
            lab.call(f"a {number + 1}")
            await asyncio.sleep(100)
            assert f"a {number + 1}" in lab.names
            lab.limiter._pace.window = 2.0  # as if it had grown
            lab.call(f"b {number + 1}")
            await asyncio.sleep(100)

    in_lab(work)


# Nothing gets through


@pytest.mark.parametrize("pressure", ["rate", "overload"])
def test_a_lock_out_is_waited_out_in_longer_and_longer_pauses(pressure: str) -> None:
    async def work(lab: Lab) -> None:
        names = numbered(20)
        await lab.calls(*names)
        lab.refuse(*names, pressure=pressure)
        for name in names:
            lab.call(f"{name} again", again=True)
        for number in range(7):
            while len(lab.inside) < 21 + number:
                await asyncio.sleep(0.1)
            assert len(lab.inside) == 21 + number  # one goes ahead, the others wait for what it meets
            name, _ = lab.inside[-1]
            lab.refuse(name, pressure=pressure)
            lab.call(f"{name} again", again=True)

    lab = in_lab(work)
    moments = [0.0, *(moment for _, moment in lab.inside[20:])]
    pauses = [later - earlier for earlier, later in pairwise(moments)]
    for pause, least in zip(pauses, (1, 2, 4, 8, 16, 32, 60), strict=True):
        assert least <= pause <= min(least * 1.1, 60) + 0.2
    report = lab.limiter.report()
    assert (report.rate, report.window) == (None, None)


def test_a_lock_out_does_not_cut_the_rate() -> None:
    async def work(lab: Lab) -> None:
        await lab.cut(passed=40, refused=40)
        for number in range(3):
            lab.call(f"try {number}")
            await asyncio.sleep(10)
            lab.refuse(f"try {number}")
            assert lab.limiter.report().rate == pytest.approx(40 * BELOW)

    in_lab(work)


def test_the_time_of_a_lock_out_counts_when_the_rate_is_worked_out() -> None:
    """A minute's worth passes at once; who asks again learns the minute from how long nothing else does."""

    async def work(lab: Lab) -> None:
        await lab.cut(passed=120, refused=20)
        lab.call("try 0")
        attempt = 0
        while lab.now < 60:
            await asyncio.sleep(0.1)
            if f"try {attempt}" in lab.names:
                lab.refuse(f"try {attempt}")
                attempt += 1
                lab.call(f"try {attempt}", again=True)
        assert attempt < 9
        before = len(lab.inside)
        for name in numbered(130):
            lab.call(name)
        while len(lab.inside) < before + 121:
            await asyncio.sleep(0.1)
        lab.refuse(lab.inside[-1][0])
        assert 1 < (lab.limiter.report().rate or 0) < 2

    in_lab(work)


def test_after_a_lock_out_one_call_goes_ahead() -> None:
    async def work(lab: Lab) -> None:
        await lab.calls(*numbered(20))
        lab.refuse(*numbered(20))
        for name in numbered(20):
            lab.call(f"{name} again", again=True)
        await asyncio.sleep(1.3)
        assert len(lab.inside) == 21
        await asyncio.sleep(0.5)
        assert len(lab.inside) == 40

    in_lab(work)


def test_a_trial_that_was_refused_is_over() -> None:
    """Where pauses are short, no call waits for longer than they last."""

    async def work(lab: Lab) -> None:
        for number in range(5):
            await lab.call(f"try {number}")
            lab.limiter.refused(lab.tickets[f"try {number}"], "rate", None, (0.001, 0.02))
        await lab.call("last")

    assert in_lab(work).when("last") < 0.1


# Order, and those who go away


def test_who_was_refused_goes_before_those_who_wait() -> None:
    async def work(lab: Lab) -> None:
        await lab.calls("a", "b", "c")
        for name in ("later 0", "later 1"):
            lab.read(NOTHING_LEFT)
            lab.call(name)
        await settle()
        for name in ("b", "a", "c"):
            lab.refuse(name, retry_after_s=1)
            lab.call(f"{name} again", again=True)
        lab.call("later 2")
        await asyncio.sleep(600)

    assert in_lab(work).names[3:] == ["b again", "a again", "c again", "later 0", "later 1", "later 2"]


def test_a_cancelled_wait_takes_no_place_from_other_calls() -> None:
    async def work(lab: Lab) -> None:
        await lab.calls("first", "second")
        lab.refuse("second", pressure="overload")  # one at a time from now on
        waiting = [lab.call(name) for name in ("a", "b", "c", "d")]
        await asyncio.sleep(5)
        waiting[0].cancel()
        waiting[2].cancel()
        await settle()
        lab.limiter.leave()
        await settle()
        assert lab.names == ["first", "second", "b"]
        lab.limiter.leave()
        await settle()
        assert lab.names == ["first", "second", "b", "d"]

    in_lab(work)


def test_who_goes_away_when_it_is_let_in_gives_its_place_back() -> None:
    async def work(lab: Lab) -> None:
        await lab.calls("first", "second")
        lab.refuse("second", pressure="overload")
        gone = lab.call("gone")
        lab.call("next")
        await asyncio.sleep(5)
        lab.limiter.leave()  # lets `gone` in, who has not noticed yet
        gone.cancel()
        await settle()
        assert lab.names == ["first", "second", "next"]
        assert gone.cancelled()

    in_lab(work)


def test_who_goes_away_when_it_is_let_in_proves_nothing() -> None:
    async def work(lab: Lab) -> None:
        await lab.calls("first")
        lab.read(NOTHING_LEFT)
        lab.answer()
        tasks = [lab.call(name) for name in numbered(40)]
        await asyncio.sleep(1)
        lab.limiter._allowances.by_kind.clear()
        lab.limiter._pump()  # lets all of them in, who have not noticed yet
        for task in tasks[20:]:
            task.cancel()
        await settle()
        assert len(lab.inside) == 21
        lab.refuse(*numbered(20)[:10])
        assert lab.limiter.report().rate == pytest.approx(BELOW * 11)

    in_lab(work)


OUTCOMES = st.sampled_from(["answer", "fail", "rate", "overload", "told to wait", "cancel"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("enter"), st.booleans()),
        st.tuples(OUTCOMES, st.integers(0, 1000)),
        st.tuples(st.just("sleep"), st.floats(0, 5)),
        st.tuples(st.just("headers"), st.integers(0, 3)),
    ),
    max_size=60,
)


@pytest.mark.slow
@given(STEPS)
@bounded(200)
def test_every_call_gets_a_place_and_every_place_is_given_back(steps: list[tuple[str, Any]]) -> None:
    async def work(lab: Lab) -> None:
        limiter, tasks, gone = lab.limiter, dict[str, asyncio.Task[None]](), set[str]()

        def inside() -> list[str]:
            return [name for name in lab.names if name not in gone]

        for number, (what, value) in enumerate(steps):
            if what == "enter":
                tasks[f"call {number}"] = lab.call(f"call {number}", again=value)
            elif what == "sleep":
                await asyncio.sleep(value)
            elif what == "headers":
                lab.read(openai(value, "10s"))
            elif what == "cancel":
                waiting = [name for name, task in tasks.items() if not task.done()]
                if waiting:
                    tasks[waiting[value % len(waiting)]].cancel()
            elif inside():
                name = inside()[value % len(inside())]
                gone.add(name)
                if what == "answer":
                    limiter.leave(tokens=value)
                elif what == "fail":
                    limiter.leave()
                else:
                    pressure = "overload" if what == "overload" else "rate"
                    limiter.refused(lab.tickets[name], pressure, 3.0 if what == "told to wait" else None, BACK_OFF)
            await settle()
            assert limiter._pace.in_flight == len(inside())
        for _ in range(len(tasks) + 1):  # one at a time is enough, and a lock-out lasts a minute at most
            if inside():
                gone.add(inside()[0])
                limiter.leave(tokens=100)
            await asyncio.sleep(100)
        assert all(task.done() for task in tasks.values())
        for name in inside():
            gone.add(name)
            limiter.leave()
        assert limiter._pace.in_flight == 0

    in_lab(work)


# In a run


def suite_of(server: FakeServer, targets: list[Raw], cases: int = 3) -> Raw:
    common = {"provider": "openai", "model": "some-model", "base_url": server.openai_url, "retry_initial_delay_ms": 1}
    return {
        "targets": [{**common, **target} for target in targets],
        "evals": [{"id": f"c{number}", "prompt": "?", "checks": [{"match": "*"}]} for number in range(cases)],
    }


def refuse_each_key_once() -> Callable[[Received], str | Fault]:
    known: set[str] = set()

    def reply(request: Received) -> str | Fault:
        key = request.headers["authorization"]
        if key in known:
            return "OK"
        known.add(key)
        return Fault("status", status=429, retry_after=0)

    return reply


def test_targets_with_one_key_share_a_limiter(project: Project) -> None:
    with FakeServer(refuse_each_key_once()) as server:
        targets = [{"name": "a", "api_key": "one"}, {"name": "b", "api_key": "one", "model": "another"}]
        document = run(project, suite_of(server, targets), "--target", "a", "--target", "b", code=0)
        asked = {request.body["model"] for request in server.requests}
    assert asked == {"some-model", "another"}
    assert [(one["requests"], one["refused"]) for one in document["run"]["limits"]] == [(7, 1)]


def test_targets_with_different_keys_do_not(project: Project) -> None:
    with FakeServer(refuse_each_key_once()) as server:
        targets = [{"name": "a", "api_key": "one"}, {"name": "b", "api_key": "two"}]
        document = run(project, suite_of(server, targets), "--target", "a", "--target", "b", code=0)
    assert [(one["requests"], one["refused"]) for one in document["run"]["limits"]] == [(4, 1), (4, 1)]


def test_another_target_with_the_key_waits_as_well(project: Project) -> None:
    """The first request is refused; with one conversation at a time, the next is another target's."""
    with FakeServer(faults=[Fault("status", status=429, retry_after=0.5)]) as server:
        targets = [{"name": "a", "api_key": "one", "max_retries": 0}, {"name": "b", "api_key": "one"}]
        suite = suite_of(server, targets, cases=1)
        project.write("evals.yaml", suite)
        project.run("run", "evals.yaml", "--target", "a", "--target", "b", "--workers", "1", code=None)
        refused, answered = server.requests
    assert answered.at - refused.at >= 0.5


def test_a_run_without_limits_tells_none(project: Project) -> None:
    with FakeServer() as server:
        document = run(project, suite_of(server, [{"name": "a", "api_key": "one"}]), "--target", "a", code=0)
    assert document["run"]["limits"] == []
    assert document["summary"]["limits"] == []


# Storms


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "calls", "ideal_s"),
    [
        (Window(120, 60), 1200, 540),
        (Bucket(120, 2), 1200, 540),
        (Window(10, 60), 100, 540),
        (Bucket(1, 2), 600, 300),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_limits_of_a_minute_are_learnt_without_a_word(
    limit: Window | Bucket, calls: int, ideal_s: float, seed: int
) -> None:
    """Neither hammered nor slept through. The seconds are simulated, so they can be relied on."""
    course = play(Gate(limit).lets_through, calls, workers=100, latency_s=1.5, seed=seed)
    assert sum(passed for _, passed in course.requests) == calls
    assert course.seconds < 2 * ideal_s
    assert course.refused_share(after_s=120) < 0.1


STORMS = (
    Storm("bucket", workers=400),
    Storm("window", workers=50),
    Storm("window", "anthropic", workers=400, latency_s=0.3),
    Storm("bucket", "openai", retry_after=True, workers=50),
)


@pytest.mark.slow
def test_storms_are_weathered(tmp_path: Path) -> None:
    """400 conversations against a server that lets 40 requests a second through; four storms at the same time."""
    folders = [tmp_path / str(number) for number in range(len(STORMS))]
    for folder in folders:
        folder.mkdir()
    with ThreadPoolExecutor(len(STORMS)) as pool:
        for storm, aftermath in zip(STORMS, pool.map(rage, STORMS, folders), strict=True):
            check_aftermath(storm, aftermath)


def check_aftermath(storm: Storm, aftermath: Aftermath) -> None:
    assert aftermath.exit_code == 0, (storm, aftermath.shown)
    assert (aftermath.summary["passed"], aftermath.summary["total"]) == (CASES, CASES)
    # The opening, which is sent before the first answer, cannot be helped; nor what those send next who were let
    # through, because they may hear of that before the others hear that they were not. What follows has learnt from it.
    later = [passed for _, passed in aftermath.requests[storm.workers + PER_SECOND :]]
    assert len(later) > CASES // 2
    assert later.count(False) < 0.1 * len(later), storm
    [limits] = aftermath.run["limits"]
    assert limits["name"] == "openai"
    assert (limits["requests"], limits["refused"]) == (len(aftermath.requests), aftermath.server_refused)
    assert limits["refused"] == aftermath.refused > 0
    assert limits["waited_s"] > 0
    assert 20 < limits["rate"] < 80
    assert aftermath.summary["limits"] == aftermath.run["limits"]
    [target] = limits["targets"]
    told = f"{target} (openai): {limits['refused']:,} of {limits['requests']:,} requests refused"
    assert told in aftermath.shown
